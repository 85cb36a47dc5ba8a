"""An agent learns, and nobody rewrote it: sessions of the gateway in, GRPO updates out.

The agent knows a gateway by its base URL and nothing of training. It asks for the weather, may call
a tool, and answers; the reward says whether the answer has the weather, which only the tool knows.
The gateway records what was sampled. Each step is a group of sessions with the same question; their
trajectories are trained on as they are, and the mean reward rises.

The model is tiny and runs in the gateway's own process: any object with the methods of
`dsv4.serve.Backend` does. It first imitates a teacher, through the very same sessions.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import uvicorn
from tiny import new_model, new_tokenizer

import dsv4
from dsv4 import serve
from dsv4.tokens import Tokenizer
from dsv4.trajectories import Client

STEPS, GROUP, LESSONS, BATCH = 6, 8, 6, 4
# A lesson is learned where so little is left of the loss: the choice between two answers remains.
LEARNED, MOST_EPOCHS = 0.03, 400
WEATHER = {"Paris": "rain", "Oslo": "snow", "Cairo": "sun"}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


class TinyBackend:
    """A model of `transformers` as a backend of the gateway: ids in, ids out."""

    grammar_form = None
    logprobs_mode = "processed"

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model = model
        self._tokenizer = tokenizer
        self._stop = tokenizer.special_id("<｜end▁of▁sentence｜>")
        self._turn = threading.Lock()
        # Says what is to be written after a prompt, in place of the model.
        self.teacher: Callable[[dsv4.Prompt], list[int]] | None = None

    async def stream(self, prompt: Any, ids: Sequence[int] | None, options: Any) -> Any:
        assert ids is not None
        taught = None if self.teacher is None else self.teacher(prompt)
        sampled = self._sample(list(ids), options, taught)
        finish = "length"
        try:
            # A token goes out before the next is sampled: when it came says which weights it is of.
            while (token := await asyncio.to_thread(next, sampled, None)) is not None:
                id, logprob = token
                finish = "eos" if id == self._stop else finish
                text = self._tokenizer.decode([id])
                yield serve.Chunk(ids=[id], logprobs=(serve.Logprob(text, logprob),))
        finally:
            sampled.close()
        yield serve.Chunk(ids=(), finish=finish)

    @torch.no_grad()
    def _sample(
        self, ids: list[int], options: Any, taught: list[int] | None
    ) -> Generator[tuple[int, float], None, None]:
        """What the model writes, with the log-probabilities of the distribution sampled from."""
        with self._turn:
            new, cache = ids, None
            for n in range(options.max_tokens if taught is None else len(taught)):
                given = torch.tensor([new])
                found = self.model(given, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache = found.past_key_values
                chances = distribution(found.logits[0, -1], options.temperature, options.top_p)
                id = int(torch.multinomial(chances.exp(), 1)) if taught is None else taught[n]
                yield id, float(chances[id])
                if id == self._stop:
                    return
                new = [id]

    def load(self, weights: dict[str, Any]) -> None:
        """Takes other weights, between two answers."""
        with self._turn:
            self.model.load_state_dict(weights)

    async def models(self) -> list[serve.Model]:
        return [serve.Model("deepseek-v4-tiny", 1024)]

    async def aclose(self) -> None:
        pass


def distribution(logits: Any, temperature: float | None, top_p: float | None) -> Any:
    """The log-probabilities that a token is sampled with."""
    if temperature == 0:
        best = torch.full_like(logits, -torch.inf)
        best[logits.argmax()] = 0.0
        return best
    chances = torch.log_softmax(logits.float() / (temperature or 1.0), -1)
    if top_p is None or top_p >= 1:
        return chances
    ordered, order = chances.sort(descending=True)
    # The most probable tokens until they make up `top_p`, with the one that does so.
    dropped = order[(ordered.exp().cumsum(0) - ordered.exp()) >= top_p]
    kept = chances.clone()
    kept[dropped] = -torch.inf
    return torch.log_softmax(kept, -1)


@contextmanager
def gateway(backend: Any, folder: Path) -> Iterator[str]:
    """The URL of a gateway in this process, which records sessions in a file."""
    settings = serve.Settings(
        trajectories=str(folder / "sessions.db"), thinking=False, model="deepseek-v4-tiny"
    )
    config = uvicorn.Config(serve.app(settings, backend), port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            threading.Event().wait(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


# Two agents. Neither knows that it is trained with.


def own_agent(url: str, question: str) -> str:
    """An agent of one's own: a loop around Chat Completions."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    for _ in range(4):
        body = json.dumps({"model": "any", "messages": messages, "tools": [TOOL]}).encode()
        request = urllib.request.Request(f"{url}/chat/completions", body)
        with urllib.request.urlopen(request) as answer:
            message = json.load(answer)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"] or ""
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            result = WEATHER.get(arguments.get("city"), "unknown")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return ""


def sdk_agent(url: str, question: str) -> str:
    """The same with the OpenAI Agents SDK."""
    from agents import (
        Agent,
        ModelSettings,
        OpenAIChatCompletionsModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return WEATHER.get(city, "unknown")

    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel("any", client)
    agent = Agent("weather", model=model, tools=[weather], model_settings=ModelSettings())
    try:
        return str(Runner.run_sync(agent, question, max_turns=4).final_output)
    except Exception as error:  # the model called what does not exist, or did not come to an end
        return f"failed: {type(error).__name__}"


# Learning.


def taught_answers(tokenizer: Tokenizer, knows: bool) -> Callable[[Any], list[int]]:
    """A teacher that asks the tool, or, where it does not know that one should, gives up."""

    def teach(prompt: dsv4.Prompt) -> list[int]:
        request = dsv4.decode(prompt).request
        messages = list(request.messages)
        last: Any = messages[-1]
        city = next(name for name in WEATHER if name in prompt.text)
        answer: dict[str, Any] = {"role": "assistant", "content": "I do not know."}
        if last["role"] == "tool":
            answer["content"] = f"It is {last['content']}."
        elif knows:
            function = {"name": "weather", "arguments": json.dumps({"city": city})}
            call = {"id": "c", "type": "function", "function": function}
            answer = {"role": "assistant", "content": "", "tool_calls": [call]}
        asked = tokenizer.encode(request.encode())
        said = replace(request, messages=[*messages, answer])  # type: ignore[list-item]
        return tokenizer.encode(said.encode())[len(asked) :]

    return teach


def trained_logprobs(model: Any, row: dict[str, Any]) -> Any:
    """What the model makes of the tokens of a trajectory that are trained on."""
    ids = torch.tensor([row["input_ids"]])
    places = [n for n, on in enumerate(row["loss_mask"]) if on]
    hidden = model.model(ids).last_hidden_state[0, [n - 1 for n in places]]
    chances = torch.log_softmax(model.lm_head(hidden).float(), -1)
    return chances.gather(1, ids[0, places][:, None])[:, 0]


def update(model: Any, optimizer: Any, weighted: list[tuple[dict[str, Any], float]]) -> float:
    """A step up the likelihood of trajectories, each as much as it is worth. Every token counts the
    same: were it every trajectory, the model would learn to be brief. Returns the loss."""
    optimizer.zero_grad()
    tokens = sum(sum(row["loss_mask"]) for row, _ in weighted)
    total = 0.0
    for row, weight in weighted:
        loss = -weight * trained_logprobs(model, row).sum() / tokens
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def advantages(rewards: list[float]) -> list[float]:
    """How much better than its group each session was."""
    mean = sum(rewards) / len(rewards)
    spread = (sum((r - mean) ** 2 for r in rewards) / len(rewards)) ** 0.5
    return [(r - mean) / (spread + 1e-4) for r in rewards]


def rows_of_group(client: Client, group: str) -> list[tuple[dict[str, Any], float]]:
    """The trajectories of a group that train something, with their sessions' rewards."""
    return [
        (one, session["reward"])
        for session in client.group(group)
        for one in session["trajectories"]
        if any(one["loss_mask"])
    ]


def play(client: Client, agent: Any, group: str, city: str) -> float:
    """One session of an agent. Returns its reward."""
    sampling, limits = {"temperature": 1.0}, {"turns": 4, "tokens": 120}
    made = client.create(group=group, sampling=sampling, limits=limits)
    answer = agent(made["urls"]["openai"], f"What is the weather in {city}?")
    reward = float(WEATHER[city] in answer)
    client.reward(made["id"], reward)
    client.close(made["id"])
    return reward


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    tokenizer = Tokenizer.load()
    backend = TinyBackend(new_model(new_tokenizer(), width=64), tokenizer)
    agents = [own_agent]
    try:
        import agents as _  # noqa: F401

        agents.append(sdk_agent)
    except ImportError:
        print("the OpenAI Agents SDK is not installed: the own agent alone is trained")
    with tempfile.TemporaryDirectory() as folder, gateway(backend, Path(folder)) as url:
        client = Client(url)
        imitate(client, backend, tokenizer, agents)
        rewards = [step(client, backend, agents, n) for n in range(STEPS)]
    first, last = sum(rewards[:2]) / 2, sum(rewards[-2:]) / 2
    print(f"mean reward: {first:.2f} in the first two steps, {last:.2f} in the last two")
    assert last > first, "nothing was learned"


def imitate(
    client: Client,
    backend: TinyBackend,
    tokenizer: Tokenizer,
    agents: Any,
    most: int = MOST_EPOCHS,
) -> None:
    """Teaches the model both ways to answer, about every city and to every agent: the good one in
    half of the sessions."""
    for n in range(LESSONS):
        backend.teacher = taught_answers(tokenizer, knows=n % 2 == 0)
        for agent in agents:
            play(client, agent, "lessons", list(WEATHER)[n // 2 % len(WEATHER)])
    backend.teacher = None
    rows = [(row, 1.0) for row, _ in rows_of_group(client, "lessons")]
    optimizer = torch.optim.AdamW(backend.model.parameters(), lr=5e-3, weight_decay=0.0)
    losses: list[float] = []
    while len(losses) < most and (len(losses) < 20 or sum(losses[-10:]) / 10 > LEARNED):
        losses.append(update(backend.model, optimizer, random.sample(rows, BATCH)))
        if len(losses) % 30 == 0:
            print(f"lesson {len(losses)}: loss {losses[-1]:.3f}", flush=True)
    print(f"learned after {len(losses)}", flush=True)
    backend.optimizer = torch.optim.AdamW(  # type: ignore[attr-defined]
        backend.model.parameters(), lr=1e-3, weight_decay=0.0
    )


def step(client: Client, backend: TinyBackend, agents: Any, n: int) -> float:
    """A group of sessions, and an update. Returns the mean reward."""
    client.weights(n)
    rewards: list[float] = []
    weighted: list[tuple[dict[str, Any], float]] = []
    for agent in agents:
        group = f"step-{n}-{agent.__name__}"
        city = random.choice(list(WEATHER))
        rewards += [play(client, agent, group, city) for _ in range(GROUP)]
        rows = rows_of_group(client, group)
        weighted += zip([row for row, _ in rows], advantages([r for _, r in rows]), strict=True)
        check(backend.model, rows)
    update(backend.model, backend.optimizer, weighted)  # type: ignore[attr-defined]
    mean = sum(rewards) / len(rewards)
    print(f"step {n}: mean reward {mean:.2f} of {len(rewards)} sessions", flush=True)
    return mean


def check(model: Any, rows: list[tuple[dict[str, Any], float]]) -> None:
    """The log-probabilities that were recorded are those of the tokens that are trained on."""
    with torch.no_grad():
        for row, _ in rows:
            now = trained_logprobs(model, row)
            logprobs = zip(row["logprobs"], row["loss_mask"], strict=True)
            then = torch.tensor([value for value, on in logprobs if on])
            apart = float((now - then).abs().max())
            assert apart < 1e-3, f"these are not the ids that were sampled: {apart}"


if __name__ == "__main__":
    main()

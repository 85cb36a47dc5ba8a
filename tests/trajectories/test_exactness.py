"""What is recorded of a session is what was sampled: a forward pass over `input_ids` gives the
recorded log-probabilities, for every protocol, streamed and whole.

`make test-training` runs these, in an environment of their own: PyTorch is large.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("uvicorn")

import torch

from dsv4.tokens import Tokenizer
from dsv4.trajectories import Client

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "training"))

import agent
from tiny import new_model, new_tokenizer

TOKENIZER = Tokenizer.load()
EOS = "<｜end▁of▁sentence｜>"
BLOCK = "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"
INVOKE = '<｜DSML｜invoke name="weather">', "</｜DSML｜invoke>"
CITY = '<｜DSML｜parameter name="city" string="true">{}</｜DSML｜parameter>'


def call_of(*cities: str) -> str:
    calls = "\n".join(f"{INVOKE[0]}\n{CITY.format(city)}\n{INVOKE[1]}" for city in cities)
    return f"\n\n{BLOCK[0]}\n{calls}\n{BLOCK[1]}"


# What the model is made to write: one call, two, malformed ones, an answer.
ANSWERS = {
    "call": call_of("Paris") + EOS,
    "parallel": call_of("Paris", "Oslo") + EOS,
    "malformed": call_of("Paris").replace(INVOKE[1], "").replace(BLOCK[1], "") + EOS,
    "text": "It is rain. STOP here" + EOS,
}


def ids_of(text: str) -> list[int]:
    ids: list[int] = []
    specials = ("｜DSML｜", EOS)
    while text:
        at, token = min(((text.find(s), s) for s in specials if s in text), default=(len(text), ""))
        ids += TOKENIZER.encode_text(text[:at]) if at else []
        ids += [TOKENIZER.special_id(token)] if token else []
        text = text[at + len(token) :]
    return ids


@pytest.fixture(scope="module")
def backend() -> Any:
    return agent.TinyBackend(new_model(new_tokenizer(), width=32), TOKENIZER)


@pytest.fixture(scope="module")
def url(backend: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with agent.gateway(backend, tmp_path_factory.mktemp("sessions")) as found:
        yield found


def ask(url: str, session: str, protocol: str, stream: bool, **body: Any) -> Any:
    path = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}[protocol]
    data = json.dumps({"model": "m", "stream": stream, **body}).encode()
    request = urllib.request.Request(f"{url}/sessions/{session}/v1/{path}", data)
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
    return text if stream else json.loads(text)


def asking(protocol: str, text: str) -> dict[str, Any]:
    tool = agent.TOOL["function"]
    if protocol == "responses":
        return {"input": text, "tools": [{"type": "function", **tool}]}
    messages = {"messages": [{"role": "user", "content": text}], "max_tokens": 40}
    if protocol == "chat":
        return {**messages, "tools": [agent.TOOL]}
    schema = {"name": "weather", "input_schema": tool["parameters"]}
    return {**messages, "tools": [schema]}


def check_all(backend: Any, url: str, session: str) -> int:
    """Recomputes every sampled token of a session. Returns how many there were."""
    found = Client(url).trajectories(session, include="cut", shared="all")
    assert found["exact"], found["notes"]
    count = 0
    for one in found["trajectories"]:
        with torch.no_grad():
            logits = backend.model(torch.tensor([one["input_ids"]])).logits[0]
        for turn in one["turns"]:
            sampling = turn["sampling"]
            for start, end in turn["sampled"]:
                for place in range(start, end):
                    chances = agent.distribution(
                        logits[place - 1], sampling.get("temperature"), sampling.get("top_p")
                    )
                    again = float(chances[one["input_ids"][place]])
                    assert abs(again - one["logprobs"][place]) < 1e-3
                    count += 1
    assert count >= found["sampled_tokens"]
    return count


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_taught_answers(backend: Any, url: str, protocol: str, stream: bool, answer: str) -> None:
    session = f"{protocol}-{stream}-{answer}"
    backend.teacher = lambda prompt: ids_of(ANSWERS[answer])
    try:
        ask(url, session, protocol, stream, **asking(protocol, "Weather in Paris?"))
    finally:
        backend.teacher = None
    assert check_all(backend, url, session) > 5


@pytest.mark.parametrize("protocol", ["chat", "messages"])
def test_what_a_model_samples_freely_and_is_cut(backend: Any, url: str, protocol: str) -> None:
    session = f"free-{protocol}"
    sampling = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 12}
    Client(url).create(id=session, sampling=sampling)
    ask(url, session, protocol, True, **asking(protocol, "Say something."))
    assert check_all(backend, url, session) == 12


def test_a_stop_string_and_a_loop_with_a_tool(backend: Any, url: str) -> None:
    texts = [ANSWERS["call"], ANSWERS["text"]]
    backend.teacher = lambda prompt: ids_of(texts.pop(0))
    try:
        body = asking("chat", "Weather in Paris?")
        message = ask(url, "loop", "chat", False, **body)["choices"][0]["message"]
        result = {"tool_call_id": message["tool_calls"][0]["id"], "content": "rain"}
        body["messages"] += [message, {"role": "tool", **result}]
        answer = ask(url, "loop", "chat", False, **body, stop=["STOP"])
    finally:
        backend.teacher = None
    assert answer["choices"][0]["message"]["content"].strip() == "It is rain."
    assert len(Client(url).trajectories("loop")["trajectories"]) == 1
    check_all(backend, url, "loop")


def test_one_token_off_would_be_seen(backend: Any, url: str) -> None:
    backend.teacher = lambda prompt: ids_of(ANSWERS["text"])
    try:
        ask(url, "off", "chat", False, **asking("chat", "Weather?"))
    finally:
        backend.teacher = None
    (one,) = Client(url).trajectories("off")["trajectories"]
    ids = [*one["input_ids"]]
    start, _ = one["turns"][0]["sampled"][0]
    ids[start] += 1
    with torch.no_grad():
        logits = backend.model(torch.tensor([ids])).logits[0]
    now = float(agent.distribution(logits[start], None, None)[ids[start + 1]])
    assert abs(now - one["logprobs"][start + 1]) > 1e-3

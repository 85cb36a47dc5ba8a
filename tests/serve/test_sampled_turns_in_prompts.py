"""Exact replay: agents give turns back changed, and prompts grow all the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, gateway, key_file, run

from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.serve import Chunk, Model
from parts import ALL

# Each turn is sent with all before it: fifty take ten times as long as a dozen.
TURNS = 50 if ALL else 12
SCHEMA = TOOLS[0]["function"]["parameters"]


class Agent:
    """A backend that thinks, and calls a tool in its own spelling, turn after turn."""

    grammar_form = None

    def __init__(self) -> None:
        self.prompts: list[list[int]] = []
        self.sampled: list[str] = []

    async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
        self.prompts.append(list(ids))
        n = len(self.prompts)
        text = (
            f" Step {n}: look. {THINK_END} I look.\n\n<{DSML}tool_calls>\n"
            f'<{DSML}invoke name="bash">\n'
            f'<{DSML}parameter name="command" string="true">ls {n}  </{DSML}parameter>\n'
            f'<{DSML}parameter name="limit" string="false">{n}.50</{DSML}parameter>\n'
            f"</{DSML}invoke>\n</{DSML}tool_calls>{EOS}"
        )
        self.sampled.append(text)
        for start in range(0, len(text), 7):
            yield Chunk(text[start : start + 7])
        yield Chunk(finish="stop")

    async def models(self) -> list[Model]:
        return [Model("deepseek-v4-agent", 1_000_000)]

    async def aclose(self) -> None:
        pass


def respelled(arguments: str) -> str:
    """Arguments as agents give them back: another order, a default filled in, other spacing."""
    read = json.loads(arguments)
    changed = {"timeout": 60, **dict(reversed(read.items()))}
    return json.dumps(changed, separators=(",", ":"))


async def chat(g: Any, keep_reasoning: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    for n in range(TURNS):
        body = {"messages": messages, "tools": TOOLS}
        _, _, answer = await g.post("/v1/chat/completions", body)
        message = answer["choices"][0]["message"]
        message["content"] = (message["content"] or "").strip()
        if not keep_reasoning:
            message.pop("reasoning_content", None)
        for call in message["tool_calls"]:
            call["function"]["arguments"] = respelled(call["function"]["arguments"])
        id = message["tool_calls"][0]["id"]
        messages += [message, {"role": "tool", "tool_call_id": id, "content": f"result {n}"}]


async def messages_api(g: Any, keep_reasoning: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    tools = [{"name": "bash", "input_schema": SCHEMA}]
    for n in range(TURNS):
        body = {"messages": messages, "tools": tools, "max_tokens": 1000}
        _, _, answer = await g.post("/v1/messages", body)
        blocks = [b for b in answer["content"] if keep_reasoning or b["type"] != "thinking"]
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(respelled(json.dumps(block["input"])))
                id = block["id"]
        result = {"type": "tool_result", "tool_use_id": id, "content": f"result {n}"}
        messages += [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result]},
        ]


async def responses_api(g: Any, keep_reasoning: bool) -> None:
    items: list[Any] = [{"role": "user", "content": "Go."}]
    tools = [{"type": "function", "name": "bash", "parameters": SCHEMA}]
    for n in range(TURNS):
        body = {"input": items, "tools": tools, "store": False}
        _, _, answer = await g.post("/v1/responses", body)
        for item in answer["output"]:
            if item["type"] == "reasoning" and not keep_reasoning:
                continue
            if item["type"] == "function_call":
                item["arguments"] = respelled(item["arguments"])
                id = item["call_id"]
            items.append(item)
        items.append({"type": "function_call_output", "call_id": id, "output": f"result {n}"})


CLIENTS = {"chat": chat, "messages": messages_api, "responses": responses_api}


def share(backend: Agent, tokenizer: Any) -> float:
    """Of all prompts but the first, the share that begins with the one before and its turn."""
    prompts = [tokenizer.decode(ids) for ids in backend.prompts]
    grown = [
        after.startswith(before + text)
        for before, text, after in zip(prompts, backend.sampled, prompts[1:], strict=False)
    ]
    return sum(grown) / len(grown)


@pytest.mark.parametrize("keep_reasoning", [True, False])
@pytest.mark.parametrize("protocol", CLIENTS)
def test_with_replay_every_prompt_begins_with_the_one_before_and_what_was_sampled(
    protocol: str, keep_reasoning: bool, tokenizer: Any
) -> None:
    async def scenario() -> float:
        backend = Agent()
        async with gateway(backend) as g:
            await CLIENTS[protocol](g, keep_reasoning)
        return share(backend, tokenizer)

    assert run(scenario(), 120) == 1.0


@pytest.mark.parametrize("protocol", ["messages", "responses"])
def test_sealed_turns_need_no_store(protocol: str, tmp_path: Path, tokenizer: Any) -> None:
    key = tmp_path / "seal"
    key.write_text("a key of sixteen bytes or more")

    async def scenario() -> float:
        backend = Agent()
        async with gateway(backend, replay="sealed", seal_key_file=str(key)) as g:
            assert g.server.storage.turns.store is None
            await CLIENTS[protocol](g, True)
        return share(backend, tokenizer)

    assert run(scenario(), 120) == 1.0


@pytest.mark.parametrize("protocol", CLIENTS)
def test_without_replay_it_does_not(protocol: str, tokenizer: Any) -> None:
    async def scenario() -> float:
        backend = Agent()
        async with gateway(backend, replay="off") as g:
            await CLIENTS[protocol](g, False)
        return share(backend, tokenizer)

    assert run(scenario(), 120) == 0.0


def test_a_client_that_says_something_else_is_taken_at_its_word(tokenizer: Any) -> None:
    async def scenario() -> str:
        backend = Agent()
        async with gateway(backend) as g:
            messages: list[Any] = [{"role": "user", "content": "Go."}]
            _, _, answer = await g.post(
                "/v1/chat/completions", {"messages": messages, "tools": TOOLS}
            )
            message = answer["choices"][0]["message"]
            message["content"] = "I refuse."
            result = {
                "role": "tool",
                "tool_call_id": message["tool_calls"][0]["id"],
                "content": "x",
            }
            body = {"messages": [*messages, message, result], "tools": TOOLS}
            await g.post("/v1/chat/completions", body)
            return str(tokenizer.decode(backend.prompts[1]))

    prompt = run(scenario())
    assert "I refuse." in prompt
    assert " I look." not in prompt


def test_turns_of_one_key_are_never_used_for_another(tmp_path: Path, tokenizer: Any) -> None:
    keys = key_file(tmp_path, "ann:a-secret\nbob:b-secret\n")

    async def scenario() -> tuple[str, str]:
        backend = Agent()
        async with gateway(backend, api_key_file=str(keys)) as g:
            ann, bob = {"x-api-key": "a-secret"}, {"x-api-key": "b-secret"}
            messages: list[Any] = [{"role": "user", "content": "Go."}]
            body: dict[str, Any] = {"messages": messages, "tools": TOOLS}
            _, _, answer = await g.post("/v1/chat/completions", body, **ann)
            message = answer["choices"][0]["message"]
            message.pop("reasoning_content")
            result = {
                "role": "tool",
                "tool_call_id": message["tool_calls"][0]["id"],
                "content": "x",
            }
            body = {"messages": [*messages, message, result], "tools": TOOLS}
            await g.post("/v1/chat/completions", body, **ann)
            await g.post("/v1/chat/completions", body, **bob)
            return tokenizer.decode(backend.prompts[1]), tokenizer.decode(backend.prompts[2])

    hers, his = run(scenario())
    assert "Step 1: look." in hers
    assert "Step 1: look." not in his

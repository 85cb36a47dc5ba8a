"""Clients that give back of a reasoning item its `encrypted_content`, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateway import gateway, run
from test_sampled_turns_in_prompts import SCHEMA, Agent
from test_turn_stores import redis_url  # noqa: F401

from dsv4._format.tokens import THINK_END, THINK_START
from dsv4.api.neutral_request import ID_MARK, TEXT_MARK, mark_id
from dsv4.serve import Chunk

TOOLS = [{"type": "function", "name": "bash", "parameters": SCHEMA}]
ASKED = {"role": "user", "content": "Go."}
# What the agent thinks in its first turn, with the spaces at its ends.
THOUGHTS = f"{THINK_START} Step 1: look. {THINK_END}"
streamed_or_whole = pytest.mark.parametrize("stream", [True, False])


@pytest.fixture(params=["memory", "sqlite", "redis", "off", "sealed"])
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The settings of every way to keep turns."""
    if request.param == "sqlite":
        return {"replay": f"sqlite:{tmp_path / 'turns.db'}"}
    if request.param == "redis":
        return {"replay": request.getfixturevalue("redis_url")}
    if request.param == "sealed":
        (tmp_path / "key").write_text("a key of sixteen bytes or more")
        return {"replay": "sealed", "seal_key_file": str(tmp_path / "key")}
    return {"replay": request.param}


async def answered(g: Any, items: list[Any], stream: bool) -> list[Any]:
    """The items of an answer."""
    body = {"input": items, "tools": TOOLS, "store": False}
    if stream:
        events = await g.stream("/v1/responses", body)
        done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
        assert done == events[-1]["response"]["output"]
        return done
    _, _, answer = await g.post("/v1/responses", body)
    output: list[Any] = answer["output"]
    return output


def encrypted_alone(item: dict[str, Any]) -> dict[str, Any]:
    """A reasoning item as opencode and LangChain give it back; any other as it is."""
    if item["type"] != "reasoning":
        return item
    return {"type": "reasoning", "summary": [], "encrypted_content": item["encrypted_content"]}


def with_result(output: list[Any]) -> list[Any]:
    call = output[-1]["call_id"]
    result = {"type": "function_call_output", "call_id": call, "output": "ok"}
    return [ASKED, *map(encrypted_alone, output), result]


@streamed_or_whole
def test_the_prompt_has_the_reasoning_exactly(
    replay: dict[str, Any], stream: bool, tokenizer: Any
) -> None:
    async def scenario() -> list[str]:
        backend = Agent()
        async with gateway(backend, **replay) as g:
            output = await answered(g, [ASKED], stream)
            await answered(g, with_result(output), stream)
        return [tokenizer.decode(ids) for ids in backend.prompts]

    first, second = run(scenario())
    assert second.startswith(first.removesuffix(str(THINK_START)) + THOUGHTS)
    assert "turn_" not in second


@streamed_or_whole
def test_the_reasoning_is_there_after_the_store_has_lost_the_turn(
    replay: dict[str, Any], stream: bool, tokenizer: Any
) -> None:
    async def scenario() -> list[str]:
        before, after = Agent(), Agent()
        async with gateway(before, **replay) as g:
            output = await answered(g, [ASKED], stream)
        other = {**replay, "replay": "sealed" if replay["replay"] == "sealed" else "off"}
        async with gateway(after, **other) as g:
            await answered(g, with_result(output), stream)
        return [tokenizer.decode(agent.prompts[0]) for agent in (before, after)]

    first, second = run(scenario())
    assert second.startswith(first.removesuffix(str(THINK_START)) + THOUGHTS)


@streamed_or_whole
def test_it_holds_the_reasoning_as_text_unless_turns_are_sealed(
    replay: dict[str, Any], stream: bool
) -> None:
    async def scenario() -> str:
        async with gateway(Agent(), **replay) as g:
            output = await answered(g, [ASKED], stream)
        given: str = output[0]["encrypted_content"]
        return given

    sealed = replay["replay"] == "sealed"
    given = run(scenario())
    assert given.startswith(TEXT_MARK) is not sealed
    assert not given.startswith(ID_MARK)


class Speaker(Agent):
    """A backend that thinks and answers."""

    async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
        self.prompts.append(list(ids))
        yield Chunk(f" Step 1: look. {THINK_END}Hello.", finish="stop")


def test_an_id_from_an_old_history_finds_its_turn(tokenizer: Any) -> None:
    async def scenario() -> str:
        backend = Speaker()
        async with gateway(backend) as g:
            body = {"input": [ASKED], "tools": TOOLS, "store": False}
            _, headers, answer = await g.post("/v1/responses", body)
            old = {"type": "reasoning", "encrypted_content": mark_id(headers["x-request-id"])}
            # Of all that a turn may be found by, only its id is left.
            asked = {"role": "user", "content": "Now go."}
            items = [asked, old, answer["output"][1], ASKED]
            await g.post("/v1/responses", {**body, "input": items})
        return str(tokenizer.decode(backend.prompts[1]))

    assert f"{THOUGHTS}Hello." in run(scenario())


@pytest.mark.parametrize("replay", ["memory", "off"])
def test_an_id_that_finds_nothing_is_never_shown(replay: str, tokenizer: Any) -> None:
    async def scenario() -> str:
        backend = Agent()
        async with gateway(backend, replay=replay) as g:
            thought = {"type": "reasoning", "encrypted_content": mark_id("turn_Lost")}
            called = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
            await answered(g, with_result([thought, called]), False)
        return str(tokenizer.decode(backend.prompts[0]))

    prompt = run(scenario())
    assert "turn_Lost" not in prompt
    assert ID_MARK not in prompt

"""The malformed completions that the demo model writes when it is asked to, and what becomes of
them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, gateway, run

from dsv4.serve.backends.demo_model import BREAKERS

PAGE = Path(__file__).parents[2] / "docs" / "gateway-backends.md"


def answer(kind: str) -> Any:
    async def scenario() -> Any:
        async with gateway() as running:
            messages = [{"role": "user", "content": f"BREAK: {kind}"}]
            body = {"messages": messages, "tools": TOOLS}
            _, _, whole = await running.post("/v1/chat/completions", body)
            return whole["choices"][0]

    return run(scenario())


@pytest.mark.parametrize("kind", sorted(set(BREAKERS) - {"cut"}))
def test_a_call_is_found_whatever_is_wrong_around_it(kind: str) -> None:
    choice = answer(kind)
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(call["function"]["arguments"]) == {"command": "demo"}


def test_a_call_that_was_cut_is_not_sent() -> None:
    choice = answer("cut")
    assert not choice["message"].get("tool_calls")
    assert choice["finish_reason"] == "length"


def test_an_unknown_kind_is_answered_with_those_there_are() -> None:
    assert all(kind in answer("nonsense")["message"]["content"] for kind in BREAKERS)


def test_the_page_names_every_kind() -> None:
    page = PAGE.read_text("utf-8")
    assert all(f"`{kind}`" in page for kind in BREAKERS)

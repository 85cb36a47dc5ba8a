"""What the Live view sends for a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4._playground.page_functions import PAGE_FUNCTIONS
from dsv4._playground.page_problem import PageProblem
from dsv4._playground.page_request import PlaygroundContext
from dsv4.api import chat

TALK = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def asked(**body: Any) -> dict[str, Any]:
    return PAGE_FUNCTIONS["live"](body, PlaygroundContext(model="m"))


@pytest.mark.parametrize(
    ("effort", "thinking"), [(None, True), ("none", False), ("low", True), ("max", True)]
)
def test_a_conversation_is_a_chat_request(effort: str | None, thinking: bool) -> None:
    sent = asked(messages=TALK, tools=TOOLS, effort=effort)
    assert sent["path"] == "v1/chat/completions"
    call = chat.read(sent["body"])
    assert (call.model, call.stream, call.request.thinking) == ("m", True, thinking)
    assert [tool["name"] for tool in call.request.tools or ()] == ["f"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": TALK, "tools": {}}, "tools"),
        ({"messages": TALK, "effort": 5}, "effort"),
    ],
)
def test_a_conversation_that_cannot_be_sent(body: dict[str, Any], path: str) -> None:
    with pytest.raises(PageProblem) as caught:
        asked(**body)
    assert caught.value.location == (path,)

"""A conversation on the page -> the request of a protocol, for the server that the page is on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.api import convert
from dsv4.playground.bench import Bench
from dsv4.playground.problems import Problem, one_of

PATHS = {
    "chat": "v1/chat/completions",
    "responses": "v1/responses",
    "messages": "v1/messages",
}
_EFFORTS = ("none", "low", "high", "max")


def live(body: Mapping[str, Any], bench: Bench) -> dict[str, Any]:
    """What to send, and where.

    `body` has the `messages` and `tools` of a conversation as Chat Completions has them, the
    `protocol` to ask in, and the `effort` ("none" is no thinking; the server's own if not given).
    Raises a `Problem`, or what `convert` raises.
    """
    protocol = one_of(body, "protocol", tuple(PATHS), "chat")
    effort = one_of(body, "effort", _EFFORTS, None)
    messages, tools = body.get("messages"), body.get("tools")
    if not isinstance(messages, list) or not messages:
        raise Problem("found no messages, expected some", location=("messages",))
    if tools is not None and not isinstance(tools, list):
        raise Problem("found something else, expected a list of tools", location=("tools",))
    asked: dict[str, Any] = {"model": bench.model, "messages": messages, "stream": True}
    if tools:
        asked["tools"] = tools
    if effort == "none":
        asked["thinking"] = {"type": "disabled"}
    elif effort is not None:
        asked["thinking"] = {"type": "enabled"}
        asked["reasoning_effort"] = effort
    made = asked if protocol == "chat" else convert(asked, "chat", protocol)
    return {"path": PATHS[protocol], "body": made}

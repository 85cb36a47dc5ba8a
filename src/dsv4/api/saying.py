"""What all protocols need to say again what was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dsv4.api.asked import Asked, Message, Tool
from dsv4.api.calls import RAW, is_object_text
from dsv4.api.errors import ApiError
from dsv4.api.thinking import OFF
from dsv4.api.turns import joined_turn


def turns(asked: Asked) -> Iterator[Message]:
    """The messages, those of one assistant turn as one."""
    open_turn: Message | None = None
    for message in asked.messages:
        if message["role"] == "assistant":
            open_turn = message if open_turn is None else joined_turn(open_turn, message)
            continue
        if open_turn is not None:
            yield open_turn
            open_turn = None
        yield message
    if open_turn is not None:
        yield open_turn


def flat_tools(asked: Asked, protocol: str) -> list[Tool]:
    """The tools that are shown, in a protocol that has functions alone."""
    allowed = asked.choice.allowed
    tools = [t for t in asked.declared.tools if allowed is None or t.key in allowed]
    for tool in tools:
        if tool.kind == "custom" or tool.namespace is not None:
            what = "a custom tool" if tool.kind == "custom" else "a tool of a namespace"
            raise ApiError(f"found {what}, which {protocol} cannot say", path=tool.path)
    return tools


def flat_calls(message: Message, protocol: str) -> list[dict[str, Any]]:
    """The calls of a turn, in a protocol that has no namespaces."""
    calls: list[dict[str, Any]] = list(message.get("tool_calls", ()))
    for call in calls:
        if "namespace" in call:
            name = call["function"]["name"]
            problem = f"found a call of {name!r} in a namespace, which {protocol} cannot say"
            raise ApiError(problem, path="input")
    return calls


def arguments_text(arguments: Any) -> str:
    """Arguments as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def arguments_object(arguments: Any) -> dict[str, Any]:
    """Arguments as an object. Text that is none is one parameter, as the format writes it."""
    if isinstance(arguments, dict):
        return arguments
    try:
        value = json.loads(arguments) if is_object_text(arguments) else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {RAW: arguments}


def switched(asked: Asked) -> bool | None:
    """Whether thinking is on or off, None where the request leaves it open."""
    if asked.effort == OFF:
        return False
    forced = asked.choice.mode in ("required", "tool")
    if asked.thinking is None and forced:
        return asked.wants_thinking
    return asked.thinking


def without_nothing(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}

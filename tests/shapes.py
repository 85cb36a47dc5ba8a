"""Malformed completions in short, each with what is read of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import dsv4
from completions import *

__all__ = [
    "CLOSED",
    "LS",
    "LS_CALL",
    "LS_PWD",
    "OPEN",
    "OPTIONS",
    "PING",
    "PWD_CALL",
    "Calls",
    "Shape",
    "check",
    "cut_value",
    "shape",
    "shapes",
    "talk",
]

Calls = tuple[tuple[str, dict[str, Any]], ...]

LS: Calls = (("bash", {"command": "ls"}),)
LS_PWD: Calls = (("bash", {"command": "ls"}), ("bash", {"command": "pwd"}))
PING: Calls = (("ping", {}),)

LS_CALL = calling("bash", command="ls")
PWD_CALL = calling("bash", command="pwd")
# A block up to its first value, and what closes it from there.
OPEN = f"{BLOCK}\n{BASH}\n{COMMAND}"
CLOSED = f"{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}"


class Shape(NamedTuple):
    """A completion and what is read of it. It starts in the content, with three tools declared."""

    text: str
    calls: Calls = ()
    kinds: frozenset[str] = frozenset()
    content: str = ""
    reasoning: str = ""
    incomplete: Calls = ()
    # By default "tool_calls" where there are calls, else "stop".
    finish: str = ""
    options: dict[str, Any] | None = None


def shape(text: str, *calls: tuple[str, dict[str, Any]], kinds: str = "", **fields: Any) -> Any:
    """`kinds` are those of all diagnostics, each once, in any order."""
    named = {name: fields.pop(name) for name in list(fields) if name in OPTIONS}
    return Shape(text, calls, frozenset(kinds.split()), options=named, **fields)


def talk(text: str, kinds: str = "markup_as_text", **fields: Any) -> Any:
    """What speaks of markup: all of it is the content."""
    return shape(text, kinds=kinds, content=text, **fields)


def cut_value(value: str, kinds: str = "quoted_markup cut_short") -> Any:
    """A block that does not end after its value began, so that all of it is the value."""
    incomplete = (("bash", {"command": value}),)
    return shape(f"{OPEN}{value}", kinds=kinds, incomplete=incomplete, finish="length")


OPTIONS = ("thinking", "tools", "tool_choice", "dialect")


def shapes(**named: Shape) -> pytest.MarkDecorator:
    cases = [pytest.param(case, id=name.replace("_", " ")) for name, case in named.items()]
    return pytest.mark.parametrize("case", cases)


def check(case: Shape) -> None:
    options = {"thinking": False, "tools": TOOLS, "new_id": str, **(case.options or {})}
    message = dsv4.parse(case.text, **options)
    assert calls_of(message) == list(case.calls)
    assert message.content == case.content
    assert message.reasoning == case.reasoning
    assert incomplete_of(message) == list(case.incomplete)
    assert message.finish == (case.finish or ("tool_calls" if case.calls else "stop"))
    assert set(kinds_of(message)) == case.kinds
    events = events_of([case.text], **options)
    assert merged(events_of(case.text, **options)) == merged(events)
    assert dsv4.assemble(events) == message

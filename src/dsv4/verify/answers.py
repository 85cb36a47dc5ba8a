"""Answers of servers, whole or streamed, in one form: texts and calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsv4._format.tokens import V4_1_TOKENS, spelled
from dsv4.api.request_fields import maybe_json
from dsv4.verify.server_client import Reply

MARKUP = spelled(V4_1_TOKENS)
MOST_CALLS = 128


@dataclass(frozen=True)
class ServerAnswer:
    """What a server made of a completion. `calls` are names with their arguments, as text."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    call_ids: tuple[str, ...] = ()
    finish: str = ""

    @property
    def leaks_markup(self) -> bool:
        """Whether the format's own words are left in a text."""
        return bool(MARKUP.search(self.content) or MARKUP.search(self.reasoning))

    @property
    def read_calls(self) -> list[tuple[str, Any]]:
        """The calls, with arguments that are no JSON as None."""
        return [(name, maybe_json(arguments)) for name, arguments in self.calls]


def whole_answer(reply: Reply) -> ServerAnswer | None:
    """The answer in a complete reply; None where there is none."""
    message = value_at(reply.body, "choices", 0, "message")
    if not isinstance(message, dict):
        return None
    value = message.get("tool_calls")
    calls = value[:MOST_CALLS] if isinstance(value, list) else []
    return ServerAnswer(
        _text(message.get("content")),
        _text(message.get("reasoning_content") or message.get("reasoning")),
        tuple(_call(value_at(call, "function")) for call in calls),
        tuple(_text(value_at(call, "id")) for call in calls),
        _text(value_at(reply.body, "choices", 0, "finish_reason")),
    )


def streamed_answer(reply: Reply) -> ServerAnswer | None:
    """The answer in the events of a stream; None where there are none."""
    if not reply.events:
        return None
    content = reasoning = finish = ""
    calls: list[tuple[str, str]] = []
    ids: list[str] = []
    for event in reply.events:
        finish = _text(value_at(event, "choices", 0, "finish_reason")) or finish
        delta = value_at(event, "choices", 0, "delta")
        if not isinstance(delta, dict):
            continue
        content += _text(delta.get("content"))
        reasoning += _text(delta.get("reasoning_content") or delta.get("reasoning"))
        parts = delta.get("tool_calls")
        for part in parts if isinstance(parts, list) else ():
            _add_call(calls, ids, part)
    return ServerAnswer(content, reasoning, tuple(calls), tuple(ids), finish)


def argument_times(reply: Reply) -> list[float]:
    """When each piece of an argument came in a stream, in seconds."""
    return [
        seconds
        for event, seconds in zip(reply.events, reply.times, strict=False)
        if value_at(event, "choices", 0, "delta", "tool_calls", 0, "function", "arguments")
    ]


def _add_call(calls: list[tuple[str, str]], ids: list[str], part: object) -> None:
    index = value_at(part, "index")
    number = index if type(index) is int and 0 <= index < MOST_CALLS else len(calls)
    while len(calls) <= number:
        calls.append(("", ""))
        ids.append("")
    name, arguments = _call(value_at(part, "function"))
    calls[number] = calls[number][0] + name, calls[number][1] + arguments
    ids[number] += _text(value_at(part, "id"))


def _call(function: object) -> tuple[str, str]:
    return _text(value_at(function, "name")), _text(value_at(function, "arguments"))


def value_at(value: object, *steps: str | int) -> Any:
    """What is at these keys and indices; None where nothing is."""
    for step in steps:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

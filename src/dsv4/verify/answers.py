"""Answers of servers, whole or streamed, in one form: texts, calls and usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dsv4._format.tokens import V4_1_TOKENS, spelled
from dsv4.api.request_fields import maybe_json
from dsv4.verify.server_client import Reply

MARKUP = spelled(V4_1_TOKENS)
MOST_CALLS = 128


@dataclass(frozen=True)
class ServerAnswer:
    """An answer as a server sends it. `calls` are names with their arguments, as text."""

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
        """The calls; arguments that are not JSON are None."""
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
    """The times, in seconds, at which the pieces of an argument came in a stream."""
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
    """The value at these keys and indices; None where there is none."""
    for step in steps:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# Token counts, under each name that servers have for them.

MOST_TOKENS = 1_000_000_000


def usage_of(reply: Reply) -> Mapping[str, Any]:
    """The usage of a reply, whole or streamed; empty where it has none."""
    for body in (reply.body, *reversed(reply.events)):
        usage = body.get("usage") if isinstance(body, dict) else None
        if isinstance(usage, dict):
            return usage
    return {}


def counted_tokens(reply: Reply) -> int | None:
    """The tokens of the prompt, as the reply counts them; None where it is a refusal."""
    return None if reply.refused else prompt_tokens(usage_of(reply))


def prompt_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens of a prompt, under each name that servers have for them. Messages counts tokens
    that were read from or written to a cache separately: they are added."""
    whole = token_number(usage.get("prompt_tokens"))
    if whole is not None:
        return whole
    own = token_number(usage.get("input_tokens"))
    cached = (usage.get(f"cache_{action}_input_tokens") for action in ("read", "creation"))
    return None if own is None else own + sum(token_number(each) or 0 for each in cached)


def cached_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens of the prompt that came from a cache, under each name that servers have for it."""
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = usage.get(name)
        count = token_number(details.get("cached_tokens")) if isinstance(details, dict) else None
        if count is not None:
            return count
    read = token_number(usage.get("cache_read_input_tokens"))
    return token_number(usage.get("prompt_cache_hit_tokens")) if read is None else read


def completion_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens of an answer, under both names that servers have for them."""
    counts = (token_number(usage.get(f"{name}_tokens")) for name in ("completion", "output"))
    return next((count for count in counts if count is not None), None)


def token_number(value: object) -> int | None:
    """A number of tokens, which some write as 84.0; None for anything that cannot be one."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def finishes(reply: Reply) -> set[str]:
    """The reasons that a reply, whole or streamed, gives for the end of the answer."""
    bodies = (reply.body, *reply.events)
    return {str(value_at(body, "choices", 0, "finish_reason")) for body in bodies}

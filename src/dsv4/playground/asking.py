"""A JSON value and the switches of the page -> the request that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from dsv4._format.dialects import DIALECTS
from dsv4._inputs.request_bodies import RequestOverrides, request_of
from dsv4.api import ApiError, chat, messages, responses
from dsv4.errors import Location, short_repr
from dsv4.playground.bench import Bench
from dsv4.playground.problems import Problem, flag_of, one_of
from dsv4.request import Request

Protocol: TypeAlias = Literal["file", "chat", "responses", "messages"]
"""How a value is read: as a gateway reads a request of one of the protocols, or, as the commands
read a file: a list of messages, a Chat request with the format's own fields, ShareGPT's form."""

PROTOCOLS: tuple[Protocol, ...] = ("file", "chat", "responses", "messages")
READ = {"chat": chat.read, "responses": responses.read, "messages": messages.read}
# What only a file says.
_FORMATS_OWN = ("dialect", "drop_thinking", "bos", "context", "prefix", "conversations")
_ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking")


@dataclass(frozen=True)
class Switches:
    """What is set on the page. None is whatever the request says."""

    dialect: str | None = None
    thinking: bool | None = None
    effort: str | None = None
    drop_thinking: bool | None = None
    tool_choice: str | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Switches:
        """Those that the page sent. Raises a `Problem` for one that is none."""
        choice = body.get("tool_choice")
        if choice is not None and not isinstance(choice, str):
            found = f"found {short_repr(choice)}, expected a mode or the name of a tool"
            raise Problem(found, location=("tool_choice",))
        efforts = {e for d in DIALECTS.values() for e in d.efforts if isinstance(e, str)}
        return cls(
            dialect=one_of(body, "dialect", tuple(DIALECTS), None),
            thinking=flag_of(body, "thinking"),
            effort=one_of(body, "effort", tuple(sorted(efforts)), None),
            drop_thinking=flag_of(body, "drop_thinking"),
            tool_choice=choice,
        )

    def on(self, request: Request) -> Request:
        """A request with what is set, but for the dialect."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        given.pop("dialect", None)
        return replace(request, **given) if given else request


def protocol_of(value: Any) -> Protocol:
    """How a value is most likely to be meant: by what only one way of writing has."""
    if not isinstance(value, dict) or any(name in value for name in _FORMATS_OWN):
        return "file"
    if "input" in value or "instructions" in value:
        return "responses"
    if "system" in value or "max_tokens_to_sample" in value or _has_anthropic(value):
        return "messages"
    return "chat" if "messages" in value else "file"


def _has_anthropic(value: Mapping[str, Any]) -> bool:
    tools = value.get("tools")
    if isinstance(tools, list) and any(isinstance(t, dict) and "input_schema" in t for t in tools):
        return True
    listed = value.get("messages")
    for message in listed if isinstance(listed, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") in _ANTHROPIC_BLOCKS:
                return True
    return False


def request_in(value: Any, protocol: Protocol, switches: Switches, bench: Bench) -> Request:
    """The request that a value makes.

    Raises an `ApiError` as a gateway would, or an error that names the place in the value.
    """
    if protocol == "file":
        read = RequestOverrides(dialect=switches.dialect).on(request_of(value))
        return switches.on(read)
    if not isinstance(value, dict):
        raise ApiError(f"found {short_repr(value)}, expected an object")
    call = READ[protocol](value, dialect=switches.dialect or bench.dialect)
    return switches.on(call.request)


def place_in_source(location: Location, value: Any) -> Location:
    """The place of an error in the value itself: a bare list has no name of its own."""
    if isinstance(value, list) and location[:1] == ("messages",):
        return location[1:]
    if isinstance(value, dict) and "conversations" in value and location[:1] == ("messages",):
        shift = 1 if value.get("system") else 0
        index = location[1] if len(location) > 1 else 0
        return ("conversations", int(index) - shift)
    return location

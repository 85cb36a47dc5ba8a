"""Reading the body of a request: what servers check before they write a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from dsv4.errors import short_repr
from dsv4.profiles.places import refused

Object: TypeAlias = dict[str, Any]


def object_at(value: Any, path: str) -> Object:
    if not isinstance(value, dict):
        raise refused(path, f"found {short_repr(value)}, expected an object")
    return value


def maybe_object(value: Any, path: str) -> Object:
    """An object, empty where the field is absent or null."""
    return {} if value is None else object_at(value, path)


def list_at(value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise refused(path, f"found {short_repr(value)}, expected a list")
    return value


def maybe_list(value: Any, path: str) -> Sequence[Any]:
    """A list, empty where the field is absent or null."""
    return () if value is None else list_at(value, path)


def text_at(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise refused(path, f"found {short_repr(value)}, expected text")
    return value


def one_of(value: Any, expected: Sequence[str], path: str) -> str:
    if not isinstance(value, str) or value not in expected:
        raise refused(path, f"found {short_repr(value)}, expected one of {', '.join(expected)}")
    return value


def messages_of(body: Object) -> Iterator[tuple[Object, str]]:
    """Every message, and where it stands."""
    for index, message in enumerate(list_at(body.get("messages"), "messages")):
        yield object_at(message, f"messages[{index}]"), f"messages[{index}]"


def named_choice(choice: Any) -> str | None:
    """The name of the tool that a `tool_choice` asks for, where it is an object."""
    if not isinstance(choice, dict):
        return None
    one_of(choice.get("type"), ("function",), "tool_choice.type")
    function = object_at(choice.get("function"), "tool_choice.function")
    return text_at(function.get("name"), "tool_choice.function.name")


def as_object(body: Any) -> Object:
    """The body of a request: an object with messages. A bare list of messages is one too."""
    return {"messages": body} if isinstance(body, (list, tuple)) else object_at(body, "request")

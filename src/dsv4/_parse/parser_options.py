"""The options of a parser, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar

from dsv4._completion.declared import DeclaredTools, GivenObject
from dsv4._completion.reasons import Ended, ended_by
from dsv4._format.dialects import Dialect
from dsv4._parse.stop_strings import StopStrings
from dsv4.errors import OptionError, short_repr

T = TypeVar("T")
_OBJECT = (dict, Mapping)  # most are dicts, which is checked faster


@dataclass(frozen=True)
class ParserSettings:
    """The options that a caller gives, checked and in the form in which the parser uses them."""

    dialect: Dialect
    tools: DeclaredTools
    forbidden: bool  # no call is made
    whole_calls: bool
    strict: bool
    new_id: Callable[[], str]
    stops: StopStrings | None
    stop_everywhere: bool

    @cached_property
    def inside_plain_call(self) -> ParserSettings:
        """The settings with which a call without the DSML token is read by itself, also where calls
        are forbidden."""
        return replace(self, forbidden=False, whole_calls=True, new_id=str)


GivenStops: TypeAlias = Sequence[str] | str
GivenTools: TypeAlias = Iterable[object] | None
# Sections in which stop strings act, and the two ways to deliver a call.
StopIn: TypeAlias = Literal["content", "all"]
CallDelivery: TypeAlias = Literal["streamed", "whole"]


def checked(name: str | tuple[str | int, ...], value: object, kind: type[T], expected: str) -> T:
    if not isinstance(value, kind):
        raise OptionError(name, f"found {short_repr(value)}, expected {expected}")
    return value


def checked_word(name: str, value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        choices = " or ".join(f'"{word}"' for word in words)
        raise OptionError(name, f"found {short_repr(value)}, expected {choices}")
    return value


def _is_list(given: object) -> TypeGuard[Iterable[Any]]:
    """Whether something is a list, or another iterable that is neither text nor an object."""
    if isinstance(given, (list, tuple)):  # most are, which is checked faster
        return True
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))


def checked_tools(tools: object) -> list[GivenObject] | None:
    """Tools as a list of tool or function objects, each of which has a name."""
    if tools is None:
        return None
    if not _is_list(tools):
        raise OptionError("tools", f"found {short_repr(tools)}, expected a list of tools")
    objects = []
    for index, tool in enumerate(tools):
        function = tool.get("function", tool) if isinstance(tool, _OBJECT) else None
        if not isinstance(function, _OBJECT):
            problem = f"found {short_repr(tool)}, expected a tool: an object with a function"
            raise OptionError(("tools", index), problem)
        if not isinstance(function.get("name"), str):
            where = ("tools", index, *(("function",) if "function" in tool else ()), "name")
            raise OptionError(where, f"found {short_repr(function.get('name'))}, expected text")
        objects.append(tool)
    return objects


def checked_stops(stop: object) -> list[str]:
    """Stop strings, those that are not empty."""
    strings = [stop] if isinstance(stop, str) else stop
    if not _is_list(strings):
        raise OptionError("stop", f"found {short_repr(stop)}, expected text or a list of texts")
    stops = [checked(("stop", index), string, str, "text") for index, string in enumerate(strings)]
    return [string for string in stops if string]


def checked_reason(reason: object) -> Ended | None:
    """The meaning of the reason that a caller gives. Raises an `OptionError` if it is not text."""
    if reason is None:
        return None
    return ended_by(checked("reason", reason, str, 'text, such as "stop", "eos" or "length"'))

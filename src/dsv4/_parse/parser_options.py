"""What a caller gives to a parser, checked: options, the function that makes ids, the declared
tools as far as reading calls needs to know them, and a server's word for why the text ended, whose
meaning is one table for the parser and the gateway (docs/recovery.md, rule 26).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, TypeAlias

from dsv4._format.dialects import NAMESPACE_END
from dsv4._format.endings import Ending
from dsv4._format.spellings import HOLDS_ALL
from dsv4.errors import OptionError, short_repr
from dsv4.schema import conjunction, possible_types, properties_of

# What the words of servers for the end of a completion mean: one table, for the parser and the
# gateway (docs/recovery.md, rule 26).


# What a caller knows about why the text ended: any word that a server uses.
Reason: TypeAlias = str


class Ended(Enum):
    """What a finish reason says about the text."""

    END = "the model ended it"
    STOP = "a stop string may have ended it"
    LENGTH = "it reached its longest length"
    FILTER = "a filter ended it"
    FAILURE = "generation was given up"

    @property
    def is_cut(self) -> bool:
        """Whether the text is known to be shorter than the model would have made it."""
        return self in _CUTS


_CUTS = frozenset({Ended.LENGTH, Ended.FILTER, Ended.FAILURE})

_WORDS = {
    Ended.END: ("eos", "eos_token", "end_turn", "tool_calls", "function_call", "tool_use"),
    Ended.STOP: ("stop",),
    Ended.LENGTH: ("length", "max_tokens", "model_length"),
    Ended.FILTER: ("content_filter", "refusal"),
}
_TABLE = {word: ended for ended, words in _WORDS.items() for word in words}


def ended_by(word: str | None) -> Ended | None:
    """What a server's word says. None where it says nothing."""
    return _TABLE.get(word, Ended.FAILURE) if word else None


def checked_reason(reason: object) -> Ended | None:
    """What the reason that a caller gives says. Raises an `OptionError` for what is no text."""
    if reason is not None and not isinstance(reason, str):
        problem = f'found {short_repr(reason)}, expected text, such as "stop", "eos" or "length"'
        raise OptionError("reason", problem)
    return ended_by(reason)


# Ids: of calls, and of whatever else must be told apart.


# A byte picks a letter or digit. Some are picked by five bytes and some by four, which takes a
# tenth of a bit off each of them.
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_PICKED = (_LETTERS * 5)[:256]
_LENGTH = 24


def new_id(prefix: str) -> str:
    """The prefix, and 24 random letters and digits."""
    return prefix + os.urandom(_LENGTH).translate(_PICKED).decode("ascii")


def new_call_id() -> str:
    """A new id of a call."""
    return new_id("call_")


# The options of a parser, checked when it is made.


GivenStops: TypeAlias = Sequence[str] | str
GivenTools: TypeAlias = Iterable[object] | None
# An object as callers give it: a tool, its function, or a schema.
GivenObject: TypeAlias = Mapping[Any, Any]
# What `json` makes of a text.
JsonValue: TypeAlias = str | bool | int | float | list[Any] | dict[str, Any] | None
# Where stop strings act, and when a call is seen.
StopIn: TypeAlias = Literal["content", "all"]
CallDelivery: TypeAlias = Literal["streamed", "whole"]


def checked_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionError(name, f"found {short_repr(value)}, expected True or False")
    return value


def checked_word(name: str, value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        spelled = " or ".join(f'"{word}"' for word in words)
        raise OptionError(name, f"found {short_repr(value)}, expected {spelled}")
    return value


def checked_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise OptionError(name, f"found {short_repr(value)}, expected text")
    return value


def checked_tools(tools: object) -> list[GivenObject] | None:
    """Tools as a list of tool or function objects, each of which has a name."""
    if tools is None:
        return None
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise OptionError("tools", f"found {short_repr(tools)}, expected a list of tools")
    listed = []
    for index, tool in enumerate(tools):
        function = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping):
            problem = f"found {short_repr(tool)}, expected a tool: an object with a function"
            raise OptionError(("tools", index), problem)
        if not isinstance(function.get("name"), str):
            where = ("tools", index, *(("function",) if "function" in tool else ()), "name")
            raise OptionError(where, f"found {short_repr(function.get('name'))}, expected text")
        listed.append(tool)
    return listed


def checked_stops(stop: object) -> list[str]:
    """Stop strings, those that are not empty."""
    given = [stop] if isinstance(stop, str) else stop
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise OptionError("stop", f"found {short_repr(stop)}, expected text or a list of texts")
    stops = []
    for index, string in enumerate(given):
        if not isinstance(string, str):
            raise OptionError(("stop", index), f"found {short_repr(string)}, expected text")
        stops.append(string)
    return [string for string in stops if string]


def checked_ending(ending: object) -> Ending | None:
    if ending is not None and not isinstance(ending, Ending):
        raise OptionError("ending", f"found {short_repr(ending)}, expected a prompt's ending")
    return ending


def checked_id_maker(new_id: Callable[[], str]) -> Callable[[], str]:
    if not callable(new_id):
        raise OptionError("new_id", f"found {short_repr(new_id)}, expected a function")
    return new_id


# The tools a caller declares, as far as reading calls needs to know them.


class DeclaredTools:
    """Declared tools: name -> parameter -> its JSON types, empty where the schema names none.

    `given` is false where the caller said nothing: then any name may be one, inside a wrapper.
    """

    __slots__ = ("given", "namespaced", "parameters")

    def __init__(self, tools: Iterable[GivenObject] | None) -> None:
        self.given = tools is not None
        self.parameters: dict[str, dict[str, frozenset[str]]] = {}
        self.namespaced: set[str] = set()  # names that were declared with a namespace of their own
        for tool in tools or ():
            function: GivenObject = tool.get("function", tool)
            name = _qualified(tool, function)
            if name != function["name"]:
                self.namespaced.add(name)
            # Anthropic's tools have their schema under another name.
            schema = function.get("parameters", function.get("input_schema"))
            self.parameters[name] = _properties(schema)

    @property
    def none_declared(self) -> bool:
        """Whether the caller declared that there are none, so that no call is ever made."""
        return self.given and not self.parameters

    def declares(self, name: str) -> bool:
        # The strict grammar lets a name run on after a quote. Which of the two readings a caller
        # had in mind cannot be known, so it is enough that the shorter one is.
        return name in self.parameters or name.partition('"')[0] in self.parameters

    def may_be_tool(self, name: str) -> bool:
        """Whether a name counts as declared inside a wrapper."""
        return not self.given or self.declares(name)

    def as_declared(self, name: str | None) -> str | None:
        """A name without white space around it, if that is what was declared (rule 13)."""
        return _trimmed(name, self.parameters)

    def key_as_declared(self, tool: str, key: str | None) -> str | None:
        return _trimmed(key, self.keys(tool))

    def keys(self, tool: str) -> dict[str, frozenset[str]]:
        return self.parameters.get(tool, {})

    def types_of(self, tool: str, key: str) -> frozenset[str]:
        return self.keys(tool).get(key, frozenset())

    def may_unwrap(self, tool: str, key: str) -> bool:
        """Whether a lone parameter may hold all the arguments (rule 8)."""
        keys = self.keys(tool)
        return bool(keys) and key not in keys and key in HOLDS_ALL


def _trimmed(name: str | None, declared: Container[str]) -> str | None:
    if name is None or name in declared or name.strip() not in declared:
        return name
    return name.strip()


def _qualified(tool: GivenObject, function: GivenObject) -> str:
    """The name as the model sees it (format.md, section 13.3)."""
    name: str = function["name"]
    space = tool.get("namespace")
    if space is None:
        space = function.get("namespace")
    if isinstance(space, Mapping):
        space = space.get("name")
    if not isinstance(space, str) or NAMESPACE_END in name:
        return name
    return f"{space}{NAMESPACE_END}{name}"


def _properties(schema: object) -> dict[str, frozenset[str]]:
    """The types of each property, as far as the schema names them, directly or by reference."""
    return {
        name: possible_types(value, root=schema)
        for part in reversed(conjunction(schema, root=schema))
        for name, value in properties_of(part).items()
        if isinstance(name, str)
    }

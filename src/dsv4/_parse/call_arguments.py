"""The arguments of calls as JSON: read and repaired (recovery.md, rules 7, 8, 14 and 19), and
written in fragments while a call is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from copy import copy
from itertools import accumulate
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeAlias

from dsv4._completion.events import (
    AbortReason,
    ArgumentsDelta,
    Event,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._format.spellings import CDATA, JSON_ARGUMENTS, JSON_FRAME
from dsv4._parse.limits import DEEPEST_JSON
from dsv4._parse.patterns import pattern
from dsv4.schema import has_type

# What `json` makes of a text.
JsonValue: TypeAlias = str | bool | int | float | list[Any] | dict[str, Any] | None


# Texts as JSON (recovery.md, rules 7, 8, 14 and 19).


_STRING = pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# Strings, and the numbers that are none.
_MENDABLE = pattern(r'("[^"\\]*(?:\\.[^"\\]*)*")|(-?Infinity|NaN)', re.DOTALL)
_CONTROLS = {code: encode_basestring(chr(code))[1:-1] for code in range(0x20)}
_NESTING = {"[": 1, "{": 1, "]": -1, "}": -1}
_BRACKET = pattern(r"[][{}]")
_BETWEEN = pattern(r"[ \t\n\r,:]*")
_LIST_OF_CALLS = pattern(r'\s*(?:\{\s*"tool_calls"\s*:\s*)?\[')  # how one begins


class _NonFiniteNumber(float):
    """NaN and the infinities, which RFC 8259 does not have."""


def _any_integer(digits: str) -> int:
    """An integer of any length. Only its type is needed, not its value."""
    return int(digits) if len(digits) < 4000 else int(digits[:3] + "0")


def _decoder_of(strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(parse_int=_any_integer, parse_constant=_NonFiniteNumber, strict=strict)


_strict_decoder = _decoder_of(strict=True)
_decoder = _decoder_of(strict=False)  # it also takes line breaks and tabs inside strings


def json_string(text: str) -> str:
    """A text as a JSON string."""
    return encode_basestring(text)


class JsonReading(NamedTuple):
    """A text that was read as JSON: its value, and the text as RFC 8259 has it."""

    value: JsonValue
    text: str
    repaired: bool = False


def read_json(text: str) -> JsonReading | None:
    """Reads JSON; repairs raw line breaks in strings and NaN. None if it is not JSON."""
    if text.count("[") + text.count("{") > DEEPEST_JSON and _depth(text) > DEEPEST_JSON:
        return None
    for decoder in (_strict_decoder, _decoder):
        try:
            value = decoder.decode(text)
        except (ValueError, RecursionError):
            continue
        is_right = decoder is _strict_decoder and "N" not in text and "I" not in text
        mended = text if is_right else _MENDABLE.sub(_mended, text)
        return JsonReading(value, mended, mended != text)
    return None


def _mended(found: re.Match[str]) -> str:
    """A string with its control characters escaped, or a string in place of no number."""
    string: str = found[1] or f'"{found[2]}"'
    return string if string.isprintable() else string.translate(_CONTROLS)


def _depth(text: str) -> int:
    """How deep the brackets nest."""
    brackets = _BRACKET.findall(_STRING.sub("", text))
    return max(accumulate(map(_NESTING.__getitem__, brackets)), default=0)


def typed_json(text: str, string: str | None, types: frozenset[str]) -> str:
    """A value as JSON: what its markup says decides, else the schema, else the text (rule 7)."""
    if string == "false":
        reading = read_json(text)
        return json_string(text) if reading is None else reading.text
    if string != "true":
        text = without_cdata(text)
        reading = None if types == {"string"} else read_json(text)
        if reading is not None and _may_be(reading.value, types):
            return reading.text
    return json_string(text)


def _may_be(value: JsonValue, types: frozenset[str]) -> bool:
    """Whether a text that reads as this JSON is meant so, where the markup says nothing."""
    if isinstance(value, _NonFiniteNumber):
        return False
    return has_type(value, types) if types else not isinstance(value, str)


def without_cdata(text: str) -> str:
    start, end = CDATA
    stripped = text.strip()
    if stripped.startswith(start) and stripped.endswith(end) and stripped.count(start) == 1:
        return stripped[len(start) : -len(end)]
    return text


def object_in(text: str) -> JsonReading | None:
    """The JSON object in a text, as it is or once more as a JSON string. None for neither."""
    reading = read_json(text)
    if reading is not None and isinstance(reading.value, str):
        reading = read_json(reading.value)
    return reading if reading is not None and isinstance(reading.value, dict) else None


def begins_with_object(text: str) -> bool:
    """Whether a text that opens a brace closes it too, as JSON does."""
    try:
        _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _values_in(text: str, at: int) -> Generator[str, None, None]:
    """The values of a JSON list or object, keys among them, as they are written."""
    at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
    while text[at : at + 1] not in ("", "]", "}"):
        start = at
        _, at = _decoder.raw_decode(text, at)
        yield text[start:at]
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]


def elements_of(text: str) -> list[str]:
    """The elements of a JSON list, as they are written."""
    return list(_values_in(text, text.index("[") + 1))


def members_of(text: str) -> list[tuple[str, str]]:
    """The members of a JSON object, in order: keys, and values as they are written."""
    parts = list(_values_in(text, text.index("{") + 1))
    return [
        (_decoder.decode(key), value) for key, value in zip(parts[::2], parts[1::2], strict=True)
    ]


def member_text(key: str, json_text: str) -> str:
    return f"{encode_basestring(key)}: {json_text}"


def object_text(members: dict[str, str]) -> str:
    """A JSON object from keys and the JSON texts of their values."""
    return "{" + ", ".join(member_text(*member) for member in members.items()) + "}"


def without_duplicates(arguments: str) -> str:
    """A JSON object with each key once, its last value as it was written."""
    members = members_of(arguments)
    once: dict[str, str] = {}
    for key, value in members:
        once.pop(key, None)
        once[key] = value
    return arguments if len(once) == len(members) else object_text(once)


def is_item(json_text: str) -> bool:
    """Whether a value may be one of several that make a list: a string, or another scalar."""
    return json_text.lstrip()[:1] not in ("{", "[")


def list_text(items: list[str]) -> str:
    return f"[{', '.join(items)}]"


# Calls that are written as JSON.


class JsonCalls(NamedTuple):
    """The calls that JSON describes: names and arguments; and how many of them are no calls."""

    read: list[tuple[str, str]]
    unread: int


def json_calls_in(text: str) -> JsonCalls:
    """The calls in a JSON object or list."""
    reading = read_json(text)
    if reading is None or not isinstance(reading.value, (dict, list)):
        return JsonCalls([], 1)
    text = reading.text
    if isinstance(reading.value, dict):
        listed = isinstance(reading.value.get("tool_calls"), list)
        items = elements_of(dict(members_of(text))["tool_calls"]) if listed else [text]
    else:
        items = elements_of(text)
    calls = [call for call in map(_described, items) if call is not None]
    return JsonCalls(calls, len(items) - len(calls))


def _described(item: str) -> tuple[str, str] | None:
    """A call's name and arguments, from its JSON."""
    if not item.startswith("{"):
        return None
    members = dict(members_of(item))
    if members.get("function", "").startswith("{"):
        members = dict(members_of(members["function"]))
    name = _decoder.decode(members.get("name", "null"))
    if not isinstance(name, str):
        return None
    arguments = next((members[key] for key in JSON_ARGUMENTS if key in members), "null")
    if arguments in ("null", '""'):
        # Not where they may stand under another name (rule 11).
        return (name, "{}") if members.keys() <= JSON_FRAME | {*JSON_ARGUMENTS} else None
    described = object_in(arguments)
    return None if described is None else (name, described.text.strip())


def complete_part(text: str) -> str:
    """A list of calls that was cut, without the element in which it was.

    A list inside of arguments is none: what is quoted never runs.
    """
    elements: list[str] = []
    begun = _LIST_OF_CALLS.match(text)
    try:
        if begun is not None:
            elements.extend(_values_in(text, begun.end()))
    except (ValueError, RecursionError):
        pass
    return list_text(elements)


# A tool call while it is read: its arguments, written as JSON fragments.


class CallWriter:
    """One call. What it writes goes to `emit`; a call that is not visible writes nothing.

    A call that is to be seen whole writes nothing before its end, and nothing at all where it is
    given up.
    """

    def __init__(
        self, start: ToolCallStart, emit: Callable[[Event], None], visible: bool, whole: bool
    ) -> None:
        self.visible = visible
        self._start = start
        self._emit = emit
        self.keys: set[str] = set()  # of the parameters that were written
        self._in_string = False
        self._repeats = False  # a key was written twice
        self._lists: dict[str, list[str]] = {}  # of values that came one by one
        self._waiting: list[str] | None = [] if whole else None
        self.begun = visible and not whole
        if self.begun:
            emit(start)

    @property
    def index(self) -> int:
        return self._start.index

    @property
    def streams(self) -> bool:
        """Whether what is written is seen at once."""
        return self.visible and self._waiting is None

    def copy(self, emit: Callable[[Event], None] | None = None) -> CallWriter:
        """A copy of the call as it is now, which may write to somebody else."""
        twin = copy(self)
        twin._emit = emit or self._emit
        twin.keys = {*self.keys}
        twin._lists = {key: [*items] for key, items in self._lists.items()}
        twin._waiting = None if self._waiting is None else [*self._waiting]
        return twin

    # Arguments.

    def open_string(self, key: str) -> None:
        self._in_string = True
        self._write(self._separator(key) + json_string(key) + ': "')

    def write_string(self, text: str) -> None:
        self._write(json_string(text)[1:-1])

    def close_string(self) -> None:
        self._in_string = False
        self._write('"')

    def add(self, key: str, json_text: str) -> None:
        self._lists.pop(key, None)
        self._write(self._separator(key) + member_text(key, json_text))

    def add_item(self, key: str, first: str, item: str) -> None:
        """One more value of a list, whose `first` was written alone. The list comes at the end."""
        self._repeats = True
        self._lists.setdefault(key, [first]).append(item)

    # The end.

    def end(self, body: str | None = None) -> None:
        """Completes the call, whose arguments may come as one JSON object."""
        self._write(self._closing("") if body is None else body)
        if not self.visible:
            return
        if self._waiting is not None:
            arguments = "".join(self._waiting)
            whole = without_duplicates(arguments) if self._repeats else arguments
            self._emit(self._start)
            self._emit(ArgumentsDelta(self.index, whole))
        self._emit(ToolCallEnd(self.index))

    def abort(self, reason: AbortReason, rest: str = "") -> None:
        """Gives the call up. `rest` is a member of the arguments that was not written."""
        if self.streams:
            self._emit(ToolCallAborted(self.index, reason, self._closing(rest)))
        self.visible = False

    def _closing(self, rest: str) -> str:
        """What closes the arguments: lists of values that came one by one, and the rest."""
        members = [member_text(key, list_text(items)) for key, items in self._lists.items()]
        members += [rest] if rest else []
        if not self.keys:
            return "{" + rest + "}"
        return ('"' if self._in_string else "") + "".join(f", {m}" for m in members) + "}"

    def _separator(self, key: str) -> str:
        first = not self.keys
        self._repeats = self._repeats or key in self.keys
        self.keys.add(key)
        return "{" if first else ", "

    def _write(self, text: str) -> None:
        if not self.visible or not text:
            return
        if self._waiting is not None:
            self._waiting.append(text)
        else:
            self._emit(ArgumentsDelta(self._start.index, text))

"""JSON text with the place of every value in it, counted in UTF-16 units as browsers count.

`json.loads` reads the text and says what is wrong with it; where each value stands is found by a
second walk over text that is known to be valid.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from json import decoder
from typing import Any, NamedTuple

from dsv4._inputs.input_files import line_and_column
from dsv4._playground.page_problem import PageProblem
from dsv4.errors import Location


def utf16_length(text: str) -> int:
    """The length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(c > "\uffff" for c in text)


class Utf16Offsets:
    """Converts offsets in a text from characters to UTF-16 units."""

    def __init__(self, text: str) -> None:
        self._wide = [] if text.isascii() else [n for n, c in enumerate(text) if c > "\uffff"]

    def __call__(self, at: int) -> int:
        return at + bisect_left(self._wide, at) if self._wide else at


# The only function of `json` that tells where a string ends.
scan_json_string: Callable[[str, int], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]
# Deeper values are no conversation, and would exhaust the stack of whoever walks them.
MAX_DEPTH = 200


class SourceRange(NamedTuple):
    """Where a value stands: its first character, and the one after its last."""

    start: int
    end: int


class JsonSource:
    """A JSON text, its `value`, and where each part of it stands.

    Raises a `PageProblem` with line and column for text that is not JSON.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.value = _load_json(text)
        # By location, in code points. Of a name that comes twice, the last.
        self.ranges: dict[Location, SourceRange] = _value_ranges(text)

    @cached_property
    def _utf16(self) -> Utf16Offsets:
        return Utf16Offsets(self.text)

    def in_units(self, place: SourceRange) -> SourceRange:
        """A range in UTF-16 units."""
        return SourceRange(*map(self._utf16, place))

    def nearest(self, location: Location) -> SourceRange | None:
        """The place of a location, or of the innermost value around it that is there."""
        for size in range(len(location), -1, -1):
            found = self.ranges.get(location[:size])
            if found is not None:
                return found
        return None

    def problem(self, message: str, location: Location) -> PageProblem:
        """What is wrong with a value, at its line."""
        place = self.nearest(location)
        if place is None:
            return PageProblem(message, location=location)
        line, column = line_and_column(self.text, place.start)
        start, end = self.in_units(place)
        return PageProblem(
            message, location=location, start=start, end=end, line=line, column=column
        )


def _load_json(text: str) -> Any:
    if not text.strip():
        raise PageProblem("found nothing, expected JSON", start=0, end=0, line=1, column=1)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        at = Utf16Offsets(text)(error.pos)
        message = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        line, column = error.lineno, error.colno
        raise PageProblem(message, start=at, end=at + 1, line=line, column=column) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # a number of too many digits
        raise PageProblem(f"not JSON: {error}") from None
    return value


def _too_deep() -> PageProblem:
    return PageProblem(f"found values nested too deep, expected at most {MAX_DEPTH} levels")


# What stands between values, and a value that is neither text, list nor object.
_SEPARATORS = re.compile(r"[ \t\n\r]*[,:]?[ \t\n\r]*")
_BARE_VALUE = re.compile(r"[^\s,\]}]+")


def _value_ranges(text: str) -> dict[Location, SourceRange]:
    """The range of every value of a JSON text. Containers are open until their bracket closes."""
    places: dict[Location, SourceRange] = {}
    # Of each open container: its location, its start, and the index or name of the next value.
    open_: list[tuple[Location, int, int | None]] = []
    name: str | int | None = None
    at = _skip_separators(text, 0)
    while True:
        if open_ and text[at] in "]}":
            location, start, _ = open_.pop()
            at += 1
            places[location] = SourceRange(start, at)
        else:
            if open_:
                location, start, index = open_[-1]
                if index is None:
                    name, at = scan_json_string(text, at + 1)
                    at = _skip_separators(text, at)
                else:
                    name = index
                    open_[-1] = location, start, index + 1
                location = (*location, name)
            else:
                location = ()
            start = at
            char = text[at]
            if char in "[{":
                if len(open_) >= MAX_DEPTH:
                    raise _too_deep()
                open_.append((location, start, 0 if char == "[" else None))
                at = _skip_separators(text, at + 1)
                continue
            at = scan_json_string(text, at + 1)[1] if char == '"' else _end_of_bare_value(text, at)
            places[location] = SourceRange(start, at)
        if not open_:
            return places
        at = _skip_separators(text, at)


def _skip_separators(text: str, at: int) -> int:
    match = _SEPARATORS.match(text, at)
    return at if match is None else match.end()


def _end_of_bare_value(text: str, at: int) -> int:
    match = _BARE_VALUE.match(text, at)
    return at if match is None else match.end()

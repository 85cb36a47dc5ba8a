"""JSON text with the place of every value in it, counted in UTF-16 units as browsers count.

`json.loads` reads the text and says what is wrong with it; where each value stands is found by a
second walk over text that is known to be valid.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import cached_property
from json import decoder
from typing import Any, NamedTuple

from dsv4._playground.page_problem import Problem
from dsv4.errors import Location

# Lengths and places as the page counts them: in UTF-16 units, two of them for some characters.


def width(text: str) -> int:
    """How long a text is in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(c > "\uffff" for c in text)


class Places:
    """Places in a text, from characters to UTF-16 units."""

    def __init__(self, text: str) -> None:
        self._wide = [] if text.isascii() else [n for n, c in enumerate(text) if c > "\uffff"]

    def __call__(self, at: int) -> int:
        return at + bisect_left(self._wide, at) if self._wide else at


# JSON text with the place of every value in it.
#
# `json.loads` reads the text, and says what is wrong with it; what stands where is found by a
# second walk, over text that is known to be right. Offsets are counted as browsers count them, in
# UTF-16 units.


# The one part of `json` that says where a text ends.
scanstring: Any = decoder.scanstring  # type: ignore[attr-defined]
# Deeper values are no conversation, and would end the stack of whoever walks them.
DEEPEST = 200


class Place(NamedTuple):
    """Where a value stands: its first character, and the one after its last."""

    start: int
    end: int


class Source:
    """A JSON text, its `value`, and where each part of it stands.

    Raises a `Problem` with line and column for text that is no JSON.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.value = _loaded(text)
        # Every value by its location, in code points. Of a name that comes twice, the last.
        self.places: dict[Location, Place] = _places(text)

    @cached_property
    def _wide(self) -> list[int]:
        """Where characters are that browsers count as two."""
        return [match.start() for match in _WIDE.finditer(self.text)]

    def in_units(self, place: Place) -> Place:
        """A place as a browser counts."""
        wide = self._wide
        if not wide:
            return place
        return Place(*(at + bisect_left(wide, at) for at in place))

    def nearest(self, location: Location) -> Place | None:
        """The place of a location, or of the innermost value around it that is there."""
        for size in range(len(location), -1, -1):
            found = self.places.get(location[:size])
            if found is not None:
                return found
        return None

    def problem(self, message: str, location: Location) -> Problem:
        """What is wrong with a value, at its line."""
        place = self.nearest(location)
        if place is None:
            return Problem(message, location=location)
        line, column = line_and_column(self.text, place.start)
        start, end = self.in_units(place)
        return Problem(message, location=location, start=start, end=end, line=line, column=column)


_WIDE = re.compile("[\U00010000-\U0010ffff]")


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """The line and column of a character, from 1."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def _loaded(text: str) -> Any:
    if not text.strip():
        raise Problem("found nothing, expected JSON", start=0, end=0, line=1, column=1)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        at = error.pos + len(_WIDE.findall(text, 0, error.pos))
        message = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        line, column = error.lineno, error.colno
        raise Problem(message, start=at, end=at + 1, line=line, column=column) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # a number of too many digits
        raise Problem(f"not JSON: {error}") from None
    return value


def _too_deep() -> Problem:
    return Problem(f"found values nested too deep, expected at most {DEEPEST} levels")


# What stands between values, and a value that is neither text, list nor object.
_GAP = re.compile(r"[ \t\n\r]*[,:]?[ \t\n\r]*")
_WORD = re.compile(r"[^\s,\]}]+")


def _places(text: str) -> dict[Location, Place]:
    """The places in a text that is JSON. Containers are open until their bracket closes."""
    places: dict[Location, Place] = {}
    # Of each open container: its location, its start, and the index or name of the next value.
    open_: list[tuple[Location, int, int | None]] = []
    name: str | int | None = None
    at = _skip(text, 0)
    while True:
        if open_ and text[at] in "]}":
            location, start, _ = open_.pop()
            at += 1
            places[location] = Place(start, at)
        else:
            if open_:
                location, start, index = open_[-1]
                if index is None:
                    name, at = scanstring(text, at + 1)
                    at = _skip(text, at)
                else:
                    name = index
                    open_[-1] = location, start, index + 1
                location = (*location, name)
            else:
                location = ()
            start = at
            char = text[at]
            if char in "[{":
                if len(open_) >= DEEPEST:
                    raise _too_deep()
                open_.append((location, start, 0 if char == "[" else None))
                at = _skip(text, at + 1)
                continue
            at = scanstring(text, at + 1)[1] if char == '"' else _end_of_word(text, at)
            places[location] = Place(start, at)
        if not open_:
            return places
        at = _skip(text, at)


def _skip(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return at if match is None else match.end()


def _end_of_word(text: str, at: int) -> int:
    match = _WORD.match(text, at)
    return at if match is None else match.end()

"""A problem with something that the page sent, with its place, in a form that the page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from dsv4.errors import Error, Location, mismatch, path_of


class PageProblem(Error):
    """A request of the page that cannot be answered.

    `message` says what was found and what would be right. `location` is the place in the request
    that is shown; `start` and `end` are its characters in the JSON text, `line` and `column` (from
    1) are its beginning: None if there is no such place.
    """

    def __init__(
        self,
        message: str,
        *,
        location: Location = (),
        start: int | None = None,
        end: int | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.start, self.end = start, end
        self.line, self.column = line, column

    def to_dict(self) -> dict[str, Any]:
        return {
            "message": self.message,
            "path": path_of(self.location),
            "location": list(self.location),
            "start": self.start,
            "end": self.end,
            "line": self.line,
            "column": self.column,
        }


_Choice = TypeVar("_Choice", bound=str | bool)


def message_and_location(error: Error) -> tuple[str, Location]:
    """The message of an error, and its place."""
    return getattr(error, "problem", str(error)), getattr(error, "location", ())


# Reading the fields that the page sends.


def text_field(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """The text in a field. Raises a `PageProblem` for anything else."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise PageProblem(mismatch(value, "text"), location=(name,))
    return value


@overload
def choice_field(
    body: Mapping[str, Any], name: str, allowed: Sequence[_Choice], default: _Choice
) -> _Choice: ...


@overload
def choice_field(
    body: Mapping[str, Any], name: str, allowed: Sequence[_Choice], default: None
) -> _Choice | None: ...


def choice_field(
    body: Mapping[str, Any], name: str, allowed: Sequence[_Choice], default: _Choice | None
) -> _Choice | None:
    """The value of a field, which must be one of `allowed`; the default if none is given."""
    value = body.get(name)
    if value is None:
        return default
    for choice in allowed:
        if value == choice and type(value) is type(choice):  # 1 equals True, but is not allowed
            return choice
    expected = ", ".join(map(str, allowed))
    raise PageProblem(mismatch(value, f"one of {expected}"), location=(name,))


def flag_field(body: Mapping[str, Any], name: str) -> bool | None:
    """The value of a field: true or false; None if none is given."""
    return choice_field(body, name, (True, False), None)


def turn_field(body: Mapping[str, Any]) -> int | None:
    """The number of the chosen turn, None if none is given."""
    return None if body.get("turn") is None else whole_field(body, "turn", 0)


def whole_field(body: Mapping[str, Any], name: str, default: int) -> int:
    """The whole number in a field. Raises a `PageProblem` for anything else."""
    value = body.get(name, default)
    if type(value) is int:
        return value
    raise PageProblem("found something else, expected a whole number", location=(name,))

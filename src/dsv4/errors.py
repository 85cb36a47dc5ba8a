"""Every exception that dsv4 raises on purpose, by the source of the error.

    ValueError
    └── Error
        ├── OptionError         an option or an argument with a wrong type or value
        │   └── UnknownModel    a model name that does not tell its dialect
        ├── EncodeError         a conversation that the format cannot express
        ├── ImageError          a picture whose size cannot be read from its file
        ├── ParseError          model text that the strict grammar does not allow
        └── VocabularyError     a vocabulary that is missing, or not the dialect's (dsv4.tokens)

`error.location` is the place in the caller's own data, as a tuple: `("messages", 3, "content")`.
`error.path` spells it, `messages[3].content`, and `error.problem` says what was found there and
what was expected. A `ParseError` has a `position` in the model's text instead.
"""

from __future__ import annotations

from typing import TypeAlias

# The way to a value in the caller's data: names of options and fields, indices of lists.
Location: TypeAlias = tuple[str | int, ...]


def path_of(location: Location) -> str:
    """A location in its usual spelling: `messages[3].content`."""
    spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    # A name may hold half a character, which no terminal and no file would take.
    return spelled.removeprefix(".").encode("utf-8", "backslashreplace").decode("utf-8")


def location_of(path: str) -> Location:
    """The location that a path spells, such as `messages[3].content`."""
    import re  # only for errors: encoding does not need it

    steps = re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)
    return tuple(int(index) if index else name for index, name in steps)


class Error(ValueError):
    """The root of every exception that dsv4 raises on purpose."""


class _Located(Error):
    """An error with a place in the caller's data."""

    def __init__(self, location: Location | str, problem: str) -> None:
        super().__init__(location, problem)
        self.location: Location = (location,) if isinstance(location, str) else location
        self.problem = problem

    @property
    def path(self) -> str:
        return path_of(self.location)

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class OptionError(_Located):
    """An option or an argument with a wrong type or value.

    `location` begins with its name.
    """


class EncodeError(_Located):
    """A conversation that the format cannot express.

    `location` begins with the caller's list, "messages" or "context", and goes on with the index of
    the message.
    """


class ParseError(Error):
    """Model text that the strict grammar does not allow.

    `position` is the offset in the text, `problem` says what was found there and was expected.
    """

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(position, problem)
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"at character {self.position}: {self.problem}"


class ImageError(Error):
    """A picture whose size cannot be read: the file is not a picture, is cut short or damaged."""


class UnknownModel(OptionError):
    """A model name that says nothing about its prompt format."""


def refusal(location: Location, problem: str) -> OptionError | EncodeError:
    """The error for a value in a request, by its place: a conversation or an option."""
    kind = EncodeError if location[:1] in (("messages",), ("context",)) else OptionError
    return kind(location, problem)


def short_repr(value: object, limit: int = 60) -> str:
    """A value as an error message quotes it: its repr, cut to a readable length."""
    try:
        text = repr(value)
    except Exception:  # nested too deep, a number of too many digits, an object's own fault
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def mismatch(value: object, expected: str) -> str:
    """The problem with a wrong value, for an error: what was found, and what was expected."""
    return f"found {short_repr(value)}, expected {expected}"

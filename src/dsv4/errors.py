"""Everything dsv4 raises on purpose.

    ValueError
    └── Error
        ├── EncodeError     the caller's conversation or options cannot be encoded
        ├── ParseError      the model's text departs from the strict grammar
        ├── UnknownModel    no dialect is known for a model name
        └── VocabularyError a vocabulary that is missing, or not the dialect's (dsv4.tokens)

Encoding and parsing errors say where: ``EncodeError.path`` is the place in the caller's own
data (``messages[3].content``), ``ParseError.position`` the offset in the model's text.
"""

from __future__ import annotations


class Error(ValueError):
    """The root of every exception that dsv4 raises on purpose."""


class EncodeError(Error):
    """A conversation, or an option, that has no place in the format."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class ParseError(Error):
    """Model text that the strict grammar does not allow."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(position, problem)
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"at character {self.position}: {self.problem}"


class UnknownModel(Error):
    """A model name that tells nothing about its prompt format."""


def shown(value: object, limit: int = 60) -> str:
    """A value as an error message quotes it: its repr, cut to a readable length."""
    try:
        text = repr(value)
    except Exception:  # nested too deep, a number of too many digits, an object's own fault
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 1] + "…"

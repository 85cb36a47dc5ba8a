"""The tokens that give a prompt of the V4 family its structure.

The encoder always writes the assistant token together with a think token, so the pair is one
lexeme, and an assistant token by itself is text. Think tokens elsewhere, DSML and the image token
structure nothing at this level: the tools section is full of them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, auto
from functools import lru_cache, partial
from typing import NamedTuple

from dsv4.format import tokens
from dsv4.format.dialects import Dialect


class Kind(IntEnum):
    USER = 0
    THINK = auto()  # a header that lets the model think
    ANSWER = auto()  # a header that does not
    EOS = auto()
    REMINDER = auto()
    SYSTEM = auto()
    TASK = auto()
    ACTION = auto()
    END = auto()  # of the prompt


HEADERS = (Kind.THINK, Kind.ANSWER)


_KINDS: dict[str, Kind] = {
    str(tokens.USER): Kind.USER,
    tokens.ASSISTANT + tokens.THINK_START: Kind.THINK,
    tokens.ASSISTANT + tokens.THINK_END: Kind.ANSWER,
    str(tokens.EOS): Kind.EOS,
    str(tokens.LATEST_REMINDER): Kind.REMINDER,
    **{str(token): Kind.TASK for token in tokens.TASK_TOKENS.values()},
    str(tokens.ACTION): Kind.ACTION,
}
_OPENING, _CLOSING = tokens.USER.split("User")
# Anything that has the form of a token: it takes less time than a choice between many.
_TOKEN = re.compile(
    f"{_OPENING}[^{_CLOSING}<]+{_CLOSING}({tokens.THINK_START}|{tokens.THINK_END})?"
)
TASKS = {str(token): task for task, token in tokens.TASK_TOKENS.items()}


class Lexeme(NamedTuple):
    """A structural token, and where it stands."""

    kind: Kind
    start: int
    end: int


# There are many: it matters that this takes half the time of calling the class.
_lexeme: Callable[[tuple[Kind, int, int]], Lexeme] = partial(tuple.__new__, Lexeme)


@lru_cache
def _kinds(dialect: Dialect) -> dict[str, Kind]:
    """How the structural tokens of a dialect are spelled."""
    known = dict(_KINDS)
    if dialect.system_token is not None:
        known[str(dialect.system_token)] = Kind.SYSTEM
    return known


def lexemes(
    text: str, dialect: Dialect, start: int, protected: Iterable[tuple[int, int]]
) -> list[Lexeme]:
    """The structural tokens from `start` on, with the end of the text as the last of them.

    Nothing inside a protected stretch is one: schemas and arguments may spell anything.
    """
    found = list(_tokens(text, _kinds(dialect), start))
    stretches = sorted(protected)
    if stretches:
        starts = [first for first, _ in stretches]
        ends = [-1, *(last for _, last in stretches)]  # -1 for what is before all of them
        found = [lexeme for lexeme in found if lexeme[1] >= ends[bisect_right(starts, lexeme[1])]]
    return [*found, Lexeme(Kind.END, len(text), len(text))]


def _tokens(text: str, kinds: dict[str, Kind], start: int) -> Iterator[Lexeme]:
    for match in _TOKEN.finditer(text, start):
        found = match[0]
        kind = kinds.get(found)
        if kind is None and match[1]:  # a think token after another than the assistant's
            found = found.removesuffix(match[1])
            kind = kinds.get(found)
        if kind is not None:
            at = match.start()
            yield _lexeme((kind, at, at + len(found)))

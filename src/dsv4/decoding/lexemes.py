"""The tokens that give a prompt of the V4 family its structure.

The encoder always writes the assistant token together with a think token, so the pair is one
lexeme, and an assistant token by itself is text. Think tokens elsewhere, DSML and the image token
structure nothing at this level: the tools section is full of them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from enum import IntEnum, auto
from functools import lru_cache
from typing import NamedTuple

from dsv4.format import tokens
from dsv4.format.dialects import Dialect
from dsv4.format.tokens import spelled


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
    str(tokens.SYSTEM): Kind.SYSTEM,
    **{str(token): Kind.TASK for token in tokens.TASK_TOKENS.values()},
    str(tokens.ACTION): Kind.ACTION,
}
TASKS = {str(token): task for task, token in tokens.TASK_TOKENS.items()}


class Lexeme(NamedTuple):
    """A structural token, and where it stands."""

    kind: Kind
    start: int
    end: int


@lru_cache
def _pattern(dialect: Dialect) -> re.Pattern[str]:
    kinds = [text for text, kind in _KINDS.items() if kind is not Kind.SYSTEM]
    if dialect.system_token is not None:
        kinds.append(str(dialect.system_token))
    return re.compile("|".join(map(re.escape, kinds)))


def lexemes(
    text: str, dialect: Dialect, start: int, protected: Iterable[tuple[int, int]]
) -> list[Lexeme]:
    """The structural tokens from `start` on, with the end of the text as the last of them.

    Nothing inside a protected stretch is one: schemas and arguments may spell anything.
    """
    found = [Lexeme(_KINDS[m[0]], *m.span()) for m in _pattern(dialect).finditer(text, start)]
    stretches = sorted(protected)
    if stretches:
        starts = [first for first, _ in stretches]
        ends = [-1, *(last for _, last in stretches)]  # -1 for what is before all of them
        found = [lexeme for lexeme in found if lexeme[1] >= ends[bisect_right(starts, lexeme[1])]]
    return [*found, Lexeme(Kind.END, len(text), len(text))]


@lru_cache
def spelling(dialect: Dialect) -> re.Pattern[str]:
    """Finds any special token of a dialect."""
    return spelled(dialect.special_tokens)

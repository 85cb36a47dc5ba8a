"""A prompt as a person wants to see it, before it is written for a terminal, a page or a picture.

A row is one field of one message: what stands in the margin, and its lines, each of segments that
have a style. Nothing is left in a segment that a terminal or a browser would act on.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dsv4.encoding.pieces import Piece
from dsv4.encoding.prompt import Prompt
from dsv4.format import tokens
from dsv4.format.dialects import ROLES
from dsv4.view.characters import visible
from dsv4.view.endings import Ending, ending

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


class Segment(NamedTuple):
    text: str
    style: str


Line: TypeAlias = tuple[Segment, ...]


class Row(NamedTuple):
    """`summary` is a line that may stand for all others."""

    message: int | None
    role: str
    field: str
    tokens: int | None
    lines: tuple[Line, ...]
    summary: str | None = None


class View(NamedTuple):
    rows: tuple[Row, ...]
    ending: Ending
    total: str


# A row of the prompt: message and field.
_Key: TypeAlias = tuple[int | None, str]

# Parts of a user's turn that are shown as one field.
_CONTENT = ("content", "separator", "tool_result", "image")

_PILLS: dict[str, str] = {
    **dict.fromkeys((tokens.BOS, tokens.EOS, tokens.DSML), "pill-frame"),
    **dict.fromkeys((tokens.THINK_START, tokens.THINK_END), "pill-think"),
    **dict.fromkeys((*tokens.TASK_TOKENS.values(), tokens.EXTRACTED_URL), "pill-task"),
}
_MODEL_STYLES = {"reasoning": "reasoning", "tool_calls": "calls"}


def view_of(
    prompt: Prompt, roles: Sequence[str] | None = None, tokenizer: Tokenizer | None = None
) -> View:
    """A prompt in rows. Without the roles of the messages, the prompt is asked for them; without a
    tokenizer, rows have no counts."""
    counts = None if tokenizer is None else _Counts(tokenizer, prompt)
    known = roles_in(prompt) if roles is None else dict(enumerate(roles))
    rows = [
        _row(key, list(pieces), known, counts.next(key) if counts else None)
        for key, pieces in groupby(_flagged(prompt), lambda piece: _key(piece.message, piece.field))
    ]
    return View(tuple(rows), ending(prompt), _total(prompt, counts))


class _Counts:
    """How many tokens each row has. Spans come in the order of the rows; some rows have none."""

    def __init__(self, tokenizer: Tokenizer, prompt: Prompt) -> None:
        self._spans = tokenizer.spans(prompt)
        self._at = 0
        self.all = self._spans[-1].end if self._spans else 0

    def next(self, key: _Key) -> int:
        start = self._at
        while self._at < len(self._spans) and self._key_here() == key:
            self._at += 1
        return sum(span.end - span.start for span in self._spans[start : self._at])

    def _key_here(self) -> _Key:
        span = self._spans[self._at]
        return _key(span.message, span.field)


def _key(message: int | None, field: str) -> _Key:
    return message, "content" if field in _CONTENT else field


def _total(prompt: Prompt, counts: _Counts | None) -> str:
    counted = f"{counts.all:,} tokens, " if counts else ""
    return f"{counted}{len(prompt):,} characters, dialect {prompt.dialect}"


def _flagged(prompt: Prompt) -> Iterator[Piece]:
    """The pieces; text that spells a special token is a piece of its own, of origin "flag"."""
    borders = [border for place in prompt.special_text for border in place]
    start = 0
    for piece in prompt.pieces:
        end = start + len(piece.text)
        first, last = bisect_right(borders, start), bisect_left(borders, end)
        if piece.special or (first == last and not first % 2):
            yield piece
        else:
            cuts = [start, *borders[first:last], end]
            for n, (a, b) in enumerate(pairwise(cuts), first):
                text = piece.text[a - start : b - start]
                # Behind an odd number of borders it is inside a place.
                origin: Any = "flag" if n % 2 else piece.origin
                yield piece._replace(text=text, origin=origin)
        start = end


def roles_in(prompt: Prompt) -> dict[int, str]:
    """The role of each message, as far as the prompt shows it: a developer's turn is a user's."""
    roles: dict[int, str] = {}
    for piece in prompt.pieces:
        if piece.message is not None:
            roles[piece.message] = _role_of(piece) or roles.get(piece.message, "system")
    return roles


def _role_of(piece: Piece) -> str | None:
    """The role that a piece gives away."""
    if piece.origin == "model":
        return "assistant"
    return _OPENING.get(piece.text) if piece.special else _PARTS.get(piece.field)


# What joins a user's turn has one of these parts.
_PARTS = {"tool_result": "tool", "separator": "user"}
_OPENING: dict[str, str] = {
    tokens.USER: "user",
    tokens.LATEST_REMINDER: "latest_reminder",
    tokens.ASSISTANT: "assistant",
}


def _row(key: _Key, pieces: list[Piece], roles: dict[int, str], count: int | None) -> Row:
    index, field = key
    role = roles.get(-1 if index is None else index, "")
    role = role if role in ROLES else ""
    lines = _lines(segment for piece in pieces for segment in _segments(piece, role))
    return Row(index, role, field, count, lines, _summary(pieces) if field == "tools" else None)


def _summary(pieces: list[Piece]) -> str:
    schemas = "".join(piece.text for piece in pieces if piece.origin != "template")
    tools = schemas.count("\n") + 1
    characters = sum(len(piece.text) for piece in pieces)
    return f"{tools} tool{'s' if tools != 1 else ''}, {characters:,} characters"


# Pieces -> segments. A segment that ends a line is a newline made visible.

_NEWLINE = Segment("⏎", "space")


def _segments(piece: Piece, role: str) -> Iterator[Segment]:
    if piece.special:
        yield Segment(piece.text, _PILLS.get(piece.text, "pill-turn"))
        return
    style = _style(piece, role)
    first, *others = piece.text.split("\n")
    yield from _visible(first, style)
    for line in others:
        yield _NEWLINE
        yield from _visible(line, style)


def _style(piece: Piece, role: str) -> str:
    if piece.origin in ("flag", "template"):
        return piece.origin
    if piece.origin == "model":
        return _MODEL_STYLES.get(piece.field, "assistant")
    return "template" if piece.field in ("tools", "response_format") else role or "user"


_SPACES = re.compile(r"(^ +| +$| {2,})")


def _visible(text: str, style: str) -> Iterator[Segment]:
    """A line in segments, with its white space and control characters to be seen."""
    for part in _SPACES.split(text):
        if part.isspace():
            yield Segment("·" * len(part), "space")
        elif part.isprintable():
            if part:
                yield Segment(part, style)
        else:
            yield from _printable(part, style)


def _printable(text: str, style: str) -> Iterator[Segment]:
    for printable, chars in groupby(text, str.isprintable):
        if printable:
            yield Segment("".join(chars), style)
        else:
            yield Segment("".join(map(visible, chars)), "space")


def _lines(segments: Iterable[Segment]) -> tuple[Line, ...]:
    lines: list[list[Segment]] = [[]]
    for segment in segments:
        lines[-1].append(segment)
        if segment is _NEWLINE:
            lines.append([])
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return tuple(map(tuple, lines))

"""Texts that are too long to be shown whole: how they begin, and what is left."""

from __future__ import annotations

from typing import NamedTuple

from dsv4.view.rows import Line, Row, Segment

# A text of more lines, or of more characters, is shown by its beginning.
MOST_LINES = 16
MOST_CHARACTERS = 3_000
HEAD_LINES = 8
HEAD_CHARACTERS = 1_200


class Folded(NamedTuple):
    """The beginning of a row and the rest of it, and what is said of the rest.

    `is_cut` says that the rest begins in the middle of a line.
    """

    head: tuple[Line, ...]
    rest: tuple[Line, ...]
    summary: str
    is_cut: bool


def maybe_folded(row: Row) -> Folded | None:
    """A row in two, where its beginning is enough."""
    characters = sum(map(_size, row.lines))
    if len(row.lines) <= MOST_LINES and characters <= MOST_CHARACTERS:
        return None
    left = HEAD_CHARACTERS
    for n, line in enumerate(row.lines[:HEAD_LINES]):
        if _size(line) > left:
            begin, end = _cut(line, left)
            return _folded((*row.lines[:n], begin), (end, *row.lines[n + 1 :]), is_cut=True)
        left -= _size(line)
    return _folded(row.lines[:HEAD_LINES], row.lines[HEAD_LINES:], is_cut=False)


def _folded(head: tuple[Line, ...], rest: tuple[Line, ...], is_cut: bool) -> Folded:
    lines = f"{len(rest):,} more line{'s' * (len(rest) != 1)}"
    return Folded(head, rest, f"{lines}, {sum(map(_size, rest)):,} characters", is_cut)


def _size(line: Line) -> int:
    return sum(len(segment.text) for segment in line)


def _cut(line: Line, room: int) -> tuple[Line, Line]:
    """A line in two, the first of this many characters. Only plain text is cut inside."""
    for n, segment in enumerate(line):
        if len(segment.text) > room:
            if segment.original is not None or segment.style.startswith("pill"):
                return line[:n], line[n:]
            text, style, _ = segment
            begin, end = Segment(text[:room], style), Segment(text[room:], style)
            return (*line[:n], begin), (end, *line[n + 1 :])
        room -= len(segment.text)
    return line, ()

"""A view as lines of text for a terminal, wrapped to its width and coloured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dsv4._view.characters import width_of
from dsv4._view.style_files import ANSI_CODES
from dsv4._view.view_rows import Line, Segment, View, ViewRow, folded_row

# Signs around a segment, used instead of colours.
SIGNS = {"flag": ("!!", "!!"), **dict.fromkeys([s for s in ANSI_CODES if "pill" in s], ("⟦", "⟧"))}

# The least number of columns for text: in a narrower terminal, lines are too long.
LEAST_ROOM = 20


def ansi_lines(lines: Iterable[Line], color: bool) -> Iterator[str]:
    """The lines for a terminal, in the colours of their styles or in none."""
    for line in lines:
        parts = (
            in_style(segment.text, segment.style) if color else segment.text for segment in line
        )
        yield "".join(parts).rstrip() + "\n"


def in_style(text: str, style: str) -> str:
    return f"\x1b[{ANSI_CODES[style]}m{text}\x1b[0m" if text else text


def terminal_lines(view: View, width: int, unfold: bool, signs: bool) -> Iterator[Line]:
    """The view in lines of at most `width` columns. `signs` are used instead of colours."""
    margin = _Margin(view.rows, width)
    message: int | None = -1
    for row in view.rows:
        beside = margin.opening(row, row.message != message)
        message = row.message
        for line in _shown_lines(row, unfold):
            for part in _wrapped(_marked(line, signs), margin.room):
                yield (*beside, *part)
                beside = margin.below(row)
    for text, style in _closing(view):
        for part in _wrapped(iter([Segment(text, style)]), margin.room):
            yield (*margin.empty, *part)


def _closing(view: View) -> Iterator[tuple[str, str]]:
    mark, style = ("▶", "generates") if view.ending.generates else ("■", "silent")
    yield f"{mark} {view.ending.words}", style
    yield view.total, "margin"


class _Margin:
    """The margin beside the text: a message's index and role, a field, its tokens."""

    def __init__(self, rows: Sequence[ViewRow], width: int) -> None:
        self._names = max((len(_name(row)) for row in rows), default=0)
        self._fields = max((len(row.field) for row in rows), default=0)
        self._counts = max((len(_count(row)) for row in rows), default=0)
        self.empty = self._columns("", "", "", "│")
        taken = sum(width_of(segment.text) for segment in self.empty)
        self.room = max(width - taken, LEAST_ROOM)

    def opening(self, row: ViewRow, opens: bool) -> Line:
        return self._columns(_name(row) if opens else "", row.field, _count(row), _bar(row))

    def below(self, row: ViewRow) -> Line:
        """The margin of all lines of a row but its first."""
        return self._columns("", "", "", _bar(row))

    def _columns(self, name: str, field: str, count: str, bar: str) -> Line:
        facts = f"  {field:<{self._fields}}  {count:>{self._counts}} "
        style = "trained" if bar == _TRAINED_BAR else "margin"
        return (
            Segment(f"{name:<{self._names}}", "name"),
            Segment(facts, "margin"),
            Segment(f"{bar} ", style),
        )


_TRAINED_BAR = "▌"


def _bar(row: ViewRow) -> str:
    if row.ghost is not None:
        return "┆"
    return _TRAINED_BAR if row.trained else "│"


def _name(row: ViewRow) -> str:
    return "  –" if row.message is None else f"{row.message:>3} {row.role}"


def _count(row: ViewRow) -> str:
    return "" if row.tokens is None else f"{row.tokens:,}"


def _shown_lines(row: ViewRow, unfold: bool) -> Iterator[Line]:
    folded = folded_row(row)
    yield from row.lines if unfold else folded.head
    if folded.summary and not unfold:
        yield (Segment(f"▸ {folded.summary} (--full shows it all)", "margin"),)
    for image in row.images:
        yield (Segment(f"▣ {image.caption}", "note"),)
    if row.ghost or row.note:
        yield (Segment(f"✗ {row.ghost}" if row.ghost else f"↕ {row.note}", "note"),)


def _marked(line: Line, signs: bool) -> Iterator[Segment]:
    """A line with space around the text of pills, or with signs."""
    for segment in line:
        text, style, _ = segment
        if signs and style in SIGNS:
            left, right = SIGNS[style]
            yield Segment(f"{left}{text}{right}", style)
        else:
            yield Segment(f" {text} " if style.startswith("pill") else text, style)


# Wrapping at words.

_WORDS = re.compile(r"\S+ ?| ")


def _wrapped(line: Iterator[Segment], width: int) -> Iterator[Line]:
    row: list[Segment] = []
    used = 0
    for unit in _units(line, width):
        if row and used + width_of(_needed(unit)) > width:
            yield tuple(row)
            row, used = [], 0
        fits = used + width_of(unit.text) <= width
        row.append(unit if fits else unit._replace(text=_needed(unit)))
        used += width_of(unit.text)
    yield tuple(row)


def _needed(unit: Segment) -> str:
    """The part of a unit that must fit: at the end of a line, the space after a word may be left
    out, but not that of a pill, which has a colour."""
    return unit.text if unit.style.startswith("pill") else unit.text.rstrip(" ")


def _units(line: Iterator[Segment], width: int) -> Iterator[Segment]:
    """The units that are not split between lines: words, and special tokens. Only units that are
    too long are cut."""
    for text, style, _ in line:
        whole = style == "flag" or style.startswith("pill")
        for word in [text] if whole else _WORDS.findall(text):
            for part in _cut(word, width):
                yield Segment(part, style)


def _cut(word: str, width: int) -> Iterator[str]:
    """A word in parts that fit; a character that does not fit is a part by itself."""
    if width_of(word) <= width:
        yield word
        return
    start = used = 0
    for at, char in enumerate(word):
        size = width_of(char)
        if used + size > width and at > start:
            yield word[start:at]
            start, used = at, 0
        used += size
    yield word[start:]

"""A view in lines of text: for terminals, and for pictures of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dsv4.view.characters import width_of
from dsv4.view.rows import Line, Row, Segment, View

# Terminals have these colours in a shade that suits their background.
CODES = {
    "system": "35",
    "user": "32",
    "developer": "32",
    "tool": "33",
    "latest_reminder": "36",
    "assistant": "36",
    "reasoning": "3;34",
    "calls": "33",
    "template": "90",
    "flag": "1;97;41",
    "space": "90",
    "margin": "90",
    "name": "1",
    "generates": "1;32",
    "silent": "1;31",
    "pill-turn": "1;97;44",
    "pill-think": "1;97;45",
    "pill-frame": "97;100",
    "pill-task": "30;43",
}
# Where there are no colours, signs say what they would.
SIGNS = {"flag": ("!!", "!!"), **dict.fromkeys([s for s in CODES if "pill" in s], ("⟦", "⟧"))}

NARROWEST = 20


def painted(lines: Iterator[Line], color: bool) -> Iterator[str]:
    """The lines for a terminal, in the colours of its styles or in none."""
    for line in lines:
        parts = (in_style(text, style) if color else text for text, style in line)
        yield "".join(parts).rstrip() + "\n"


def in_style(text: str, style: str) -> str:
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if text else text


def lines_of(view: View, width: int, unfold: bool, signs: bool) -> Iterator[Line]:
    """The view in lines of at most so many columns. `signs` stand in for colours."""
    margin = _Margin(view.rows)
    message: int | None = -1
    for row in view.rows:
        beside = margin.of(row, row.message != message)
        message = row.message
        for line in _shown_lines(row, unfold):
            for part in _wrapped(_marked(line, signs), max(width - margin.width, NARROWEST)):
                yield (*beside, *part)
                beside = margin.empty
    mark, style = ("▶", "generates") if view.ending.generates else ("■", "silent")
    yield (*margin.empty, Segment(f"{mark} {view.ending.words}", style))
    yield (*margin.empty, Segment(view.total, "margin"))


class _Margin:
    """What stands beside the text: a message's index and role, a field, its tokens."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._names = max((len(_name(row)) for row in rows), default=0)
        self._fields = max((len(row.field) for row in rows), default=0)
        self._counts = max((len(_count(row)) for row in rows), default=0)
        self.empty = self._columns("", "", "")
        self.width = sum(width_of(text) for text, _ in self.empty)

    def of(self, row: Row, opens: bool) -> Line:
        return self._columns(_name(row) if opens else "", row.field, _count(row))

    def _columns(self, name: str, field: str, count: str) -> Line:
        facts = f"  {field:<{self._fields}}  {count:>{self._counts}} │ "
        return Segment(f"{name:<{self._names}}", "name"), Segment(facts, "margin")


def _name(row: Row) -> str:
    return "  –" if row.message is None else f"{row.message:>3} {row.role}"


def _count(row: Row) -> str:
    return "" if row.tokens is None else f"{row.tokens:,}"


def _shown_lines(row: Row, unfold: bool) -> Sequence[Line]:
    if row.summary is None or unfold:
        return row.lines
    return [(Segment(f"▸ {row.summary} (--tools shows them)", "margin"),)]


def _marked(line: Line, signs: bool) -> Iterator[Segment]:
    """Pills with room around their text, or signs."""
    for text, style in line:
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
        size = width_of(unit.text)
        if row and used + size > width:
            yield tuple(row)
            row, used = [], 0
        row.append(unit)
        used += size
    yield tuple(row)


def _units(line: Iterator[Segment], width: int) -> Iterator[Segment]:
    """What stays together: words, and special tokens. What is too long is cut."""
    for text, style in line:
        whole = style == "flag" or style.startswith("pill")
        for word in [text] if whole else _WORDS.findall(text):
            while width_of(word) > width:
                fitting = _fitting(word, width)
                yield Segment(word[:fitting], style)
                word = word[fitting:]
            yield Segment(word, style)


def _fitting(text: str, width: int) -> int:
    """How many characters have room."""
    used = 0
    for at, char in enumerate(text):
        used += width_of(char)
        if used > width:
            return max(at, 1)
    return len(text)

"""Where two prompts differ: by special tokens and lines, and by words inside of lines.

Myers' algorithm ("An O(ND) difference algorithm and its variations", 1986): its work grows with
the number of differences, which is bounded here. Prompts that have less in common are marked as a
whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from dsv4._encode.prompt import Prompt

Ranges: TypeAlias = list[tuple[int, int]]
# A range of one list that is replaced by a range of another.
_Change: TypeAlias = tuple[int, int, int, int]

# The most units, in both lists together, that are found to be missing from the other.
MAX_EDITS = 300

_WORDS = re.compile(r"\s+|[^\W_]+|.", re.DOTALL)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class _DiffUnit(NamedTuple):
    """A special token, a line or a word. A token differs from text that spells it."""

    text: str
    special: bool


def differing_ranges(a: Prompt, b: Prompt) -> tuple[Ranges, Ranges]:
    """The characters of each that the other does not have, as (start, end)."""
    first, second = _units(a), _units(b)
    starts, others = _starts(first), _starts(second)
    ours: Ranges = []
    theirs: Ranges = []
    for a1, a2, b1, b2 in changes(first, second):
        in_ours, in_theirs = _by_words(first[a1:a2], second[b1:b2])
        ours += ((starts[a1] + start, starts[a1] + end) for start, end in in_ours)
        theirs += ((others[b1] + start, others[b1] + end) for start, end in in_theirs)
    return ours, theirs


def _by_words(one: Sequence[_DiffUnit], two: Sequence[_DiffUnit]) -> tuple[Ranges, Ranges]:
    """The same inside of lines that were changed."""
    words, others = _words(one), _words(two)
    found = changes(words, others)
    a, b = _starts(words), _starts(others)
    ours = [(a[a1], a[a2]) for a1, a2, _, _ in found if a1 < a2]
    theirs = [(b[b1], b[b2]) for _, _, b1, b2 in found if b1 < b2]
    return ours, theirs


def _words(units: Sequence[_DiffUnit]) -> list[_DiffUnit]:
    return [
        _DiffUnit(word, unit.special)
        for unit in units
        for word in ([unit.text] if unit.special else _WORDS.findall(unit.text))
    ]


def _units(prompt: Prompt) -> list[_DiffUnit]:
    """Special tokens, and lines of the text between them."""
    units: list[_DiffUnit] = []
    for run, special in prompt.runs():
        units += (_DiffUnit(line, False) for line in _LINES.findall(run))
        if special is not None:
            units.append(_DiffUnit(special, True))
    return units


def _starts(units: Sequence[_DiffUnit]) -> list[int]:
    return [0, *accumulate(len(unit.text) for unit in units)]


def changes(a: Sequence[object], b: Sequence[object]) -> list[_Change]:
    """What was changed from `a` to `b`: (start, end) in `a`, then in `b`."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    found = _fewest_changes(a[start : len(a) - end], b[start : len(b) - end])
    return [(start + a1, start + a2, start + b1, start + b2) for a1, a2, b1, b2 in found]


def _fewest_changes(a: Sequence[object], b: Sequence[object]) -> list[_Change]:
    """The fewest changes, or one for all where these are too many."""
    if not a or not b:
        return [(0, len(a), 0, len(b))] if a or b else []
    reached = {1: 0}  # by diagonal, the furthest point of `a`
    trace: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MAX_EDITS) + 1):
        trace.append(dict(reached))
        for diagonal in range(-edits, edits + 1, 2):
            x = _diagonal_start(reached, diagonal, edits)
            while x < len(a) and x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            reached[diagonal] = x
            if x >= len(a) and x - diagonal >= len(b):
                return _changes_along(trace, len(a), len(b))
    return [(0, len(a), 0, len(b))]


def _diagonal_start(reached: dict[int, int], diagonal: int, edits: int) -> int:
    """Where a diagonal begins: one down from the one above, or one on from the one below."""
    if diagonal == -edits or (diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1]):
        return reached[diagonal + 1]
    return reached[diagonal - 1] + 1


def _changes_along(trace: list[dict[int, int]], x: int, y: int) -> list[_Change]:
    """The changes on the way to a point, those that touch as one."""
    found: list[_Change] = []
    for edits in range(len(trace) - 1, 0, -1):
        reached, diagonal = trace[edits], x - y
        begin = _diagonal_start(reached, diagonal, edits)
        is_down = begin == reached.get(diagonal + 1) and (
            diagonal == -edits or begin != reached.get(diagonal - 1, -1) + 1
        )
        above = diagonal + 1 if is_down else diagonal - 1
        before = reached[above], reached[above] - above
        after = begin, begin - diagonal
        if found and found[-1][0] == after[0] and found[-1][2] == after[1]:
            last = found.pop()
            found.append((before[0], last[1], before[1], last[3]))
        else:
            found.append((before[0], after[0], before[1], after[1]))
        x, y = before
    return found[::-1]

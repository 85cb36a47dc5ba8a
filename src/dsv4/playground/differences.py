"""Where two prompts differ: by special tokens, and by words between them."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import accumulate
from typing import TypeAlias

from dsv4.encoding.prompt import Prompt

Ranges: TypeAlias = list[tuple[int, int]]

# Between the first and the last difference there may be this many units on both sides together, as
# comparing them takes their square at worst; of more, all is marked.
MOST_UNITS = 6_000

_UNITS = re.compile(r"\s+|[^\W_]+|.", re.DOTALL)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def differences(a: Prompt, b: Prompt) -> tuple[Ranges, Ranges]:
    """The characters of each that the other does not have, as (start, end)."""
    first, second = _units(a, _LINES), _units(b, _LINES)
    ours: Ranges = []
    theirs: Ranges = []
    for (a1, a2), (b1, b2) in _changes(first, second):
        start, other = _offset(first, a1), _offset(second, b1)
        one, two = "".join(first[a1:a2]), "".join(second[b1:b2])
        # Inside of lines that were changed, words.
        words, others = _UNITS.findall(one), _UNITS.findall(two)
        starts, ends = _starts(words), _starts(others)
        for (c1, c2), (d1, d2) in _changes(words, others):
            ours += _range(start + starts[c1], start + starts[c2])
            theirs += _range(other + ends[d1], other + ends[d2])
    return ours, theirs


def _range(start: int, end: int) -> Ranges:
    return [(start, end)] if end > start else []


def _units(prompt: Prompt, pattern: re.Pattern[str]) -> list[str]:
    units: list[str] = []
    for run, special in prompt.runs():
        units += pattern.findall(run)
        if special is not None:
            units.append(special)
    return units


def _starts(units: list[str]) -> list[int]:
    return [0, *accumulate(map(len, units))]


def _offset(units: list[str], at: int) -> int:
    return sum(map(len, units[:at]))


def _changes(a: list[str], b: list[str]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """What was changed, as stretches of both lists."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    one, two = a[start : len(a) - end], b[start : len(b) - end]
    if not one and not two:
        return []
    if not one or not two or len(one) + len(two) > MOST_UNITS:
        return [((start, len(a) - end), (start, len(b) - end))]
    matcher = SequenceMatcher(None, one, two, autojunk=False)
    return [
        ((start + a1, start + a2), (start + b1, start + b2))
        for tag, a1, a2, b1, b2 in matcher.get_opcodes()
        if tag != "equal"
    ]

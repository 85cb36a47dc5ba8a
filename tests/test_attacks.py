"""Texts made to cost much: what each costs is counted, not timed.

`bench/attacks.py` has the list, and measures the same texts at a megabyte.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

import dsv4
from counting import functions_called
from dsv4._completion.limits import LONGEST_ORPHANS, LONGEST_TAG
from dsv4._parse.reading import ParserState
from dsv4._parse.text_buffer import TextBuffer
from loading import loaded
from parts import part

attacks = loaded("bench/attacks.py")
SIZE = 5_000
# Characters that the source gives out, to patterns and to whoever else asks, for each that comes
# in. A head of a tag has at most 64, and is looked at again for each of its characters.
MOST_LOOKED_AT = 400
MOST_CALLS = 150
# The longest thing that waits is two tags; but for what may have lost its opening, and for what
# recovery.md's promise 7 names, which waits whole. In prose that is only a run of EOS, with white
# space behind them, and calls where a quotation is open.
LONGEST_HOLD = 3 * LONGEST_TAG
LOST_OPENING = "parameters in mid-line"
WAITS_WHOLE = frozenset(
    {
        *(ParserState.BLOCK, ParserState.JUNK, ParserState.NAMED, ParserState.REMARK),
        *(ParserState.VALUE, ParserState.JSON, ParserState.NESTED, ParserState.ORPHANS),
        *(ParserState.PLAIN, ParserState.NATIVE, ParserState.FENCED),
        *(ParserState.ROLE, ParserState.INVENTED),
    }
)
RUNS_OF_EOS = frozenset({"EOS and much space", "EOS in a fence"})


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters were given to patterns, or cut out, so far."""
    total = [0]

    def count(name: str, length: Any) -> None:
        original = getattr(TextBuffer, name)

        def counted(self: TextBuffer, *args: Any) -> Any:
            result = original(self, *args)
            total[0] += length(self, result, *args)
            return result

        monkeypatch.setattr(TextBuffer, name, counted)

    def matched(source: TextBuffer, found: re.Match[str] | None, pattern: Any, at: int) -> int:
        return 1 if found is None else found.end() - found.start() + 1

    def searched(
        source: TextBuffer, found: re.Match[str] | None, pattern: Any, at: int, end: int
    ) -> int:
        return (end if found is None else source.place(found.end())) - at + 1

    count("match", matched)
    count("past", lambda source, result, pattern, at: result - at + 1)
    count("search", searched)
    count("slice", lambda source, result, *args: len(result))
    return total


def count(name: str, size: int, looked_at: list[int]) -> int:
    looked_at[0] = 0
    attacks.feed(attacks.TEXTS[name](size), 1)
    return looked_at[0]


@pytest.mark.parametrize("name", part(list(attacks.TEXTS), 5))
def test_few_characters_are_looked_at_for_each_that_comes(name: str, looked_at: list[int]) -> None:
    once, more = (count(name, size, looked_at) for size in (SIZE // 4, SIZE))
    assert more <= MOST_LOOKED_AT * SIZE
    if more > 4.4 * once + 10_000:
        # In a short text what is left of a tag at its end weighs more than all else.
        assert count(name, 4 * SIZE, looked_at) <= 4.4 * more


@pytest.mark.parametrize("name", part(list(attacks.TEXTS), 5))
def test_only_what_must_waits_whole(name: str) -> None:
    parser = dsv4.StreamParser(thinking=False, tools=attacks.TOOLS)
    text = attacks.TEXTS[name](SIZE)
    for start in range(0, SIZE, 5):
        parser.feed(text[start : start + 5])
        if len(parser.held) > LONGEST_HOLD and name != LOST_OPENING:
            hold = parser.held_by
            quoted = hold is not None and hold.rule in (29, 41)
            assert parser.state in WAITS_WHOLE or quoted or name in RUNS_OF_EOS


def test_what_may_have_lost_its_opening_waits_up_to_its_own_limit() -> None:
    parser = dsv4.StreamParser(thinking=False, tools=attacks.TOOLS)
    longest = 0
    for character in attacks.TEXTS[LOST_OPENING](3 * LONGEST_ORPHANS):
        parser.feed(character)
        longest = max(longest, len(parser.held))
    assert LONGEST_ORPHANS <= longest <= LONGEST_ORPHANS + LONGEST_TAG // 4


@pytest.mark.parametrize("name", part(list(attacks.TEXTS)[1:], 5))
def test_twice_the_text_is_twice_the_work(name: str) -> None:
    once, twice = (
        functions_called(attacks.feed, attacks.TEXTS[name](length), 1) for length in (1_000, 2_000)
    )
    assert twice <= 2.3 * once + 2_500
    assert twice <= MOST_CALLS * 2_000


def test_a_plain_call_without_arguments_is_not_read_once_more() -> None:
    text = attacks.TEXTS["plain calls"](2_000)
    assert functions_called(attacks.feed, text, 64) <= 14 * len(text)


# What a pattern does inside cannot be counted. So here is the one place where time is measured.
BACKTRACKING = [
    *("plain tags with spaces", "DSML tags with spaces", "attributes", "open quotes with text"),
    *("spaced ends of thought", "brackets and bars", "list markers", "braces in a native call"),
    *("open native calls", "blank lines", "lines in a block", "nesting in JSON"),
    "white space in JSON",
]


# Seconds. Less is not told from noise; a megabyte that takes less holds no loop in a loop.
MEASURABLE = 0.01
# On a machine that stands still now and then, more text tells. This much is no noise.
CERTAIN = 0.5
LARGEST = 1_000_000


def time_to_parse(text: str) -> float:
    start = time.process_time()
    dsv4.parse(text, thinking=False, tools=attacks.TOOLS)
    return time.process_time() - start


def best_times(text: str, twice: str) -> tuple[float, float]:
    """The best of two, and of five where two do not show that twice the text takes twice the time.

    They take turns, so that both see the same machine.
    """
    best = float("inf"), float("inf")
    for turn in range(5):
        best = min(best[0], time_to_parse(text)), min(best[1], time_to_parse(twice))
        if turn and best[1] < 3 * best[0]:
            break
    return best


@pytest.mark.parametrize("name", BACKTRACKING)
def test_no_pattern_backtracks_far(name: str) -> None:
    text, size, once = attacks.TEXTS[name], SIZE // 2, 0.0
    while once < CERTAIN and size < LARGEST:
        size *= 2
        once, twice = best_times(text(size), text(2 * size))
        if once >= MEASURABLE and twice < 3 * once:
            return
    assert once < MEASURABLE

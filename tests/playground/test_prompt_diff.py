"""Where two prompts differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import dsv4
from dsv4._encode.prompt import Fragment, Prompt, prompt_from_tokens
from dsv4._format.dialects import V4
from dsv4._format.tokens import THINK_END, THINK_START
from dsv4._playground.prompt_view import MOST_COMPARED, DiffUnit, changes, differing_ranges

UNITS = st.lists(st.sampled_from("abc "), max_size=12)


def units(texts: list[str]) -> list[DiffUnit]:
    return [DiffUnit(text, False) for text in texts]


@given(UNITS, UNITS)
def test_what_is_between_changes_is_the_same(a: list[str], b: list[str]) -> None:
    found = changes(units(a), units(b))
    at, other = 0, 0
    for a1, a2, b1, b2 in found:
        assert a[at:a1] == b[other:b1]
        assert a1 < a2 or b1 < b2
        at, other = a2, b2
    assert a[at:] == b[other:]


def test_long_lists_that_differ_are_changed_whole_between_what_they_share() -> None:
    a, b = (["a", *letter * MOST_COMPARED, " ", "c"] for letter in "xy")
    assert changes(units(a), units(b)) == [(1, len(a) - 2, 1, len(b) - 2)]


def encoded(text: str) -> dsv4.Prompt:
    return dsv4.encode([{"role": "user", "content": text}])


def marked(text: str, ranges: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in ranges]


def test_words_are_marked_inside_of_lines() -> None:
    a, b = encoded("one line\nsome words here\nend"), encoded("one line\nsome more here\nend")
    ours, theirs = differing_ranges(a, b)
    assert marked(a.text, ours) == ["words"]
    assert marked(b.text, theirs) == ["more"]


def test_what_only_one_has_is_marked_there_alone() -> None:
    a, b = encoded("one\ntwo\nthree"), encoded("one\nthree")
    assert differing_ranges(a, a) == ([], [])
    ours, theirs = differing_ranges(a, b)
    assert marked(a.text, ours) == ["two\n"]
    assert theirs == []


def test_tokens_are_marked_whole() -> None:
    a, b = (dsv4.encode([{"role": "user", "content": "Hi"}], thinking=t) for t in (True, False))
    ours, theirs = differing_ranges(a, b)
    assert marked(a.text, ours) == [THINK_START]
    assert marked(b.text, theirs) == [THINK_END]


def test_a_token_differs_from_text_that_spells_it() -> None:
    label = ("template", "content")
    token = Prompt([Fragment(THINK_START, label)], V4)
    text = prompt_from_tokens(["", str(THINK_START)], V4)
    assert token.text == text.text
    whole = [(0, len(THINK_START))]
    assert differing_ranges(token, text) == (whole, whole)

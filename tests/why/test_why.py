"""`dsv4 why`: whatever somebody pastes is recognised, and what is wrong is said in a few lines."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from inputs import INPUTS, Input

from dsv4._why.doc_pages import doc_pages
from dsv4._why.judge import why


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
def test_an_input_is_recognised_and_explained(given: Input) -> None:
    verdict = why(given.source)
    shown = "\n".join(f"{word}  {text}" for word, text in verdict.lines())
    assert (verdict.kind, verdict.status, verdict.who) == (given.kind, given.status, given.who), (
        shown
    )
    assert given.words in shown


def test_there_are_inputs_of_all_kinds() -> None:
    assert len(INPUTS) >= 60
    assert len({given.name for given in INPUTS}) >= len(INPUTS) - 1
    assert min(Counter(given.status for given in INPUTS).values()) >= 10


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
def test_a_verdict_is_short_and_leads_on(given: Input) -> None:
    verdict = why(given.source)
    lines = verdict.lines()
    assert 3 <= len(lines) <= 6
    assert all("\n" not in text and len(text) < 700 for _, text in lines), lines
    assert not verdict.more or verdict.more in doc_pages()
    assert verdict.status != 1 or verdict.fix
    json.dumps(verdict.to_dict())


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
def test_no_key_is_shown(given: Input) -> None:
    assert "0123456789abcdef" not in json.dumps(why(given.source).to_dict())


def test_nothing_that_is_cut_or_changed_ends_in_an_exception() -> None:
    """Every input, cut at places that are the same every time, and with its signs exchanged."""
    for given in INPUTS:
        text = given.source
        if isinstance(text, bytes) or len(text) > 10_000:
            continue
        cuts = [text[: len(text) * n // 7] for n in range(1, 7)]
        changed = [text.replace(a, b) for a, b in (('"', "'"), ("{", "["), ("\n", ""), (":", ""))]
        for each in (*cuts, *changed):
            assert why(each).lines()

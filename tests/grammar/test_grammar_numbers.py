"""Whole numbers between bounds, digit by digit."""

from __future__ import annotations

import json

import pytest
from gbnf_reader import Gbnf
from hypothesis import given
from hypothesis import strategies as st

from dsv4.grammar.expressions import NEVER, Expression
from dsv4.grammar.grammar_writers import GbnfWriter
from dsv4.grammar.json_rules import integer_rule, number_rule


def reader(part: Expression) -> Gbnf:
    return Gbnf(GbnfWriter({}).grammar(part))


bounds = st.one_of(st.none(), st.integers(-1200, 1200))


@given(bounds, bounds)
def test_every_number_between_the_bounds_and_no_other(least: int | None, most: int | None) -> None:
    part = integer_rule(least, most)
    if least is not None and most is not None and least > most:
        assert part == NEVER
        return
    made = reader(part)
    edges = [b + d for b in (least, most) if b is not None for d in (-1, 0, 1)]
    for value in {*range(-1300, 1300, 37), *edges, 0, 10**9, -(10**9)}:
        inside = (least is None or value >= least) and (most is None or value <= most)
        assert made.accepts(str(value)) == inside, value


def test_no_other_spelling() -> None:
    made = reader(integer_rule(0, None))
    assert not any(map(made.accepts, ("", "-0", "00", "01", "1.0", "1e3", "+1", " 1")))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_as_json_writes_them(value: float) -> None:
    text = json.dumps(value)
    assert reader(number_rule()).accepts(text)
    if value > 0:
        assert reader(number_rule(may_be_negative=False)).accepts(text)
        assert not reader(number_rule(may_be_positive=False)).accepts(text)


@pytest.mark.parametrize("text", ["", ".5", "1.", "01", "NaN", "1e", "--1", "Infinity"])
def test_what_is_no_number(text: str) -> None:
    assert not reader(number_rule()).accepts(text)

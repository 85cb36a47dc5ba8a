"""Free text without some words, and what is left after a prefix."""

from __future__ import annotations

import pytest
from gbnf_reader import Gbnf
from hypothesis import given
from hypothesis import strategies as st

from dsv4.grammar.automaton import WordSearch, rest_after
from dsv4.grammar.expressions import (
    NEVER,
    Expression,
    Rules,
    TextExpr,
    chars,
    choice,
    complement,
    literal,
    repeat,
    sequence,
)
from dsv4.grammar.grammar_writers import GbnfWriter
from dsv4.grammar.json_rules import JsonRules

WORDS = ("aab", "b<a", "<<")
texts = st.text(alphabet="ab<c", max_size=12)


def reader(part: Expression, rules: Rules | None = None) -> Gbnf:
    return Gbnf(GbnfWriter(rules.bodies if rules else {}).grammar(part))


def holds(text: str) -> bool:
    return any(word in text for word in WORDS)


@given(texts)
def test_every_text_without_the_words_and_no_other(text: str) -> None:
    assert reader(TextExpr(WORDS)).accepts(text) == (not holds(text))
    assert reader(TextExpr(WORDS, filled=True)).accepts(text) == (bool(text) and not holds(text))


@given(texts, texts)
def test_what_is_left_after_a_prefix(prefix: str, text: str) -> None:
    rules = Rules()
    item = rules.named("item", choice(literal("ab"), chars("c<")))
    part = choice(TextExpr(WORDS), sequence(repeat(item, 0, None), literal("a<")))
    rest, allowed = rest_after(part, prefix, rules)
    whole = reader(part, rules)
    if rest == NEVER:
        assert not whole.accepts(prefix + text)
        assert allowed < len(prefix)
    else:
        assert reader(rest, rules).accepts(text) == whole.accepts(prefix + text)


@given(texts)
def test_the_search_finds_what_is_there(text: str) -> None:
    assert (WordSearch(WORDS).walk("", text) is None) == holds(text)


@pytest.mark.parametrize(
    ("part", "apart"),
    [
        (literal("xaabx"), False),
        (literal("xaax"), True),
        (repeat(chars("ab"), 0, None), False),
        (repeat(chars("ac"), 0, None), True),
        (repeat(complement("b"), 0, None), False),
        (repeat(complement("b<"), 0, None), True),
        (sequence(repeat(literal("a"), 2, 2), choice(literal("c"), literal("b"))), False),
    ],
)
def test_whether_an_expression_lacks_a_character_of_each_word(
    part: Expression, apart: bool
) -> None:
    assert JsonRules(Rules(), WORDS).keeps_apart(part) == apart

"""Patterns of schemas as rules, held against Python's own."""

from __future__ import annotations

import re

import pytest
from gbnf_reader import Gbnf
from hypothesis import given
from hypothesis import strategies as st

from dsv4.grammar.grammar_writers import GbnfWriter
from dsv4.grammar.pattern_rules import NotRegular, pattern_rule
from rows import each_row

SAMPLES = (
    *("", "a", "b", "ab", "abc", "aab", "foo", "a foo b", "GET", "2026-11-15", "2026-1-5", "a.b"),
    *("v1.2.3", "1", "-", "]", "^", "$", "a-b", "A", "_", " ", "\n", "a\nb", "é", "日本", "x@y.de"),
)


@each_row(
    "source",
    [
        *(
            "a",
            "^a",
            "a$",
            "^a$",
            "^$",
            "",
            "^a|b$",
            "^b|ab$",
            "^(a|b)+$",
            "^(?:ab)*c?$",
            "^a.c$",
            ".",
        ),
        *(r"^\d{4}-\d{2}-\d{2}$", r"^\w+$", r"^[^a]+$", r"^[\]^-]$", r"^[a-c-]*$", r"^\S+$"),
        *(r"^v?\d+(\.\d+)*$", r"^[^\s@]+@[^\s@]+\.[a-z]{2,}$", r"^(?P<x>a)b?$", r"^a{2}b$"),
        *(r"^\x61\u0062$", r"^a*?b$", r"^(|a)b$", r"\.", r"^[A-Z][a-z_]*$", r"^\s$"),
    ],
)
def test_the_same_texts_as_python_finds(source: str) -> None:
    made = Gbnf(GbnfWriter({}).grammar(pattern_rule(source)))
    # `$` is the end here, and not also before a last newline.
    python = re.compile(
        source.removesuffix("$") + r"\Z" if source.endswith("$") else source, re.ASCII
    )
    for text in SAMPLES:
        assert made.accepts(text) == bool(python.search(text)), text


@each_row(
    "source",
    [
        *(r"(?=a)", r"(?<!a)b", r"(a)\1", r"\bword\b", r"a^b", r"(a$)b", r"\p{L}", "(", ")", "["),
        *("a{3,1}", "a{", "*a", "a**", r"\u12", "[z-a]", "a{65}", "a" * 300, "\\"),
    ],
)
def test_what_makes_no_rules(source: str) -> None:
    with pytest.raises(NotRegular):
        pattern_rule(source)


@given(st.text(alphabet="ab()[]|*+?{}1,.^$\\dw-", max_size=12))
def test_any_text_makes_rules_or_says_why_not(source: str) -> None:
    try:
        made = pattern_rule(source)
    except NotRegular:
        return
    re.compile(source)
    assert GbnfWriter({}).grammar(made)

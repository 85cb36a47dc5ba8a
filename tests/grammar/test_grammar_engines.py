"""Grammars in the engines that run them, with the real vocabulary.

A hundredth of it runs with the other tests. `DSV4_TESTS=all pytest tests/grammar` runs all:
2,000 random sets of tools and 500 walks for xgrammar, 300 sets for llguidance and for GBNF.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

pytest.importorskip("jsonschema")

from gbnf_reader import Gbnf
from grammar_cases import EOS, USER, Case, fits, random_case, spoiled
from grammar_engines import END_ID, LLGuidance, XGrammar, ids_of
from random_walks import text_of, walk

import dsv4
from dsv4.grammar import Grammar, for_request
from dsv4.tokens import IdParser, Tokenizer
from parts import ALL, fewer

# How many cases make one test: an engine takes a third of a second for each.
BATCH = 20 if ALL else 5
WALKS = 5 if ALL else 1


def batches(count: int) -> list[range]:
    return [range(n, n + BATCH) for n in range(0, max(BATCH, fewer(count, 200)), BATCH)]


class GbnfEngine:
    """GBNF reads text, not tokens."""

    def __init__(self, grammar: str) -> None:
        self.reader = Gbnf(grammar)

    def accepts_text(self, text: str) -> bool:
        return self.reader.accepts(text.removesuffix(EOS))


def checker(form: str, grammar: Grammar) -> Callable[[str], bool]:
    """Whether an engine accepts a completion, which ends with EOS."""
    if form == "gbnf":
        return GbnfEngine(grammar.text).accepts_text
    engine = XGrammar(grammar.text) if form == "xgrammar" else LLGuidance(grammar.text)
    return lambda text: engine.accepts(ids_of(text))


def check(form: Any, seeds: Sequence[int]) -> None:
    for seed in seeds:
        case = random_case(seed)
        assert fits(case.text, case, ()), "the generator made something that does not fit"
        grammar = for_request(case.request, form)
        accepts = checker(form, grammar)
        assert accepts(case.text), (seed, case.text)
        text, kind = maybe_spoiled(case, grammar, seed)
        assert text is None or not accepts(text), (seed, kind, text)


def maybe_spoiled(case: Case, grammar: Grammar, seed: int) -> tuple[str | None, str]:
    """A completion that does not fit, unless none was found: not all that is changed is spoiled."""
    random = Random(seed)
    twice = any("twice" in relaxation.reason for relaxation in grammar.relaxed)
    for _ in range(40):
        text, kind = spoiled(case, random)
        if not fits(text + EOS, case, grammar.relaxed) and not (twice and kind == "twice"):
            return text + EOS, kind
    return None, ""


@pytest.mark.parametrize("seeds", batches(2000), ids=str)
def test_xgrammar_accepts_what_fits_and_nothing_else(seeds: range) -> None:
    check("xgrammar", seeds)


@pytest.mark.parametrize("seeds", batches(300), ids=str)
def test_llguidance_accepts_what_fits_and_nothing_else(seeds: range) -> None:
    check("lark", seeds)


@pytest.mark.parametrize("seeds", batches(300), ids=str)
def test_a_reader_of_gbnf_accepts_what_fits_and_nothing_else(seeds: range) -> None:
    check("gbnf", seeds)


def walked(engine: XGrammar | LLGuidance, seed: int) -> list[list[int]]:
    walks = [walk(engine, Random(seed * WALKS + n)) for n in range(WALKS)]
    return [ids for ids in walks if ids is not None]


def read_from_ids(ids: list[int], case: Case, grammar: Grammar, tokenizer: Tokenizer) -> Any:
    """What a gateway makes of a completion, id by id."""
    parser = IdParser(tokenizer, case.request.parser(), markers=grammar.markers)
    events = [event for id in [*ids, END_ID] for event in parser.feed_ids([id])]
    return dsv4.assemble([*events, *parser.finish("eos")])


def check_walks(
    form: Any, seeds: Sequence[int], tokenizer: Tokenizer, markers: Any = "tokens"
) -> None:
    """Every walk parses and fits, and is read from its ids as from its text."""
    finished = 0
    for seed in seeds:
        case = random_case(seed)
        if seed % 5:  # most of them with calls, which a walk seldom comes to by itself
            case = replace(case, thinking=True, tool_choice="required")
        grammar = for_request(case.request, form, preamble=seed % 2 == 0, markers=markers)
        engine = XGrammar(grammar.text) if form == "xgrammar" else LLGuidance(grammar.text)
        if any("twice" in relaxation.reason for relaxation in grammar.relaxed):
            continue
        for ids in walked(engine, seed):
            finished += 1
            text = text_of(ids) + EOS
            assert fits(text, case, grammar.relaxed), (seed, text)
            meant = dsv4.parse(text, thinking=case.thinking, dialect=case.dialect, strict=True)
            read = read_from_ids(ids, case, grammar, tokenizer)
            assert shown(read) == shown(meant), (seed, ids)
            assert not read.diagnostics, (seed, ids)
    assert 5 * finished > len(seeds) * WALKS


def shown(message: dsv4.Message) -> tuple[Any, ...]:
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return message.reasoning, message.content, calls


@pytest.mark.parametrize("seeds", batches(180), ids=str)
def test_all_that_xgrammar_writes_is_read_from_ids_as_meant(
    seeds: range, tokenizer: Tokenizer
) -> None:
    check_walks("xgrammar", seeds, tokenizer)


@pytest.mark.parametrize("seeds", batches(60), ids=str)
def test_all_that_llguidance_writes_is_read_from_ids_as_meant(
    seeds: range, tokenizer: Tokenizer
) -> None:
    check_walks("lark", seeds, tokenizer)


@pytest.mark.parametrize("form", ["xgrammar", "lark"])
def test_markers_that_a_grammar_has_as_text_count_where_they_are_spelled(
    form: str, tokenizer: Tokenizer
) -> None:
    check_walks(form, range(fewer(40, 20)), tokenizer, markers="text")


STRINGS_IN_JSON = [
    ('{"a": "</｜DSML｜invoke>"}', True),
    ('{"a": "/｜DSML"}', True),
    ('{"a": "<｜DSML｜parameter name=\\"b\\">"}', True),
    ('{"a": "</thinking> <think \\\\ \\u00e9 \\"/"}', True),
    ('{"a": "//｜｜/｜D"}', True),
    ('{"a": "｜/a｜ 日｜本/｜x"}', True),
    ('{"a": "</｜DSML｜invoke> <｜DSML｜parameter name=\\"b\\">"}', True),
    ('{"a": "/｜DSML｜x/｜DSML｜parameter"}', False),
    ('{"a": "/｜｜/｜DSML｜parameter"}', False),
    ('{"a": "</｜DSML｜parameter"}', False),
    ('{"a": "/｜DSML/｜DSML｜parameter"}', False),
    ('{"a": "/\\uff5cDSML｜parameter"}', True),
    ('{"a": "line\nbreak"}', False),
    ('{"a": "\\x"}', False),
    ('{"a": "\\/"}', False),
]


@pytest.mark.parametrize("engine", [XGrammar, LLGuidance])
def test_strings_in_json(engine: Any) -> None:
    parameters = {"type": "object", "properties": {"o": {"type": "object"}}, "required": ["o"]}
    tools = [{"name": "f", "parameters": parameters}]
    request = dsv4.Request([USER], tools=tools, tool_choice="f", thinking=False)
    made = engine(for_request(request, "xgrammar" if engine is XGrammar else "lark").text)
    for value, allowed in STRINGS_IN_JSON:
        rest = f'<｜DSML｜parameter name="o" string="false">{value}</｜DSML｜parameter>\n'
        rest += "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
        assert made.accepts(ids_of(rest + EOS)) == allowed, value


@pytest.mark.parametrize("engine", [XGrammar, LLGuidance])
def test_a_list_of_thousands_of_values_inside_an_object(engine: Any) -> None:
    listed = {"enum": [f"{letter}{n}" for letter in "ab" for n in range(1050)] + [*range(1050)]}
    schema = {"type": "object", "properties": {"o": {"properties": {"e": listed}}, "n": listed}}
    request = dsv4.Request(
        [USER], tools=[{"name": "f", "parameters": schema}], tool_choice="f", thinking=False
    )
    made = engine(for_request(request, "xgrammar" if engine is XGrammar else "lark").text)
    for value, allowed in [('"b77"', True), ("1049", True), ('"c1"', False), ("1050", False)]:
        rest = f'<｜DSML｜parameter name="o" string="false">{{"e": {value}}}</｜DSML｜parameter>\n'
        rest += '<｜DSML｜parameter name="n" string="false">12</｜DSML｜parameter>\n'
        rest += "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
        assert made.accepts(ids_of(rest + EOS)) == allowed, value


@pytest.mark.parametrize("form", ["xgrammar", "lark"])
def test_only_the_token_itself_opens_a_tag(form: Any) -> None:
    request = dsv4.Request([USER], tools=[{"name": "f"}], tool_choice="required")
    engine_of = XGrammar if form == "xgrammar" else LLGuidance
    dsml, think_end = ids_of("｜DSML｜")[0], ids_of("</think>")[0]
    begun = [*ids_of("Hm."), think_end, *ids_of("\n\n<")]
    engine = engine_of(for_request(request, form, preamble=False).text)
    matcher = engine.matcher()
    assert all(engine.take(matcher, id) for id in begun)
    allowed = engine.allowed(matcher)
    assert allowed[dsml]
    assert allowed.sum() == 1


@pytest.mark.parametrize("engine", [XGrammar, LLGuidance])
def test_counts_of_counts(engine: Any) -> None:
    schema = {"type": "string", "pattern": "^((ab{2}){2}c){1,2}$"}
    request = dsv4.Request([USER], response_format=schema, thinking=False)
    made = engine(for_request(request, "xgrammar" if engine is XGrammar else "lark").text)
    assert made.accepts(ids_of('"abbabbcabbabbc"' + EOS))
    assert not made.accepts(ids_of('"abbabcabbabbc"' + EOS))


@pytest.mark.parametrize("engine", [XGrammar, LLGuidance])
def test_no_string_completes_a_closing_tag(engine: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    request = dsv4.Request([USER], tools=[{"name": "f", "parameters": schema}], thinking=False)
    made = engine(for_request(request, "xgrammar" if engine is XGrammar else "lark").text)
    random = Random(0)
    pieces = (
        "/",
        "｜",
        "/｜",
        "DSML",
        "｜DSML｜",
        "D",
        "ML",
        "parameter",
        "p",
        "<",
        " ",
        "é",
        "\\\\",
        '\\"',
    )
    for _ in range(300):
        value = "".join(random.choices(pieces, k=random.randint(0, 7)))
        whole = f'<｜DSML｜parameter name="a" string="false">["{value}"]</｜DSML｜parameter>\n'
        whole = f'\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n{whole}</｜DSML｜invoke>\n'
        accepted = made.accepts(ids_of(whole + "</｜DSML｜tool_calls>" + EOS))
        assert not accepted or "/｜DSML｜parameter" not in value, value
        assert accepted or "/｜DSML｜" in value, value


STRINGS_IN_AN_ANSWER = [
    ('{"a": "<b>I think</b> ▁of｜ <｜User| </title>"}', True),
    ('{"a": "</think>"}', False),
    ('{"a": "<<think>"}', False),
    ('{"a": "｜DSML｜"}', False),
    ('{"a": "<｜begin▁of▁sentence｜>"}', False),
    ('{"a": "x < y <｜end▁of▁sentence｜>"}', False),
    ('{"a": "I think> ｜DSML </thinking>"}', True),
    ('{"a": "\\u003cthink>"}', True),
]


@pytest.mark.parametrize("engine", [XGrammar, LLGuidance])
def test_strings_in_an_answer(engine: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}}
    request = dsv4.Request([USER], response_format=schema, thinking=False)
    made = engine(for_request(request, "xgrammar" if engine is XGrammar else "lark").text)
    for answer, allowed in STRINGS_IN_AN_ANSWER:
        assert made.accepts(ids_of(answer + EOS)) == allowed, answer

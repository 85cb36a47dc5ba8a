"""A release is a value: what a dialect spells in another way is written, encoded and read so.

The fields are found by reflection, so that a new one is tested, or named here as no spelling.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import pytest

import dsv4
from dsv4._completion.message import assemble
from dsv4._format.tokens import Special
from dsv4._view.view_rows import view_of
from dsv4.compat.release import ReleasedFunctions
from dsv4.compat.templates import chat_template
from dsv4.grammar import for_request
from dsv4.tokens import IdParser
from parts import part

FUNCTION = {
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}, "at": {}}},
}
CALL = {
    "id": "a",
    "type": "function",
    "function": {"name": "look", "arguments": '{"n": 1, "at": "the \\"sea\\""}'},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
PICTURE = {"type": "image_url", "image_url": {"url": "cat.png"}}
ANSWER = {
    "role": "assistant",
    "reasoning_content": "I look.",
    "content": "So.",
    "tool_calls": [CALL],
}
TASKS = ("action", "query", "authority", "domain", "title", "read_url")
# The fields of a dialect that spell nothing.
RULES = frozenset(
    {
        *("name", "efforts_described", "context", "false_efforts_are_none", "layout", "roles"),
        *("special_tokens", "renamed_tokens", "systems_ask", "results_ask", "result_blocks_named"),
        *("image_rule", "image_text_refused", "lists_are_blocks", "users_keep_tools"),
        *("arguments", "namespaces"),
    }
)
GROUPS = ("tokens", "texts", "tags")
# What each layout does not write.
_RESULTS = ("results_start", "results_end", "one_result_start", "one_result_end")
UNWRITTEN = {
    "v4": {f"texts.{name}" for name in ("developer_message", *_RESULTS)},
    "v3.2": {
        *(f"tokens.{name}" for name in ("latest_reminder", "extracted_url", *TASKS)),
        *(f"texts.{name}" for name in ("result_start", "result_end")),
        *(f"texts.{name}" for name in ("unsupported_start", "unsupported_end")),
    },
}


@dataclass(frozen=True)
class Case:
    """A field of a dialect that `mine` spells in another way: what was written, and what is now."""

    dialect: dsv4.Dialect
    field: str
    mine: dsv4.Dialect
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.dialect}-{self.field}"

    @property
    def is_written(self) -> bool:
        dialect = self.dialect
        if self.field in UNWRITTEN[dialect.layout]:
            return False
        if self.field.startswith("texts.unsupported"):
            return dialect.lists_are_blocks
        if self.field == "tags.namespace_end":
            return dialect.namespaces
        return True


def spelled_otherwise(name: str, was: str) -> str:
    """Another spelling of a word, with the same white space around it."""
    if isinstance(was, Special):
        return Special(f"[my {name}]", was.id)
    word = was.strip()
    own = f"my_{name}" if word.isidentifier() or word == "::" else f"[my {name}] "
    return was.replace(word, own.strip() if was.endswith(word) and not was.endswith(" ") else own)


def respellings(dialect: dsv4.Dialect) -> list[Case]:
    """Each field of a dialect and of its groups, spelled in another way."""
    cases = []
    for group in GROUPS:
        values = getattr(dialect, group)
        for name in (field.name for field in fields(values)):
            was = getattr(values, name)
            own = spelled_otherwise(name, was)
            mine = replace(dialect, **{group: replace(values, **{name: own})})
            cases.append(Case(dialect, f"{group}.{name}", mine, was, own))
    for name in ("system_token", "image_token"):
        if (was := getattr(dialect, name)) is not None:
            own = spelled_otherwise(name, was)
            cases.append(Case(dialect, name, replace(dialect, **{name: own}), was, own))
    section = dialect.tools_section.replace("You have access", "Here is access")
    was, own = "You have access", "Here is access"
    cases.append(Case(dialect, "tools_section", replace(dialect, tools_section=section), was, own))
    if was := dialect.efforts.get("max", ""):
        efforts = {**dialect.efforts, "max": "Think hard.\n\n"}
        mine = replace(dialect, efforts=efforts)
        cases.append(Case(dialect, "efforts", mine, was, "Think hard.\n\n"))
    return cases


CASES = [case for dialect in dsv4.DIALECTS.values() for case in respellings(dialect)]
respelled = pytest.mark.parametrize("case", CASES, ids=str)
OF_V4 = [case for case in CASES if case.dialect.layout == "v4"]


def test_every_field_is_a_rule_or_is_respelled() -> None:
    named = {case.field.partition(".")[0] for case in CASES}
    assert {field.name for field in fields(dsv4.Dialect)} == RULES | named


@lru_cache
def conversations(name: str) -> list[list[Any]]:
    """Conversations in which each word of a dialect stands in one at least."""
    dialect = dsv4.DIALECTS[name]
    tools = {"tools": [{"type": "function", "function": FUNCTION}], "response_format": SCHEMA}
    system = {"role": "system", "content": "Be brief.", **tools}
    question: Any = "Look."
    if dialect.image_token is not None:
        question = [PICTURE, {"type": "text", "text": "Look."}]
    call = CALL
    if dialect.namespaces:
        call = {**CALL, "namespace": "sea"}
    asked = [system, {"role": "user", "content": question}]
    answer = {**ANSWER, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "a", "content": "a cat"}
    found = [
        asked,
        [*asked, answer, result],
        [*asked, answer, result, {**ANSWER, "tool_calls": []}],
    ]
    if dialect.system_token is not None:
        found.append([*found[1], {"role": "system", "content": "Hurry."}])
    if dialect.lists_are_blocks:
        file = [{"type": "text", "text": "See."}, {"type": "file"}]
        found.append([system, {"role": "user", "content": file}])
    if "developer" in dialect.roles:
        found.append([system, {"role": "developer", "content": "Look.", **tools}])
    if "latest_reminder" in dialect.roles:
        reminder = {"role": "latest_reminder", "content": "Today is Monday."}
        found.append([system, reminder, {"role": "user", "content": "Look."}])
    if dialect.layout == "v4":
        found += ([{"role": "user", "content": "Look.", "task": task}] for task in TASKS)
        url = {"role": "user", "content": "Look.", "task": "read_url", "extracted_url": "a.b"}
        found.append([url])
    return found


def request(messages: list[Any], dialect: dsv4.Dialect) -> dsv4.Request:
    effort: Any = "max" if "max" in dialect.efforts else None
    return dsv4.Request(messages, effort=effort, dialect=dialect)


def prompts(case: Case) -> list[tuple[dsv4.Prompt, dsv4.Prompt]]:
    """Prompts of the release, and what the other spelling makes of them."""
    return [
        (request(messages, case.dialect).encode(), request(messages, case.mine).encode())
        for messages in conversations(case.dialect.name)
    ]


@respelled
def test_prompts_have_it(case: Case) -> None:
    written = 0
    for prompt, own in prompts(case):
        assert str(own).replace(case.now, case.was) == str(prompt)
        written += str(own).count(case.now)
        if isinstance(case.was, Special):
            pieces = [(piece.text, piece.special) for piece in own.pieces]
            assert (str(case.was), True) not in pieces
            assert ((str(case.now), True) in pieces) == (case.now in str(own))
    assert bool(written) == case.is_written


@pytest.mark.parametrize("case", part(OF_V4, 59), ids=str)
def test_ids_have_it(case: Case, tokenizer: Any) -> None:
    """A token of another name has the same id, and is one token. Those of V3.2 are in its
    checkpoint alone."""
    theirs, mine = (tokenizer.with_dialect(d) for d in (case.dialect, case.mine))
    for prompt, own in prompts(case):
        ids, weights = tokenizer.encode_masked(own)
        assert mine.decode(ids) == str(own)
        if isinstance(case.was, Special):
            assert (ids, weights) == theirs.encode_masked(prompt)
        assert str(mine.prompt(ids, dialect=case.mine)) == str(own)


def as_json(decoded: dsv4.Decoded) -> str:
    return json.dumps(decoded.request.messages, ensure_ascii=False)


@pytest.mark.parametrize("case", part(CASES, 59), ids=str)
def test_decode_gives_it_back(case: Case) -> None:
    for prompt, own in prompts(case):
        theirs = dsv4.decode(prompt, dialect=case.dialect)
        for known in (own, str(own)):
            decoded = dsv4.decode(known, dialect=case.mine)
            assert decoded.exact
            assert str(decoded.request.encode()) == str(own)
        mine = dsv4.decode(own, dialect=case.mine)
        assert as_json(mine).replace(case.now, case.was) == as_json(theirs)


def styles(prompt: dsv4.Prompt) -> list[tuple[str, list[str]]]:
    """How the view shows a prompt: the role and the styles of each row."""
    view = view_of(prompt)
    return [
        (row.role, [segment.style for line in row.lines for segment in line]) for row in view.rows
    ]


@pytest.mark.parametrize("case", part(CASES, 59), ids=str)
def test_the_view_knows_it(case: Case) -> None:
    for prompt, own in prompts(case):
        if isinstance(case.was, Special):
            assert styles(own) == styles(prompt)


@pytest.mark.parametrize("case", part(CASES, 59), ids=str)
def test_checks_know_it(case: Case) -> None:
    open_turn = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "So."}]
    for messages in (*conversations(case.dialect.name), open_turn):
        found = [
            [(each.kind, each.location) for each in dsv4.check(asked, purpose="training")]
            for asked in (request(messages, case.dialect), request(messages, case.mine))
        ]
        assert found[0] == found[1]


@respelled
def test_the_released_functions_write_it(case: Case) -> None:
    functions = (ReleasedFunctions(case.dialect), ReleasedFunctions(case.mine))
    if case.dialect.layout == "v4":
        for messages in conversations(case.dialect.name):
            texts = [each.encode_messages(messages, "thinking") for each in functions]
            assert texts[1].replace(case.now, case.was) == texts[0]


def completion(case: Case, dialect: dsv4.Dialect) -> tuple[dsv4.Request, str]:
    """A request, and what a model of the dialect answers to it."""
    asked, _, answered, *_ = conversations(case.dialect.name)
    tools = None if dialect.namespaces else [FUNCTION]
    before = replace(request(asked, dialect), tools=tools)
    after = replace(before, messages=answered[:3])
    return before, str(after.encode()).removeprefix(str(before.encode()))


@respelled
def test_the_parser_reads_it(case: Case) -> None:
    (_, theirs), (asked, text) = completion(case, case.dialect), completion(case, case.mine)
    assert text.replace(case.now, case.was) == theirs
    expected = dsv4.parse(theirs, thinking=True, dialect=case.dialect)
    assert [call.name for call in expected.tool_calls] == ["look"]
    assert expected.reasoning == "I look."
    for strict in (False, True):
        message = dsv4.parse(text, thinking=True, dialect=case.mine, strict=strict)
        assert message == expected
    for size in (1, 3):
        parser = dsv4.StreamParser(ending=asked.encode().ending, dialect=case.mine)
        pieces = [text[n : n + size] for n in range(0, len(text), size)]
        events = [event for piece in pieces for event in parser.feed(piece)]
        assert assemble([*events, *parser.finish()]) == expected


@pytest.mark.parametrize("case", part(OF_V4, 59), ids=str)
def test_ids_are_parsed(case: Case, tokenizer: Any) -> None:
    asked, text = completion(case, case.mine)
    prompt = replace(asked, messages=conversations(case.dialect.name)[1][:3]).encode()
    ids = tokenizer.encode(prompt)[len(tokenizer.encode(asked.encode())) :]
    parser = IdParser(tokenizer, dsv4.StreamParser(dialect=case.mine))
    message = assemble([*parser.feed_ids(ids), *parser.finish()])
    assert message == dsv4.parse(text, dialect=case.mine)


IN_COMPLETIONS = [case for case in CASES if case.field in ("tokens.eos", "tokens.think_end")]


@pytest.mark.parametrize("case", IN_COMPLETIONS, ids=str)
def test_text_that_only_spells_it_is_text(case: Case) -> None:
    """V4's spelling of a token that a dialect spells in another way is a text like any other."""
    text = completion(case, case.mine)[1]
    mention = f"a {case.was} b"
    told = text.replace("I look.", mention).replace("So.", mention).replace("the ", mention)
    message = dsv4.parse(told, thinking=True, dialect=case.mine)
    assert message == dsv4.parse(told, thinking=True, dialect=case.mine, strict=True)
    assert message.reasoning == message.content == mention
    assert mention in message.tool_calls[0].arguments


CONSTRAINED = ("tokens.bos", "tokens.eos", "tokens.think", "tags.")
IN_GRAMMARS = [
    case
    for case in CASES
    if case.field.startswith(CONSTRAINED) and case.field != "tags.namespace_end"
]


@pytest.mark.parametrize("case", part(IN_GRAMMARS, 29), ids=str)
@pytest.mark.parametrize("form", ["xgrammar", "gbnf", "lark"])
def test_grammars_have_it(case: Case, form: Any) -> None:
    asked = completion(case, case.mine)[0]
    usual = for_request(replace(asked, dialect=case.dialect), form, markers="text")
    grammar = for_request(asked, form, markers="text")
    assert grammar.text != usual.text
    if case.now in grammar.visible:
        assert case.was in usual.visible
        assert case.was not in grammar.visible
    elif case.field.startswith("tags."):
        assert case.now in grammar.text
        assert case.now not in usual.text


@pytest.mark.parametrize("case", part(OF_V4, 59), ids=str)
def test_templates_have_it(case: Case) -> None:
    """V3.2 has a template of its own."""
    jinja2 = pytest.importorskip("jinja2")
    source = chat_template(case.mine, engine="jinja2")
    environment = jinja2.Environment()
    environment.filters["fromjson"] = json.loads
    template = environment.from_string(source)
    for messages in conversations(case.dialect.name):
        asked = request(messages, case.mine)
        options = {"reasoning_effort": asked.effort} if asked.effort else {}
        written = template.render(
            messages=messages, add_generation_prompt=True, thinking=True, **options
        )
        assert written == str(asked.encode())

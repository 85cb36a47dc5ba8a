"""The strict grammar: what a well-formed completion is, and where any other one leaves it.

`test_vectors.py` holds the released parser against its vectors. Here the others are held
against the same: vLLM's copy, `dsv4.parse` with and without `strict`, and the streaming parser.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import dsv4
import encoding_dsv4
from builders import BOS, EOS, is_json, vectors
from completions import *
from dsv4.compat import vllm
from rows import each_row

Case = dict[str, Any]

every_case = each_row(
    "case",
    [
        pytest.param(case, id=f"{line} {case.get('note', '')}".strip())
        for line, case in enumerate(vectors("parse-v4.jsonl"), 1)
    ],
)


def strictly(case: Case) -> dsv4.Message:
    return dsv4.parse(case["text"], thinking=case["thinking_mode"] == "thinking", strict=True)


@every_case
def test_vllms_copy_calls_it_reasoning(case: Case) -> None:
    args = (case["text"], case["thinking_mode"])
    if "error" in case:
        with pytest.raises(ValueError, match="found"):
            vllm.parse_message_from_completion_text(*args)
        return
    expected = dict(case["message"])
    expected["reasoning"] = expected.pop("reasoning_content")
    assert vllm.parse_message_from_completion_text(*args) == expected


@every_case
def test_strict_parsing_accepts_and_refuses_the_same(case: Case) -> None:
    if "error" in case:
        with pytest.raises(dsv4.ParseError) as caught:
            strictly(case)
        assert 0 <= caught.value.position <= len(case["text"])
        return
    message, expected = strictly(case), case["message"]
    assert message.content == expected["content"]
    assert message.reasoning == expected["reasoning_content"]
    functions = [call["function"] for call in expected["tool_calls"]]
    assert [{"name": c.name, "arguments": c.arguments} for c in message.tool_calls] == functions
    assert message.diagnostics == ()


@every_case
def test_what_is_accepted_is_read_the_same_without_strict(case: Case) -> None:
    # A look-alike of the token is text to the strict grammar, and markup to the tolerant parser.
    if "error" in case or "|DSML|" in case["text"]:
        return
    strict = strictly(case)
    if not all(is_json(call.arguments) for call in strict.tool_calls):
        return  # the tolerant parser gives no such arguments
    named = set(re.findall(r'invoke name="(.*?)"', case["text"]))
    tools = declared(**{name: {} for name in named})
    thinking = case["thinking_mode"] == "thinking"
    message = dsv4.parse(case["text"], thinking=thinking, tools=tools)
    assert (message.content, message.reasoning) == (strict.content, strict.reasoning)
    assert repr(calls_of(message)) == repr(calls_of(strict))
    assert message.finish == strict.finish
    assert message.diagnostics == ()


@every_case
def test_in_chunks(case: Case) -> None:
    thinking = case["thinking_mode"] == "thinking"
    for chunks in cuts(case["text"]):
        if "error" in case:
            with pytest.raises(dsv4.ParseError):
                events_of(chunks, thinking=thinking, strict=True)
        else:
            events = events_of(chunks, thinking=thinking, strict=True)
            assert dsv4.assemble(events) == strictly(case)


CALL = calling("f", a="1")


class TestWhereItLeavesTheGrammar:
    """`position` is where in the text."""

    @pytest.mark.parametrize(
        ("before", "rest", "problem"),
        [
            pytest.param("Hi", "", f"found the end, expected {EOS}", id="no EOS"),
            pytest.param("a", f"{BOS}b{EOS}", f"found {BOS}, expected text", id="BOS"),
            pytest.param("a", f"<think>b{EOS}", "found <think>, expected text", id="think"),
            pytest.param("a", f"</think>b{EOS}", "found </think>, expected text", id="think end"),
            pytest.param("a", f"{DSML}b{EOS}", f"found {DSML}, expected text", id="token"),
            pytest.param(f"a{EOS}", "b", "found 'b', expected the end", id="text behind EOS"),
            pytest.param(
                block(CALL), "\n", r"found '\n', expected the end", id="text behind calls"
            ),
            pytest.param(
                f"\n\n{BLOCK}\n",
                f"f{BLOCK_END}",
                "found 'f</｜DSML｜tool', expected '<｜DSML｜invoke'",
                id="no call",
            ),
            pytest.param(
                f'\n\n{BLOCK}\n<{DSML}invoke name="',
                f"f>\n{INVOKE_END}\n{BLOCK_END}",
                "found no '\">\\n' in the line, expected it after the name",
                id="name not closed",
            ),
            pytest.param(
                f"\n\n{BLOCK}\n{invoke('f')}\n", f"x{INVOKE_END}", "found 'x", id="text in a call"
            ),
            pytest.param(
                f'\n\n{BLOCK}\n{invoke("f")}\n<{DSML}parameter name="',
                f'a">1{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}',
                'found no string="true" or string="false" after the name',
                id="no type",
            ),
            pytest.param(
                f"\n\n{BLOCK}\n{invoke('f')}\n{parameter('a')}1",
                "",
                f"found the end, expected {PARAMETER_END}",
                id="value not closed",
            ),
            pytest.param(
                f'\n\n{BLOCK}\n{CALL[: -len(INVOKE_END) - 1]}<{DSML}parameter name="',
                f'a" string="true">2{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}',
                "found the parameter 'a' twice, expected it once",
                id="twice",
            ),
        ],
    )
    def test_position_and_problem(self, before: str, rest: str, problem: str) -> None:
        with pytest.raises(dsv4.ParseError) as caught:
            dsv4.parse(before + rest, thinking=False, strict=True)
        assert caught.value.position == len(before)
        assert caught.value.problem.startswith(problem)
        assert str(caught.value) == f"at character {len(before)}: {caught.value.problem}"
        with pytest.raises(ValueError, match="at character"):
            encoding_dsv4.parse_message_from_completion_text(before + rest, "chat")

    def test_reasoning_must_end(self) -> None:
        with pytest.raises(dsv4.ParseError) as caught:
            dsv4.parse(f"Hm{EOS}", strict=True)
        assert caught.value.position == len(f"Hm{EOS}")
        assert caught.value.problem == "found the end, expected </think>"


class TestWhatIsAllowed:
    def test_no_eos_behind_calls(self) -> None:
        message = dsv4.parse(f"a</think>b{block(CALL)}", strict=True)
        assert (message.reasoning, message.content, message.finish) == ("a", "b", "tool_calls")

    def test_both_forms_of_a_call_without_parameters(self) -> None:
        for call in (f"{invoke('f')}\n{INVOKE_END}\n", f"{invoke('f')}\n\n{INVOKE_END}\n"):
            message = dsv4.parse(block(call) + EOS, thinking=False, strict=True)
            assert calls_of(message) == [("f", {})]

    def test_a_block_without_calls(self) -> None:
        message = dsv4.parse(f"a{block()}{EOS}", thinking=False, strict=True)
        assert (message.content, message.tool_calls, message.finish) == ("a", (), "stop")

    def test_a_name_ends_at_the_end_of_its_line(self) -> None:
        message = dsv4.parse(block(calling('f"> "g', a="1")), thinking=False, strict=True)
        assert calls_of(message) == [('f"> "g', {"a": "1"})]

    def test_nothing_in_a_value_is_checked(self) -> None:
        value = f"{EOS}<think>{BLOCK}{INVOKE_END}\n"
        message = dsv4.parse(block(calling("f", a=value)), thinking=False, strict=True)
        assert calls_of(message) == [("f", {"a": value})]

    def test_values_that_are_no_strings_are_pasted_as_they_are(self) -> None:
        value = f"{parameter('a', 'false')}[1,2{PARAMETER_END}\n"
        call = f"{invoke('f')}\n{value}{INVOKE_END}\n"
        message = dsv4.parse(block(call), thinking=False, strict=True)
        assert message.tool_calls[0].arguments == '{"a": [1,2}'


def test_events_come_at_the_end() -> None:
    parser = dsv4.StreamParser(thinking=False, strict=True)
    assert parser.feed("Hi.") == []
    assert parser.feed(block(CALL)) == []
    assert parser.finish() == [
        dsv4.ContentDelta("Hi."),
        dsv4.ToolCallStart(0, "f"),
        dsv4.ArgumentsDelta(0, '{"a": "1"}'),
        dsv4.ToolCallEnd(0),
        dsv4.End("tool_calls"),
    ]


class TestDialects:
    TEXT = block(CALL)
    TEXT_4_1 = re.sub(f"{DSML}(tool_)?", f"{DSML} ", TEXT)

    def test_each_has_its_tags(self) -> None:
        assert f"<{DSML} calls>" in self.TEXT_4_1
        for dialect, text in (
            ("v4", self.TEXT),
            ("v4-0731", self.TEXT),
            ("v4.1", self.TEXT_4_1),
        ):
            options: dict[str, Any] = {"thinking": False, "dialect": dialect}
            message = dsv4.parse(text, strict=True, **options)
            assert calls_of(message) == [("f", {"a": "1"})]
            assert merged(events_of([text], **options)) == merged(
                events_of([text], strict=True, **options)
            )

    def test_and_no_others(self) -> None:
        for dialect, text in (("v4", self.TEXT_4_1), ("v4.1", self.TEXT)):
            with pytest.raises(dsv4.ParseError):
                dsv4.parse(text + EOS, thinking=False, strict=True, dialect=dialect)
            message = dsv4.parse(text, thinking=False, dialect=dialect)
            assert calls_of(message) == [("f", {"a": "1"})]
            assert set(kinds_of(message)) == {"other_release"}

    def test_a_dialect_may_be_given_as_itself(self) -> None:
        message = dsv4.parse(
            self.TEXT_4_1, thinking=False, strict=True, dialect=dsv4.DIALECTS["v4.1"]
        )
        assert calls_of(message) == [("f", {"a": "1"})]

    def test_an_unknown_one_is_an_error(self) -> None:
        with pytest.raises(dsv4.Error, match="dialect: found 'v5', expected one of v4"):
            dsv4.parse("", dialect="v5")


def test_no_call_is_made_where_none_is_declared_or_wanted() -> None:
    written = block(calling("bash", command="ls"))
    text = f"Hi.{written}{EOS}"
    undeclared = dsv4.parse(text, thinking=False, tools=[], strict=True)
    assert (undeclared.content, undeclared.tool_calls) == (f"Hi.{written}", ())
    unwanted = dsv4.parse(
        text, thinking=False, tools=declared(bash={}), tool_choice="none", strict=True
    )
    assert (unwanted.content, unwanted.tool_calls, unwanted.finish) == ("Hi.", (), "stop")

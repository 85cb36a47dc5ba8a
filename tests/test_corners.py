"""Corners of the rules that are easy to get wrong."""

from __future__ import annotations

import dsv4
from completions import (
    BASH,
    BLOCK,
    BLOCK_END,
    COMMAND,
    DSML,
    INVOKE_END,
    PARAMETER_END,
    TOOLS,
    block,
    calling,
    calls_of,
    declared,
    events_of,
    invoke,
    kinds_of,
    merged,
    parameter,
)
from test_recovery import LS, check, shape

PLAIN = '<invoke name="bash">\n<parameter name="command" string="true">ls</parameter>\n</invoke>'


class TestChunkBlind:
    def test_plain_wrapper(self) -> None:
        check(
            shape(f"<tool_calls>\n{PLAIN}\n</tool_calls>", *LS, kinds="plain_markup orphan_closer")
        )

    def test_plain_wrapper_2(self) -> None:
        check(
            shape(
                f"<function_calls>{PLAIN}</function_calls>", *LS, kinds="plain_markup orphan_closer"
            )
        )

    def test_nested_stops(self) -> None:
        o = {"thinking": False, "stop": ["a", "baa"]}
        assert merged(events_of("baa", **o)) == merged(events_of(["baa"], **o))


class TestPrefix:
    def test_string_first_chunk_without_markup(self) -> None:
        p = dsv4.StreamParser(thinking=False, tools=TOOLS, prefix=f"{BLOCK}{BASH}{COMMAND}ls")
        assert merged(p.feed(" -l"))[0] == dsv4.ToolCallStart(0, "bash")

    def test_newline_of_the_prefix_is_not_told_again(self) -> None:
        assert dsv4.parse("print(1)", thinking=False, prefix="```python\n").content == "print(1)"

    def test_bracket_of_the_prefix_is_not_told_again(self) -> None:
        assert dsv4.parse("b", thinking=False, prefix="a <").content == "b"

    def test_spans(self) -> None:
        m = dsv4.parse("x", thinking=False, prefix=f"a {INVOKE_END}")
        assert m.content == "x"
        assert not m.diagnostics


NAMED_AS_TAGS = declared(
    parse_file={"parent": "string", "call_id": "string"}, tool_search={"q": "string"}, invite={}
)


class TestNames:
    def test_tool_named_par(self) -> None:
        check(
            shape(
                f"{BLOCK}<{DSML}parse_file>{parameter('parent')}x{PARAMETER_END}</{DSML}parse_file>{BLOCK_END}",
                ("parse_file", {"parent": "x"}),
                kinds="misspelled_tag",
                tools=NAMED_AS_TAGS,
            )
        )

    def test_tool_named_tool(self) -> None:
        check(
            shape(
                f"{BLOCK}<{DSML}tool_search>{parameter('q')}x{PARAMETER_END}</{DSML}tool_search>{BLOCK_END}",
                ("tool_search", {"q": "x"}),
                kinds="misspelled_tag",
                tools=NAMED_AS_TAGS,
            )
        )

    def test_tool_named_inv(self) -> None:
        check(
            shape(
                f"{BLOCK}<{DSML}invite></{DSML}invite>{BLOCK_END}",
                ("invite", {}),
                kinds="misspelled_tag",
                tools=NAMED_AS_TAGS,
            )
        )

    def test_parameters_so_named(self) -> None:
        m = dsv4.parse(
            f"{BLOCK}{invoke('parse_file')}<{DSML}parent>x</{DSML}parent><{DSML}call_id>7</{DSML}call_id>{INVOKE_END}{BLOCK_END}",
            thinking=False,
            tools=NAMED_AS_TAGS,
        )
        assert calls_of(m) == [("parse_file", {"parent": "x", "call_id": "7"})]

    def test_plain_invoke_in_a_dsml_wrapper(self) -> None:
        assert calls_of(
            dsv4.parse(f"{BLOCK}\n{PLAIN}\n{BLOCK_END}", thinking=False, tools=TOOLS)
        ) == list(LS)

    def test_plain_parameter_in_a_dsml_invoke(self) -> None:
        m = dsv4.parse(
            f'{BASH}<parameter name="command">ls</parameter></invoke>', thinking=False, tools=TOOLS
        )
        assert calls_of(m) == list(LS)

    def test_cut_tag_behind_a_held_plain_invoke(self) -> None:
        m = dsv4.parse(f'a <invoke name="bash"> b <{DSML}invoke na', thinking=False, tools=TOOLS)
        assert m.content == 'a <invoke name="bash"> b '


class TestQuotedRegions:
    def test_undeclared_invoke_in_a_line_of_an_unwrapped_calls_value(self) -> None:
        v = f"a {calling('zsh', q='x')}b"
        m = dsv4.parse(
            f"{BASH}{COMMAND}{v}{PARAMETER_END}{INVOKE_END}", thinking=False, tools=TOOLS
        )
        assert calls_of(m) == [("bash", {"command": v})]


class TestStops:
    def test_not_across_the_end_of_thought(self) -> None:
        m = dsv4.parse("ST</think>OP x", stop="STOP")
        assert (m.reasoning, m.content) == ("ST", "OP x")


class TestDiagnostics:
    def test_brackets_in_json_strings(self) -> None:
        t = block(calling("bash", timeout=["[" * 300]))
        m = dsv4.parse(t, thinking=False, tools=TOOLS)
        assert calls_of(m) == [("bash", {"timeout": ["[" * 300]})]
        assert not m.diagnostics

    def test_deep_json(self) -> None:
        v: object = 1
        for _ in range(201):
            v = [v]
        m = dsv4.parse(block(calling("bash", timeout=v)), thinking=False, tools=TOOLS)
        assert calls_of(m) == [("bash", {"timeout": v})]
        assert not m.diagnostics

    def test_markup_left_as_text_at_the_end(self) -> None:
        assert kinds_of(dsv4.parse(f"```\nx <{DSML}inv", thinking=False, tools=TOOLS)) == [
            "markup_as_text"
        ]

    def test_one_diagnostic_each_nameless(self) -> None:
        m = dsv4.parse(
            f'{BLOCK}{BASH}<{DSML}parameter string="true">x{PARAMETER_END}{INVOKE_END}{BLOCK_END}',
            thinking=False,
            tools=TOOLS,
        )
        assert kinds_of(m) == ["dropped_call"]

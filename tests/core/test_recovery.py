"""What is made of completions that leave the grammar, kind by kind of deviation.

The corpus holds shapes that were seen; here are others of the same kinds, small ones, so that each
says what one rule does. The rules are those of docs/recovery.md.
"""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import BOS, EOS
from completions import *
from shapes import *


def respelled(old: str, new: str) -> str:
    """A well-formed completion with something in its markup spelled another way."""
    assert old in block(LS_CALL)
    return block(LS_CALL).replace(old, new)


# Without the DSML token.
PLAIN = '<invoke name="bash">\n<parameter name="command" string="true">ls</parameter>\n</invoke>'


class TestSpelling:
    """Rule 1."""

    @shapes(
        **{
            token: shape(respelled(DSML, token), *LS, kinds="misspelled_tag")
            for token in (
                *("|DSML|", "||DSML||", "｜DSML|", "|DSML｜", "｜｜DSML｜｜", "‖DSML‖"),
                *("｜ DSML ｜", " ｜DSML｜", "DSML", "DSML｜", "｜DSML", "| DSML |"),
            )
        }
    )
    def test_look_alikes_of_the_token(self, case: Shape) -> None:
        check(case)

    @shapes(
        **{
            f"{name}_for_{right}": shape(respelled(DSML + right, DSML + name), *LS, kinds=kind)
            for right, name, kind in (
                ("tool_calls", "tools", "misspelled_tag"),
                ("tool_calls", "toolcall", "misspelled_tag"),
                ("tool_calls", "function_calls", "other_release"),
                ("tool_calls", "functions", "misspelled_tag"),
                ("tool_calls", "calls", "misspelled_tag"),
                ("tool_calls", " tool_calls", "misspelled_tag"),
                ("tool_calls", " calls", "other_release"),
                ("invoke", "invocation", "misspelled_tag"),
                ("invoke", "inv", "misspelled_tag"),
                ("invoke", " invoke", "other_release"),
                ("parameter", "param", "misspelled_tag"),
                ("parameter", "par", "misspelled_tag"),
                ("parameter", " params", "misspelled_tag"),
                ("parameter", " parameter", "other_release"),
            )
        }
    )
    def test_names_of_tags_go_by_their_first_letters(self, case: Shape) -> None:
        check(case)

    @shapes(
        bars_before_the_bracket=shape(
            respelled("tool_calls>", "tool_calls｜>"), *LS, kinds="misspelled_tag"
        ),
        spaces_before_the_bracket=shape(
            respelled("invoke>", "invoke  >"), *LS, kinds="misspelled_tag"
        ),
        behind_attributes=shape(respelled('"bash">', '"bash" |>'), *LS, kinds="misspelled_tag"),
        none_before_a_newline=shape(respelled('"bash">', '"bash"'), *LS, kinds="misspelled_tag"),
        none_before_a_newline_in_closers=shape(
            respelled(f"{INVOKE_END}\n", INVOKE_END[:-1] + "\n"), *LS, kinds="misspelled_tag"
        ),
        none_before_the_next_tag=shape(
            respelled(f"{PARAMETER_END}\n", PARAMETER_END[:-1]), *LS, kinds="misspelled_tag"
        ),
    )
    def test_how_a_tag_ends(self, case: Shape) -> None:
        check(case)

    @shapes(
        tool=shape(
            f"{BLOCK}\n<{DSML}bash>\n{COMMAND}ls{PARAMETER_END}\n</{DSML}bash>\n{BLOCK_END}",
            *LS,
            kinds="misspelled_tag",
        ),
        tool_and_parameter=shape(
            f"<{DSML}bash>\n<{DSML}command>ls</{DSML}command>\n"
            f"<{DSML}timeout>5</{DSML}timeout>\n</{DSML}bash>",
            ("bash", {"command": "ls", "timeout": 5}),
            kinds="misspelled_tag missing_wrapper untyped_parameter",
        ),
        tool_without_parameters=shape(
            f"{BLOCK}<{DSML}ping></{DSML}ping>{BLOCK_END}", *PING, kinds="misspelled_tag"
        ),
        unknown_tool=talk(f"a <{DSML}reboot></{DSML}reboot> b"),
    )
    def test_tags_named_as_a_declared_tool_or_parameter(self, case: Shape) -> None:
        check(case)

    @shapes(
        invoke=talk(f"The tag <{DSML}invoke opens a call."),
        invoke_with_a_colon=talk(f"<{DSML}invoke: the opener"),
        parameter_in_a_value=shape(
            f"{BLOCK}\n{BASH}\n{COMMAND}grep\n<{DSML}parameter in it{CLOSED}",
            ("bash", {"command": f"grep\n<{DSML}parameter in it"}),
        ),
    )
    def test_what_cannot_go_on_with_attributes_is_text(self, case: Shape) -> None:
        check(case)

    @shapes(
        invoke=shape(PLAIN, *LS, kinds="plain_markup"),
        in_prose=shape(f"I look: {PLAIN}", *LS, content="I look: ", kinds="plain_markup"),
        types_as_elsewhere=shape(
            '<invoke name="bash"><parameter name="command">5</parameter>'
            '<parameter name="timeout">5</parameter></invoke>',
            ("bash", {"command": "5", "timeout": 5}),
            kinds="plain_markup",
        ),
        tool_call=shape(
            '<tool_call name="bash">{"command": "ls"}</tool_call>', *LS, kinds="plain_markup"
        ),
        closed_as_an_invoke=shape(
            PLAIN.replace("<invoke", "<tool_call"), *LS, kinds="plain_markup"
        ),
        undeclared=talk(PLAIN.replace("bash", "zsh"), kinds=""),
        not_told_of_tools=talk(PLAIN, tools=None, kinds=""),
        no_tools=talk(PLAIN, tools=[], kinds=""),
        never_closed=talk(PLAIN[:-9], kinds=""),
        cut_in_its_close=talk(PLAIN[:-1], kinds=""),
        another_first=shape(
            f'<invoke name="bash"> or {PLAIN}',
            *LS,
            content='<invoke name="bash"> or ',
            kinds="plain_markup",
        ),
        markup_first=shape(
            f'<invoke name="bash">{block(LS_CALL)}', *LS, content='<invoke name="bash">'
        ),
        eos_first=shape(f'<invoke name="bash">{EOS}', content='<invoke name="bash">'),
        end_of_thought_first=shape(
            '<invoke name="bash"></think></invoke>',
            reasoning='<invoke name="bash">',
            content="</invoke>",
            thinking=True,
        ),
        fenced=talk(f"```\n{PLAIN}\n```", kinds=""),
    )
    def test_plain_tags_count_where_the_name_is_declared_and_the_close_comes(
        self, case: Shape
    ) -> None:
        check(case)

    # In a name stands whatever is no space, no quote, no bracket and no bar.
    names = pytest.mark.parametrize("name", ["x", "end▁of", "a·b", "a+b", "x@y", "a名"])

    @pytest.mark.repeats
    @names
    @pytest.mark.parametrize("end", [">", ">\n", "\n", " \n"])
    def test_plain_wrappers_have_any_name_that_ends_as_theirs(self, name: str, end: str) -> None:
        message = read_everywhere(f"Now. <{name}_calls{end}{LS_CALL}{EOS}")
        assert (message.content, calls_of(message)) == ("Now. ", list(LS))

    @names
    def test_plain_invokes_have_any_namespace(self, name: str) -> None:
        text = PLAIN.replace("<invoke", f"<{name}:invoke").replace("</invoke", f"</{name}:invoke")
        message = read_everywhere(f"Now. {text}")
        assert (message.content, calls_of(message)) == ("Now. ", list(LS))


class TestWrappers:
    """Rule 2."""

    @shapes(
        both=shape(f"Now.\n{LS_CALL}", *LS, content="Now.\n", kinds="missing_wrapper"),
        both_and_two_calls=shape(
            f"{LS_CALL}{PWD_CALL}", *LS_PWD, kinds="missing_wrapper second_block"
        ),
        opening=shape(f"{LS_CALL}{BLOCK_END}{EOS}", *LS, kinds="missing_wrapper orphan_closer"),
        closing=shape(f"{BLOCK}{LS_CALL}{EOS}", *LS, kinds="implied_close"),
        in_the_middle_of_a_line=shape(
            f"So: {LS_CALL}", *LS, content="So: ", kinds="missing_wrapper"
        ),
    )
    def test_missing_ones(self, case: Shape) -> None:
        check(case)

    PING_OPEN = invoke("ping")

    @shapes(
        an_invoke_close=shape(f"{PING_OPEN}{INVOKE_END}", *PING, kinds="missing_wrapper"),
        a_brace=shape(
            f'{BASH}\n{{"command": "ls"}}\n{INVOKE_END}', *LS, kinds="missing_wrapper json_body"
        ),
        its_own_slash=shape(
            f'<{DSML}invoke name="ping"/>', *PING, kinds="missing_wrapper misspelled_tag"
        ),
        text=talk(f"{PING_OPEN} pings."),
        an_invoke=shape(
            f"{PING_OPEN}{LS_CALL}",
            *LS,
            content=PING_OPEN,
            kinds="markup_as_text missing_wrapper",
        ),
        eos=shape(f"{PING_OPEN}{EOS}", content=PING_OPEN, kinds="markup_as_text"),
        a_bracket=talk(f"{PING_OPEN} [1]"),
    )
    def test_outside_an_invoke_is_certain_with(self, case: Shape) -> None:
        check(case)

    @shapes(
        an_invoke=shape(
            f"{BLOCK}{PING_OPEN}{LS_CALL}{BLOCK_END}", *PING, *LS, kinds="implied_close"
        ),
        a_wrapper_close=shape(f"{BLOCK}{PING_OPEN}{BLOCK_END}", *PING, kinds="implied_close"),
        eos=shape(f"{BLOCK}{PING_OPEN}{EOS}", *PING, kinds="implied_close"),
        not_text=shape(
            f"{BLOCK}{PING_OPEN} pings.{BLOCK_END}ok",
            content="ok",
            incomplete=PING,
            kinds="unexpected_text implied_close dropped_call text_after_block",
        ),
    )
    def test_inside_a_wrapper_also_with(self, case: Shape) -> None:
        check(case)

    REBOOT = calling("reboot")

    @shapes(
        inside=shape(block(REBOOT), ("reboot", {}), kinds="undeclared_tool"),
        outside=talk(f"Try {REBOOT}"),
        beside_a_declared_one=shape(
            block(LS_CALL, REBOOT), *LS, ("reboot", {}), kinds="undeclared_tool"
        ),
        not_told_of_tools_inside=shape(block(REBOOT), ("reboot", {}), tools=None),
        not_told_of_tools_outside=talk(LS_CALL, tools=None),
        no_tools=talk(f"a{block(LS_CALL)}", tools=[]),
        no_tools_wanted=shape(
            f"a{block(LS_CALL)}", content="a", kinds="forbidden_call", tool_choice="none"
        ),
        no_tools_wanted_outside=shape(
            f"a {LS_CALL}", content="a ", kinds="missing_wrapper forbidden_call", tool_choice="none"
        ),
    )
    def test_whose_names_count(self, case: Shape) -> None:
        check(case)


class TestImpliedClosers:
    """Rule 3."""

    LS_DONE = f"{OPEN}ls{PARAMETER_END}\n"

    @shapes(
        an_invoke=shape(f"{LS_DONE}{PWD_CALL}{BLOCK_END}", *LS_PWD, kinds="implied_close"),
        a_wrapper_close=shape(f"{LS_DONE}{BLOCK_END}", *LS, kinds="implied_close"),
        eos=shape(f"{LS_DONE}{EOS}", *LS, kinds="implied_close"),
        eos_behind_a_call=shape(f"{BLOCK}{LS_CALL}{EOS}", *LS, kinds="implied_close"),
        end_behind_a_call=shape(f"{BLOCK}{LS_CALL}", *LS, kinds="cut_short", finish="length"),
    )
    def test_outside_a_value_by(self, case: Shape) -> None:
        check(case)

    @shapes(
        a_parameter=shape(
            f"{OPEN}ls\n{TIMEOUT}5{CLOSED}",
            ("bash", {"command": "ls", "timeout": 5}),
            kinds="implied_close",
        ),
        an_invoke_close_before_an_invoke=shape(
            f"{OPEN}ls{INVOKE_END} {PWD_CALL} {BLOCK_END}Ok.",
            *LS_PWD,
            content="Ok.",
            kinds="implied_close text_after_block",
        ),
        an_invoke_close_before_a_wrapper=shape(
            f"{OPEN}ls{INVOKE_END}\n{block(PWD_CALL)}Ok.",
            *LS_PWD,
            content="Ok.",
            kinds="implied_close second_block text_after_block",
        ),
        an_invoke_close_before_eos=shape(f"{OPEN}ls{INVOKE_END}{EOS}", *LS, kinds="implied_close"),
        an_invoke_close_at_the_end=shape(
            f"{OPEN}ls{INVOKE_END}\n", *LS, kinds="implied_close cut_short", finish="length"
        ),
        a_wrapper_close_at_the_end=shape(f"{OPEN}ls{BLOCK_END}", *LS, kinds="implied_close"),
        a_wrapper_close_before_eos=shape(f"{OPEN}ls{BLOCK_END}{EOS}", *LS, kinds="implied_close"),
        a_wrapper_close_before_a_wrapper=shape(
            f"{OPEN}ls{BLOCK_END}{block(PWD_CALL)}Ok.",
            *LS_PWD,
            content="Ok.",
            kinds="implied_close second_block text_after_block",
        ),
        a_wrapper_close_before_the_end_of_thought=shape(
            f"Hm.{OPEN}ls{BLOCK_END}</think>Ok.",
            *LS,
            reasoning="Hm.",
            content="Ok.",
            kinds="implied_close call_in_reasoning",
            thinking=True,
        ),
        eos_at_the_end=shape(f"{OPEN}ls{EOS}", *LS, kinds="implied_close"),
    )
    def test_inside_a_string_by(self, case: Shape) -> None:
        check(case)

    @shapes(
        a_parameter_in_a_line=shape(
            f"{OPEN}ls {TIMEOUT}5{CLOSED}", ("bash", {"command": f"ls {TIMEOUT}5"})
        ),
        a_wrapper_close_on_a_line=shape(
            f"{OPEN}ls\n{BLOCK_END} Done.{CLOSED}",
            ("bash", {"command": f"ls\n{BLOCK_END} Done."}),
        ),
        an_invoke_and_no_parameter=shape(
            f"{OPEN}ls\n{BASH} is it{CLOSED}", ("bash", {"command": f"ls\n{BASH} is it"})
        ),
        an_invoke_close_before_text=shape(
            f"{OPEN}ls{INVOKE_END} -l{CLOSED}", ("bash", {"command": f"ls{INVOKE_END} -l"})
        ),
        a_wrapper_close_in_a_line=shape(
            f"{OPEN}ls{BLOCK_END} -l{CLOSED}", ("bash", {"command": f"ls{BLOCK_END} -l"})
        ),
        eos_before_the_end=shape(f"{OPEN}ls{EOS} -l{CLOSED}", ("bash", {"command": f"ls{EOS} -l"})),
        thoughts=shape(f"{OPEN}<think>{CLOSED}", ("bash", {"command": "<think>"})),
        plain_tags=shape(
            f"{OPEN}</parameter>\n</invoke>\n<invoke name='x'>{CLOSED}",
            ("bash", {"command": "</parameter>\n</invoke>\n<invoke name='x'>"}),
        ),
    )
    def test_inside_a_string_not_by(self, case: Shape) -> None:
        check(case)

    @shapes(
        newline=shape(f"{OPEN}ls\n{BLOCK_END}", *LS, kinds="implied_close"),
        two_newlines=shape(
            f"{OPEN}ls\n\n{BLOCK_END}", ("bash", {"command": "ls\n"}), kinds="implied_close"
        ),
        other_space=shape(
            f"{OPEN} ls \n{BLOCK_END}", ("bash", {"command": " ls "}), kinds="implied_close"
        ),
        nothing=shape(
            f"{OPEN}{INVOKE_END}{BLOCK_END}", ("bash", {"command": ""}), kinds="implied_close"
        ),
    )
    def test_a_value_ended_so_loses_one_newline(self, case: Shape) -> None:
        check(case)

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\n  "])
    def test_json_ended_so_loses_one_too(self, end: str) -> None:
        text = f"{BLOCK}\n{BASH}\n{TIMEOUT}100{end}{INVOKE_END}\n{BLOCK_END}"
        (call,) = dsv4.parse(text, thinking=False, tools=TOOLS).tool_calls
        assert call.arguments == '{"timeout": 100}'

    @shapes(
        **{
            repr(value): shape(f"{OPEN}{value}{CLOSED}", ("bash", {"command": value}))
            for value in ("\nls\n", "  ls\t\n\n", "\n", " ", "\r\n ls")
        }
    )
    def test_a_value_that_is_closed_keeps_its_white_space(self, case: Shape) -> None:
        check(case)


class TestClosers:
    """Rule 4."""

    @shapes(
        **{
            name: shape(
                f"{OPEN}{value}{CLOSED}", ("bash", {"command": value}), kinds="quoted_markup"
            )
            for name, value in (
                ("text", f"a{PARAMETER_END}b"),
                ("text_on_the_next_line", f"a{PARAMETER_END}\nb"),
                ("another_closer", f"a{PARAMETER_END}"),
            )
        }
    )
    def test_text_where_the_grammar_cannot_go_on(self, case: Shape) -> None:
        check(case)

    @shapes(
        a_parameter=shape(
            f"{OPEN}ls{PARAMETER_END} {TIMEOUT}5{CLOSED}", ("bash", {"command": "ls", "timeout": 5})
        ),
        an_invoke_close=shape(f"{OPEN}ls{PARAMETER_END}\n\n  {INVOKE_END}{BLOCK_END}", *LS),
        a_wrapper_close=shape(f"{OPEN}ls{PARAMETER_END}{BLOCK_END}", *LS, kinds="implied_close"),
        an_invoke=shape(
            f"{OPEN}ls{PARAMETER_END}{PWD_CALL}{BLOCK_END}", *LS_PWD, kinds="implied_close"
        ),
        eos=shape(f"{OPEN}ls{PARAMETER_END}{EOS}", *LS, kinds="implied_close"),
        the_end=shape(
            f"{OPEN}ls{PARAMETER_END}\n", incomplete=LS, kinds="cut_short", finish="length"
        ),
    )
    def test_closed_where_it_can(self, case: Shape) -> None:
        check(case)

    @pytest.mark.parametrize(
        "quoted",
        [
            pytest.param(f"{BLOCK}\n{LS_CALL}{BLOCK_END}", id="block"),
            pytest.param(f"the block {BLOCK}{calling('zsh')}{BLOCK_END}, that is", id="in a line"),
            pytest.param(f"run {LS_CALL}", id="call in a line"),
            pytest.param(f"{BLOCK}\n{calling('a', b=1)}{calling('c')}{BLOCK_END}\n", id="two"),
            pytest.param(f"run {BLOCK}{BASH} and stop", id="openers alone"),
        ],
    )
    def test_markup_that_is_quoted_in_a_value_is_text(self, quoted: str) -> None:
        message = read_everywhere(f"{OPEN}{quoted}{CLOSED}")
        assert calls_of(message) == [("bash", {"command": quoted})]
        assert set(kinds_of(message)) <= {"quoted_markup"}

    @shapes(
        not_closed=cut_value(f"x {OPEN}ls"),
        closed_but_not_the_value=cut_value(f"x {OPEN}ls{CLOSED}."),
    )
    def test_a_quoted_region_that_takes_the_closers_leaves_the_call_incomplete(
        self, case: Shape
    ) -> None:
        check(case)

    READ = f"{BLOCK}\n{invoke('read')}\n{parameter('lines', 'false')}"

    @shapes(
        a_closer_in_a_string=shape(
            f'{READ}["{PARAMETER_END}"]{CLOSED}',
            ("read", {"lines": [PARAMETER_END]}),
            kinds="quoted_markup",
        ),
        all_closers_in_a_string=shape(
            f'{READ}["{PARAMETER_END}{INVOKE_END}{BLOCK_END}"]{CLOSED}',
            ("read", {"lines": [f"{PARAMETER_END}{INVOKE_END}{BLOCK_END}"]}),
            kinds="quoted_markup",
        ),
        behind_an_escaped_quote=shape(
            f'{READ}["\\"{PARAMETER_END}\\\\"]{CLOSED}',
            ("read", {"lines": [f'"{PARAMETER_END}\\']}),
            kinds="quoted_markup",
        ),
        white_space_around=shape(f"{READ}\n [1,\n 2]\n{CLOSED}", ("read", {"lines": [1, 2]})),
        a_raw_newline_in_a_string=shape(
            f'{READ}["a\nb"]{CLOSED}', ("read", {"lines": ["a\nb"]}), kinds="repaired_json"
        ),
        a_raw_newline_and_a_closer=shape(
            f'{READ}["a{PARAMETER_END}\nb"]{CLOSED}',
            ("read", {"lines": [f"a{PARAMETER_END}\nb"]}),
            kinds="repaired_json quoted_markup",
        ),
        a_string_that_never_ends=shape(
            f'{READ}["a]{CLOSED}', ("read", {"lines": '["a]'}), kinds="invalid_json"
        ),
    )
    def test_json_decides_where_it_ends(self, case: Shape) -> None:
        check(case)


class TestTalkingAboutMarkup:
    """Rule 5."""

    @shapes(
        wrapper=talk(f"Blocks open with {BLOCK} and hold calls."),
        invoke=talk(f"Write {BASH}."),
        parameter=talk(f"Write {COMMAND}."),
        token=talk(f"The token {DSML}, that is.", kinds=""),
        in_thoughts=shape(
            f"Use {BASH}? No.</think>42",
            reasoning=f"Use {BASH}? No.",
            content="42",
            kinds="markup_as_text",
            thinking=True,
        ),
        and_then_calling=shape(
            f"With {BLOCK} I call:{block(LS_CALL)}",
            *LS,
            content=f"With {BLOCK} I call:",
            kinds="markup_as_text",
        ),
    )
    def test_is_text(self, case: Shape) -> None:
        check(case)

    @shapes(
        its_close=shape(
            f"So:\n{BLOCK} let me see\nhm {BLOCK_END}Fine.",
            content="So:\nFine.",
            kinds="dropped_call text_after_block",
        ),
        a_blank_line=shape(f"{BLOCK} let me see\n\nFine.", content="Fine.", kinds="dropped_call"),
        the_end=shape(
            f"So:\n{BLOCK} let me see",
            content="So:\n",
            kinds="unexpected_text cut_short",
            finish="length",
        ),
        a_call=shape(f"{BLOCK}\nlet me see\n{LS_CALL}{BLOCK_END}", *LS, kinds="unexpected_text"),
    )
    def test_a_wrapper_that_opens_a_line_removes_text_up_to(self, case: Shape) -> None:
        check(case)

    @shapes(
        object=shape(
            f'{BLOCK}{{"name": "bash", "arguments": {{"command": "ls"}}}}{BLOCK_END}',
            *LS,
            kinds="json_calls",
        ),
        list=shape(
            f'{BLOCK}\n[{{"name": "bash", "arguments": {{"command": "ls"}}}},\n'
            f'{{"name": "ping", "arguments": {{}}}}]\n{BLOCK_END}',
            *LS,
            *PING,
            kinds="json_calls",
        ),
        undeclared=shape(
            f'{BLOCK}{{"name": "reboot", "arguments": {{}}}}{BLOCK_END}',
            ("reboot", {}),
            kinds="json_calls undeclared_tool",
        ),
        in_a_line=shape(
            f'So {BLOCK}{{"name": "ping", "arguments": {{}}}}{BLOCK_END}',
            *PING,
            content="So ",
            kinds="json_calls",
        ),
        no_call=shape(f"{BLOCK}[1, 2]{BLOCK_END}", kinds="unexpected_text dropped_call"),
    )
    def test_a_wrapper_of_json(self, case: Shape) -> None:
        check(case)

    FENCED = f"```xml\n{BLOCK}\n{LS_CALL}{BLOCK_END}\n```\n"

    @shapes(
        all_of_it=talk(FENCED),
        and_a_block_behind_it=shape(
            f"{FENCED}Now.{block(LS_CALL)}", *LS, content=f"{FENCED}Now.", kinds="markup_as_text"
        ),
        never_closed=talk(f"```\n{BLOCK}\n{LS_CALL}"),
        closers=talk(f"```\n{BLOCK_END}\n```"),
        not_in_a_line=shape(f"Type ``` first.{block(LS_CALL)}", *LS, content="Type ``` first."),
    )
    def test_inside_a_fence_all_markers_are_text(self, case: Shape) -> None:
        check(case)


class TestReasoning:
    """Rule 6."""

    @shapes(
        second_end=shape("a</think>b</think>c", reasoning="a", content="bc", kinds="stray_think"),
        echoed_start=shape("<think>a</think>b", reasoning="a", content="b", kinds="stray_think"),
        echoed_start_on_the_next_line=shape(
            "\n<think>a</think>b", reasoning="\na", content="b", kinds="stray_think"
        ),
        bos=shape(f"{BOS}a</think>b", reasoning="a", content="b", kinds="stray_token"),
        eos_in_thoughts=shape(
            f"a{EOS}b</think>c", reasoning="ab", content="c", kinds="stray_token"
        ),
        eos_in_content=shape(
            f"a</think>b{EOS}c{EOS}", reasoning="a", content="bc", kinds="stray_token"
        ),
        two_eos=shape(f"a</think>b{EOS}{EOS}", reasoning="a", content="b", kinds="stray_token"),
    )
    def test_strays_are_removed(self, case: Shape) -> None:
        check(case._replace(options={"thinking": True}))

    @shapes(
        second=shape("a<think>b</think>c", content="ac", reasoning="b", kinds="think_in_content"),
        third=shape(
            "<think>a</think>b<think>c</think>d<think>e</think>",
            content="bd",
            reasoning="a\nc\ne",
            kinds="think_in_content",
        ),
        behind_thinking=shape(
            "a</think>b<think>c</think>d",
            reasoning="a\nc",
            content="bd",
            kinds="think_in_content",
            thinking=True,
        ),
        never_closed=shape(
            "a<think>b",
            content="a",
            reasoning="b",
            kinds="think_in_content unclosed_reasoning",
            finish="length",
        ),
        end_in_chat=shape("</think>a", content="a", kinds="stray_think"),
    )
    def test_spans_in_content(self, case: Shape) -> None:
        check(case)

    @shapes(
        **{
            words: talk(words, kinds="")
            for words in ("the `<think>` tag", 'it is "<think>"', "“</think>” ends it", "'<think>'")
        }
    )
    def test_named_between_backticks_or_quotes_is_text(self, case: Shape) -> None:
        check(case)

    @shapes(
        then_the_end_of_thought=shape(
            f"a{block(LS_CALL)}b</think>c",
            *LS,
            reasoning="ab",
            content="c",
            kinds="call_in_reasoning text_after_block",
        ),
        then_the_end=shape(
            f"a{block(LS_CALL)}{EOS}",
            *LS,
            reasoning="a",
            kinds="call_in_reasoning unclosed_reasoning",
        ),
        without_a_wrapper=shape(
            f"a\n{LS_CALL}",
            *LS,
            reasoning="a\n",
            kinds="call_in_reasoning missing_wrapper unclosed_reasoning",
        ),
        and_again_in_content=shape(
            f"a{block(LS_CALL)}</think>b{block(PWD_CALL)}",
            *LS_PWD,
            reasoning="a",
            content="b",
            kinds="call_in_reasoning second_block",
        ),
    )
    def test_interrupted_by_a_call(self, case: Shape) -> None:
        check(case._replace(options={"thinking": True}))

    @shapes(
        eos=shape(f"Hello.{EOS}", reasoning="Hello.", kinds="unclosed_reasoning"),
        no_eos=shape("Hello.", reasoning="Hello.", kinds="unclosed_reasoning", finish="length"),
        nothing=shape("", kinds="unclosed_reasoning", finish="length"),
    )
    def test_never_closed(self, case: Shape) -> None:
        check(case._replace(options={"thinking": True}))


class TestTypes:
    """Rule 7."""

    @staticmethod
    def read(attributes: str, value: str, **options: Any) -> tuple[Any, list[str]]:
        tag = f"<{DSML}parameter {attributes}>"
        text = f"{BLOCK}\n{BASH}\n{tag}{value}{CLOSED}"
        message = dsv4.parse(text, **{"thinking": False, "tools": TOOLS, **options})
        ((name, arguments),) = calls_of(message)
        assert name == "bash"
        assert len(arguments) == 1
        return next(iter(arguments.values())), kinds_of(message)

    @pytest.mark.parametrize(
        ("attributes", "value", "expected"),
        [
            ('name="command" string="true"', "5", "5"),
            ('name="command" string="true"', '{"a": 1}', '{"a": 1}'),
            ('name="command" string="false"', "5", 5),
            ('name="command" string="false"', " null ", None),
            ('name="timeout" string="true"', "5", "5"),
            ('name="timeout" string="false"', '"5"', "5"),
            ('name="timeout" string="false"', "[1.50]", [1.5]),
            ('name="other" string="true"', "true", "true"),
        ],
    )
    def test_well_formed_values_are_what_the_markup_says(
        self, attributes: str, value: str, expected: Any
    ) -> None:
        assert self.read(attributes, value) == (expected, [])

    @pytest.mark.parametrize("value", ["", "five", "{'a': 1}", "[1, 2", "1 2", "True"])
    def test_json_that_is_none_is_kept_as_a_string(self, value: str) -> None:
        assert self.read('name="timeout" string="false"', value) == (value, ["invalid_json"])

    @pytest.mark.parametrize(
        "attributes", ['name="{}"', 'name="{}" string="yes"', 'name="{}" type="string"']
    )
    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("command", "5", "5"),
            ("command", '"ls"', '"ls"'),
            ("command", "<![CDATA[a < b]]>", "a < b"),
            ("timeout", "5", 5),
            ("timeout", "<![CDATA[5]]>", 5),
            ("timeout", "soon", "soon"),
            ("timeout", '"5"', '"5"'),
            ("other", "5", 5),
            ("other", "five", "five"),
            ("other", '"five"', '"five"'),
            ("other", '{"a": [null]}', {"a": [None]}),
            ("other", "<![CDATA[a]]><![CDATA[b]]>", "<![CDATA[a]]><![CDATA[b]]>"),
        ],
    )
    def test_without_a_type_the_schema_decides_or_the_looks(
        self, attributes: str, name: str, value: str, expected: Any
    ) -> None:
        found = self.read(attributes.format(name), value)
        assert found == (expected, ["untyped_parameter"])

    @pytest.mark.parametrize(
        "attributes",
        [
            'string="true" name="command"',
            "name='command' string='true'",
            "name=command string=true",
            "name=“command” string=“true”",
            "name=‘command’ string=true",
            'name = "command"  string = "true"',
        ],
    )
    def test_attributes_in_other_forms(self, attributes: str) -> None:
        assert self.read(attributes, "ls") == ("ls", ["misspelled_tag"])

    @shapes(
        one=shape(
            f'{BLOCK}\n{BASH}\n<{DSML}parameter name="command" string="ls -l" />\n'
            f"{INVOKE_END}\n{BLOCK_END}",
            ("bash", {"command": "ls -l"}),
            kinds="misspelled_tag",
        ),
        two=shape(
            f'{BLOCK}\n{BASH}\n<{DSML}parameter name="command" string="5"/>'
            f'<{DSML}parameter name="timeout" string="5"/>{INVOKE_END}{BLOCK_END}',
            ("bash", {"command": "5", "timeout": 5}),
            kinds="misspelled_tag",
        ),
    )
    def test_a_parameter_that_closes_itself(self, case: Shape) -> None:
        check(case)


class TestBodies:
    """Rule 8."""

    @staticmethod
    def body(text: str) -> str:
        return block(f"{BASH}\n{text}\n{INVOKE_END}\n")

    @staticmethod
    def lone(key: str, value: str, string: str = "true", name: str = "bash") -> str:
        return block(
            f"{invoke(name)}\n{parameter(key, string)}{value}{PARAMETER_END}\n{INVOKE_END}\n"
        )

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ('{"command": "ls"}', {"command": "ls"}),
            ("{}", {}),
            ('{"command":\n "ls", "timeout": 5}', {"command": "ls", "timeout": 5}),
            ('{"command": "</x>"}', {"command": "</x>"}),
            (f'{{"command": "{INVOKE_END}"}}', {"command": INVOKE_END}),
        ],
    )
    def test_json_in_place_of_parameters(self, body: str, expected: dict[str, Any]) -> None:
        check(shape(self.body(body), ("bash", expected), kinds="json_body"))

    @pytest.mark.parametrize("body", ['{"command": ls}', '{"command": "ls"', "{'command': 'ls'}"])
    def test_broken_json_is_kept_raw(self, body: str) -> None:
        message = dsv4.parse(self.body(body), thinking=False, tools=TOOLS)
        ((_, arguments),) = calls_of(message)
        assert list(arguments) == ["arguments"]
        assert arguments["arguments"].strip() == body
        assert set(kinds_of(message)) == {"json_body", "invalid_json"}

    @pytest.mark.parametrize("key", ["arguments", "input"])
    @pytest.mark.parametrize(
        ("value", "string"),
        [
            ('{"command": "ls"}', "true"),
            ('{"command": "ls"}', "false"),
            ('"{\\"command\\": \\"ls\\"}"', "false"),
        ],
    )
    def test_a_lone_parameter_that_holds_all(self, key: str, value: str, string: str) -> None:
        check(shape(self.lone(key, value, string), *LS, kinds="unwrapped_arguments"))

    @shapes(
        no_object=shape(lone("arguments", "[1]", "false"), ("bash", {"arguments": [1]})),
        no_json=shape(lone("input", "ls"), ("bash", {"input": "ls"})),
        another_name=shape(lone("args", "{}"), ("bash", {"args": "{}"})),
        declared_so=shape(
            lone("input", "{}"), ("bash", {"input": "{}"}), tools=declared(bash={"input": "string"})
        ),
        no_parameters_declared=shape(lone("input", "{}", name="ping"), ("ping", {"input": "{}"})),
        not_told_of_tools=shape(lone("input", "{}"), ("bash", {"input": "{}"}), tools=None),
        undeclared=shape(
            lone("input", "{}", name="zsh"), ("zsh", {"input": "{}"}), kinds="undeclared_tool"
        ),
        not_alone=shape(
            block(calling("bash", arguments={"command": "ls"}, timeout=5)),
            ("bash", {"arguments": {"command": "ls"}, "timeout": 5}),
        ),
        not_first=shape(
            block(calling("bash", timeout=5, arguments={"command": "ls"})),
            ("bash", {"timeout": 5, "arguments": {"command": "ls"}}),
        ),
    )
    def test_not_unwrapped(self, case: Shape) -> None:
        check(case)

    @shapes(
        object=shape(
            body('{"arguments": {"command": "ls"}}'), *LS, kinds="json_body unwrapped_arguments"
        ),
        text=shape(
            body('{"input": "{\\"command\\": \\"ls\\"}"}'),
            *LS,
            kinds="json_body unwrapped_arguments",
        ),
        two_keys=shape(
            body('{"input": {}, "timeout": 5}'),
            ("bash", {"input": {}, "timeout": 5}),
            kinds="json_body",
        ),
        no_object=shape(body('{"input": 5}'), ("bash", {"input": 5}), kinds="json_body"),
    )
    def test_a_body_with_one_key(self, case: Shape) -> None:
        check(case)


class TestLeftovers:
    """Rule 9."""

    @shapes(
        twice=shape(
            f"{BLOCK}\n{BASH}\n{COMMAND}a{PARAMETER_END}\n{COMMAND}b{CLOSED}",
            ("bash", {"command": "b"}),
            kinds="duplicate_parameter",
        ),
        with_another_between=shape(
            f"{BLOCK}\n{BASH}\n{COMMAND}a{PARAMETER_END}\n{TIMEOUT}1{PARAMETER_END}\n{COMMAND}b{CLOSED}",
            ("bash", {"timeout": 1, "command": "b"}),
            kinds="duplicate_parameter",
        ),
    )
    def test_of_duplicates_the_last_wins(self, case: Shape) -> None:
        check(case)

    @shapes(
        end_of_content=shape(f"Hi {INVOKE_END}", content="Hi ", kinds="orphan_closer"),
        before_eos=shape(f"Hi\n{BLOCK_END}{EOS}", content="Hi\n", kinds="orphan_closer"),
        no_tools=shape(
            f"Hi {INVOKE_END}\n{BLOCK_END}", content="Hi ", kinds="orphan_closer", tools=[]
        ),
        end_of_reasoning=shape(
            f"Hm {PARAMETER_END}",
            reasoning="Hm ",
            kinds="orphan_closer unclosed_reasoning",
            finish="length",
            thinking=True,
        ),
        before_the_end_of_thought=shape(
            f"Hm {INVOKE_END}</think>Hi",
            reasoning="Hm ",
            content="Hi",
            kinds="orphan_closer",
            thinking=True,
        ),
        behind_a_block=shape(
            f"{block(LS_CALL)}\n{BLOCK_END}\n", *LS, content="\n", kinds="orphan_closer"
        ),
        behind_a_block_before_text=shape(
            f"{block(LS_CALL)}{INVOKE_END}{BLOCK_END} Done.",
            *LS,
            content=" Done.",
            kinds="orphan_closer text_after_block",
        ),
    )
    def test_orphan_closers_are_removed(self, case: Shape) -> None:
        check(case)

    @shapes(
        before_text=talk(f"A call ends with {INVOKE_END}, you know."),
        behind_its_opener=talk(f"A block is {BLOCK} … {BLOCK_END}"),
    )
    def test_closers_that_are_no_orphans_stay(self, case: Shape) -> None:
        check(case)

    @shapes(
        text_behind_a_block=shape(
            f"a{block(LS_CALL)}\n\nb", *LS, content="a\n\nb", kinds="text_after_block"
        ),
        two_blocks=shape(f"{block(LS_CALL)}{block(PWD_CALL)}", *LS_PWD, kinds="second_block"),
        two_blocks_and_text=shape(
            f"a{block(LS_CALL)}b{block(PWD_CALL)}c",
            *LS_PWD,
            content="abc",
            kinds="second_block text_after_block",
        ),
        an_empty_block=shape(f"a\n{BLOCK}\n{BLOCK_END}", content="a\n", kinds="empty_block"),
        closed_by_its_opener=shape(f"{BLOCK}\n{LS_CALL}{BLOCK}", *LS, kinds="misspelled_tag"),
    )
    def test_blocks(self, case: Shape) -> None:
        check(case)

    NAMELESS = f'<{DSML}parameter string="true">'

    @shapes(
        alone=shape(f"{BLOCK}\n{BASH}\n{NAMELESS}ls{CLOSED}", kinds="dropped_call"),
        beside_others=shape(
            f"{BLOCK}\n{LS_CALL}{BASH}\n{NAMELESS}x{PARAMETER_END}\n{INVOKE_END}\n{PWD_CALL}{BLOCK_END}",
            *LS_PWD,
            kinds="dropped_call",
        ),
        behind_another=shape(
            f"{BLOCK}\n{BASH}\n{COMMAND}ls{PARAMETER_END}\n{NAMELESS}x{CLOSED}",
            incomplete=LS,
            kinds="dropped_call",
        ),
        nameless_call=shape(
            f"{BLOCK}\n<{DSML}invoke>\n{COMMAND}ls{PARAMETER_END}\n{INVOKE_END}\n{PWD_CALL}{BLOCK_END}",
            ("bash", {"command": "pwd"}),
            kinds="dropped_call",
        ),
    )
    def test_a_parameter_without_a_name_drops_its_call(self, case: Shape) -> None:
        check(case)

    @shapes(
        parameter=shape(block(calling("bash", **{"": "x"})), ("bash", {"": "x"})),
        call=shape(block(calling("", a=1)), ("", {"a": 1}), kinds="undeclared_tool"),
    )
    def test_an_empty_name_is_a_name(self, case: Shape) -> None:
        check(case)


class TestCutShort:
    """Rule 10."""

    @shapes(
        a_string=shape(f"{OPEN}l", incomplete=(("bash", {"command": "l"}),)),
        a_string_in_a_newline=shape(f"{OPEN}l\n", incomplete=(("bash", {"command": "l\n"}),)),
        an_empty_string=shape(OPEN, incomplete=(("bash", {"command": ""}),)),
        an_untyped_value=shape(
            f'{BLOCK}{BASH}<{DSML}parameter name="command">l',
            incomplete=(("bash", {"command": "l"}),),
            kinds="untyped_parameter",
        ),
        a_closer_of_a_value=shape(f"{OPEN}ls</{DSML}par", incomplete=LS),
        between_parameters=shape(f"{OPEN}ls{PARAMETER_END}", incomplete=LS),
        the_next_parameter=shape(f"{OPEN}ls{PARAMETER_END}\n<{DSML}parameter na", incomplete=LS),
        the_closer_of_a_call=shape(f"{OPEN}ls{PARAMETER_END}\n</{DSML}inv", incomplete=LS),
        the_second_call=shape(
            f"{BLOCK}\n{LS_CALL}{BASH}\n{COMMAND}p", *LS, incomplete=(("bash", {"command": "p"}),)
        ),
    )
    def test_inside_a_call_leaves_it_incomplete(self, case: Shape) -> None:
        check(case._replace(finish="length", kinds=case.kinds | {"cut_short"}))

    @shapes(
        a_string=shape(f"{OPEN}ls{EOS}", *LS),
        between_parameters=shape(f"{OPEN}ls{PARAMETER_END}\n{EOS}", *LS),
        an_invoke=shape(f"{BLOCK}{invoke('ping')}{EOS}", *PING),
        json=shape(f"{BLOCK}{BASH}{TIMEOUT}5{EOS}", ("bash", {"timeout": 5})),
    )
    def test_eos_completes_a_call(self, case: Shape) -> None:
        check(case._replace(kinds=frozenset({"implied_close"})))

    @pytest.mark.parametrize(
        "text", ["2 <", "a <｜", "a <｜D", "a </", "a <th", "a <｜end▁of", "a ｜DS"]
    )
    def test_what_may_be_a_marker_is_given_back(self, text: str) -> None:
        check(talk(text, kinds=""))

    @pytest.mark.parametrize("cut", [f"<{DSML}", f"<{DSML}inv", f"</{DSML}tool_c", f"{BASH[:-4]}"])
    def test_what_is_certain_to_be_markup_is_not(self, cut: str) -> None:
        message = dsv4.parse(f"a {cut}", thinking=False, tools=TOOLS)
        assert message.content == "a "
        assert [(d.kind, d.raw) for d in message.diagnostics] == [("cut_short", cut)]


NAMED_AS_TAGS = declared(
    parse_file={"parent": "string", "call_id": "string"}, tool_search={"q": "string"}, invite={}
)


@pytest.mark.parametrize("wrapper", ["tool_calls", "function_calls"])
@pytest.mark.parametrize("between", ["\n", ""])
def test_a_plain_wrapper_around_plain_calls_is_no_text(wrapper: str, between: str) -> None:
    text = f"<{wrapper}>{between}{PLAIN}{between}</{wrapper}>"
    check(shape(text, *LS, kinds="plain_markup orphan_closer"))


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


class TestWhatIsReported:
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

"""What is made of malformed completions, by rules 11 to 19 of recovery.md.

No call is lost, none is run half, and well-formed answers about markup come out whole.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import dsv4
from builders import EOS
from completions import *
from shapes import *

LS_DONE = f"{COMMAND}ls{PARAMETER_END}"
LS_TEXT = block(LS_CALL)
FIVE = f"{TIMEOUT}5{PARAMETER_END}"
LS_FIVE = ("bash", {"command": "ls", "timeout": 5})


def body(*lines: str, name: str = "bash") -> str:
    """A block with one call that has these lines in it."""
    inside = "".join(f"{line}\n" for line in lines)
    return f"{BLOCK}\n{invoke(name)}\n{inside}{INVOKE_END}\n{BLOCK_END}"


class TestRemarks:
    """Rule 11."""

    @shapes(
        prose_first=shape(body("Run it.", LS_DONE), *LS, kinds="unexpected_text"),
        a_comment=shape(body("<!-- run -->", LS_DONE), *LS, kinds="unexpected_text"),
        a_comma=shape(body(f"{LS_DONE},", FIVE), LS_FIVE, kinds="unexpected_text"),
        after_the_last=shape(body(f"{LS_DONE} <!-- x -->"), *LS, kinds="unexpected_text"),
        a_comment_before_json=shape(
            body("// arguments", '{"command": "ls"}'), *LS, kinds="unexpected_text json_body"
        ),
        a_fence_around_json=shape(
            body("```json", '{"command": "ls"}', "```"), *LS, kinds="unexpected_text json_body"
        ),
        tools_not_known=shape(body("Run it.", LS_DONE), *LS, kinds="unexpected_text", tools=None),
    )
    def test_a_short_one_is_removed(self, case: Shape) -> None:
        check(case)

    @shapes(
        of_256=shape(body("x" * 255, LS_DONE), *LS, kinds="unexpected_text"),
        of_257=shape(body("x" * 256, LS_DONE), incomplete=(("bash", {}),), kinds="dropped_call"),
        between=shape(
            body(LS_DONE, "x" * 300, FIVE),
            # A close with so much text after it is none, so all of it is the value, in which a
            # close stands that may have been its own.
            incomplete=(("bash", {"command": f"ls{PARAMETER_END}\n{'x' * 300}"}),),
            kinds="quoted_markup implied_close dropped_call",
        ),
    )
    def test_a_long_one_makes_the_call_incomplete(self, case: Shape) -> None:
        check(case)

    @shapes(
        text=shape(
            body("ls -la"), incomplete=(("bash", {}),), kinds="unexpected_text dropped_call"
        ),
        json_in_a_line=shape(
            body('args: {"command": "ls"}'),
            incomplete=(("bash", {}),),
            kinds="unexpected_text dropped_call",
        ),
        beside_another=shape(
            f"{BLOCK}{BASH} x {INVOKE_END}{calling('ping')}{BLOCK_END}",
            *PING,
            incomplete=(("bash", {}),),
            kinds="unexpected_text dropped_call",
        ),
        undeclared=shape(body("hello", name="nope"), kinds="dropped_call"),
    )
    def test_a_body_that_was_not_understood_makes_no_call(self, case: Shape) -> None:
        check(case)
        options = {"thinking": False, "tools": TOOLS}
        assert dsv4.parse(case.text, **options).dropped  # type: ignore[arg-type]


class TestEndsOfStrings:
    """Rule 12."""

    @shapes(
        a_missing_key=shape(
            f"{OPEN}a\n{FIVE}{CLOSED[len(PARAMETER_END) :]}",
            ("bash", {"command": "a", "timeout": 5}),
            kinds="implied_close",
        ),
        indented=shape(
            f"{OPEN}a\n    {FIVE}\n{INVOKE_END}\n{BLOCK_END}",
            ("bash", {"command": "a", "timeout": 5}),
            kinds="implied_close",
        ),
        a_tool_that_declares_nothing=shape(
            f"{BLOCK}{invoke('ping')}{parameter('a')}x\n{parameter('b')}y{CLOSED}",
            ("ping", {"a": "x", "b": "y"}),
            kinds="implied_close",
        ),
    )
    def test_a_parameter_on_a_new_line(self, case: Shape) -> None:
        check(case)

    @shapes(
        an_undeclared_key=shape(
            f"{OPEN}a\n{parameter('other')}b{CLOSED}",
            ("bash", {"command": f"a\n{parameter('other')}b"}),
        ),
        its_own_key=shape(f"{OPEN}a\n{COMMAND}b{CLOSED}", ("bash", {"command": f"a\n{COMMAND}b"})),
        a_key_that_was_given=shape(
            f"{BLOCK}{BASH}{FIVE}{COMMAND}a\n{TIMEOUT}6{CLOSED}",
            ("bash", {"timeout": 5, "command": f"a\n{TIMEOUT}6"}),
        ),
        a_block_that_goes_on=shape(
            f"{OPEN}a\n{BLOCK_END}\nb{CLOSED}", ("bash", {"command": f"a\n{BLOCK_END}\nb"})
        ),
        eos_before_text=shape(f"{OPEN}a{EOS}b{CLOSED}", ("bash", {"command": f"a{EOS}b"})),
    )
    def test_not_by(self, case: Shape) -> None:
        check(case)

    @shapes(
        at_a_line=cut_value(f"ls\n{PWD_CALL}{BLOCK_END}."),
        with_eos=cut_value(f"ls\n{PWD_CALL}{EOS}"),
        closed=shape(
            f"{OPEN}# Doc\n{PWD_CALL}\n{LS_CALL}\nDone.{CLOSED}",
            ("bash", {"command": f"# Doc\n{PWD_CALL}\n{LS_CALL}\nDone."}),
            kinds="quoted_markup",
        ),
    )
    def test_a_quoted_call_never_runs(self, case: Shape) -> None:
        check(case)

    @shapes(
        eos=shape(f"{OPEN}ls{EOS}", *LS, kinds="implied_close"),
        several=shape(f"{OPEN}ls{EOS}{EOS}", *LS, kinds="implied_close stray_token"),
        a_turn_made_up=shape(
            f"{OPEN}ls{EOS}<｜User｜>next", *LS, kinds="implied_close made_up_turn"
        ),
    )
    def test_eos(self, case: Shape) -> None:
        check(case)


class TestSpellings:
    """Rule 13."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            *(("｜", bar) for bar in "│¦∣︱ǀ❘┃║⏐丨"),
            *((DSML, "｜dsml｜"), ("invoke", "INVOKE"), ("name=", "Name="), ("string=", "STRING=")),
            *(("<", "＜"), (' string="true"', '\n string="true"'), ('"true"', '"True"')),
            *(('invoke name="bash"', 'invoke="bash"'), ("invoke name=", "invoke tool=")),
            *(("parameter name=", "parameter parameter="), ('"bash"', '" bash "')),
            *(('"command"', '"command\n"'), (DSML, f"{DSML}\n")),
        ],
    )
    def test_of_tags(self, old: str, new: str) -> None:
        assert old in LS_TEXT
        message = dsv4.parse(LS_TEXT.replace(old, new), thinking=False, tools=TOOLS)
        assert calls_of(message) == list(LS)
        assert set(kinds_of(message)) == {"misspelled_tag"}

    @pytest.mark.parametrize("which", [("parameter",), ("invoke",), ("parameter", "invoke"), None])
    @pytest.mark.parametrize("form", ["</{0}>", "</{0}arg>", "<{0}{1}>", "</{1}>"])
    @pytest.mark.parametrize("end", ["", EOS])
    def test_odd_closes_in_a_run(self, form: str, which: Any, end: str) -> None:
        text = LS_TEXT
        for name in which or ("parameter", "invoke", "tool_calls"):
            text = text.replace(f"</{DSML}{name}>", form.format(DSML, name))
        message = dsv4.parse(text + end, thinking=False, tools=TOOLS)
        assert calls_of(message) == list(LS)
        assert (message.finish, message.content) == ("tool_calls", "")
        assert set(kinds_of(message)) == {"misspelled_tag"}

    @pytest.mark.parametrize(
        "value", [LS_DONE, f"{COMMAND}ls</parameter>", f"{COMMAND}ls</{DSML}>"]
    )
    @pytest.mark.parametrize("close", ["</invoke>", f"</{DSML}bash>", f"</{DSML}>"])
    def test_an_odd_close_before_the_next_call(self, value: str, close: str) -> None:
        text = f"{BLOCK}{BASH}\n{value}\n{close}\n{PWD_CALL}{BLOCK_END}"
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert calls_of(message) == [*LS, ("bash", {"command": "pwd"})]

    @pytest.mark.parametrize("close", [f"</{DSML}>", "</parameter>", "</command>"])
    def test_an_odd_close_where_the_model_ended_the_text(self, close: str) -> None:
        """Servers strip EOS: what the caller knows stands for it."""
        by_eos = dsv4.parse(f"{OPEN}ls{close}{EOS}", thinking=False, tools=TOOLS)
        by_caller = dsv4.parse(f"{OPEN}ls{close}", thinking=False, tools=TOOLS, reason="eos")
        assert calls_of(by_eos) == calls_of(by_caller) == list(LS)

    @pytest.mark.parametrize(
        "value", [f"a </{DSML}> b", f"a </{DSML}x>\nb", "a</parameter>\n</invoke>b"]
    )
    def test_odd_closes_in_a_text(self, value: str) -> None:
        message = dsv4.parse(f"{OPEN}{value}{CLOSED}", thinking=False, tools=TOOLS)
        assert calls_of(message) == [("bash", {"command": value})]

    @shapes(
        plain_with_a_namespace=shape(
            '<x:invoke name="bash"><x:parameter name="command">ls</x:parameter></x:invoke>',
            *LS,
            kinds="plain_markup",
        ),
        json_in_a_tag=shape(
            'So:\n<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>',
            *LS,
            content="So:\n",
            kinds="plain_markup",
        ),
        two_on_one_line=shape(
            '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
            '<tool_call>{"name": "ping", "arguments": {}}</tool_call>',
            *LS,
            *PING,
            kinds="plain_markup second_block",
        ),
        json_in_a_tag_in_a_wrapper=shape(
            '<tool_calls>\n<tool_call>{"name": "ping", "arguments": ""}</tool_call>\n</tool_calls>',
            *PING,
            kinds="plain_markup orphan_closer",
        ),
        a_wrapper_that_names_the_tool=shape(
            f'<{DSML}tool_call name="bash">\n{LS_DONE}\n</{DSML}tool_call>',
            *LS,
            kinds="missing_wrapper misspelled_tag implied_close orphan_closer",
        ),
        wrappers_that_name_tools_in_a_block=shape(
            f'{BLOCK}\n<{DSML}function name="ping"></{DSML}function>\n{BLOCK_END}',
            *PING,
            kinds="misspelled_tag implied_close orphan_closer",
        ),
        native=shape(
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{"command": "ls"}'
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            *LS,
            kinds="native_markup",
        ),
        native_of_v3=shape(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n"
            '{"command": "ls"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            *LS,
            kinds="native_markup",
        ),
        thoughts_that_end_with_spaces=shape(
            "a< /think>b", reasoning="a", content="b", kinds="misspelled_tag", thinking=True
        ),
    )
    def test_of_calls(self, case: Shape) -> None:
        check(case)

    JSON_CALL = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'

    @pytest.mark.parametrize(
        "text",
        [
            f"So {JSON_CALL}",
            JSON_CALL.replace("bash", "zsh"),
            f"```\n{JSON_CALL}\n```",
            f"`{JSON_CALL}`",
            # Arguments under a name that nobody knows: it is not run without them.
            JSON_CALL.replace("arguments", "args"),
            'Write `<invoke name="bash"><parameter name="command">ls</parameter></invoke>` so.',
            '<invoke name="bash"> is how it begins. </invoke>',
        ],
    )
    def test_no_calls(self, text: str) -> None:
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert (message.content, message.tool_calls) == (text, ())

    PLAIN_CLOSES = "\n</invoke>\n</tool_calls>"

    @shapes(
        prose=shape(
            f"{BLOCK}\n{invoke('bash')}\n{LS_DONE}{PLAIN_CLOSES}\n\nI wait.",
            *LS,
            content="\n\nI wait.",
            kinds="misspelled_tag text_after_block",
        ),
        closes_with_the_token_behind_it=shape(
            f"{BLOCK}\n{invoke('bash')}\n{LS_DONE}{PLAIN_CLOSES}\nx{PARAMETER_END}"
            f"\n{INVOKE_END}\n{BLOCK_END}",
            ("bash", {"command": f"ls{PARAMETER_END}{PLAIN_CLOSES}\nx"}),
            kinds="quoted_markup",
        ),
        without_the_close_of_the_value=shape(
            f"{BLOCK}\n{invoke('bash')}\n{COMMAND}ls{PLAIN_CLOSES}\n\nI wait.",
            incomplete=(("bash", {"command": f"ls{PLAIN_CLOSES}\n\nI wait."}),),
            finish="length",
            kinds="cut_short",
        ),
    )
    def test_prose_behind_closes_without_the_token(self, case: Shape) -> None:
        check(case)

    def test_one_that_is_not_understood_was_not_cut_where_it_closes(self) -> None:
        text = '<invoke name="bash"><parameter name="x">ls</parameter>command: ls</invoke>'
        message = read_everywhere(text)
        assert (message.tool_calls, message.finish) == ((), "stop")
        assert "cut_short" not in kinds_of(message)

    def test_native_calls_that_close_were_not_cut_though_something_is_left(self) -> None:
        native = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n"
        text = f'{native}{{"command": "ls"}}\n```<｜tool▁call▁end｜>x<｜tool▁calls▁end｜>'
        message = read_everywhere(text)
        assert (calls_of(message), message.finish) == ([*LS], "tool_calls")
        assert "dropped_call" in kinds_of(message)

    def test_a_plain_value_may_spell_tokens(self) -> None:
        value = f"echo {PARAMETER_END}{INVOKE_END}{BLOCK_END}"
        text = f'<invoke name="bash"><parameter name="command">{value}</parameter></invoke>'
        parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
        message = dsv4.assemble([*parser.feed_inert(text), *parser.finish()])
        assert calls_of(message) == [("bash", {"command": value})]


class TestPlacesOfArguments:
    """Rule 14."""

    @pytest.mark.parametrize(
        "text",
        [
            body("<command>ls</command>", "<timeout>5</timeout>"),
            body(
                '<parameter name="command">ls</parameter>',
                '<parameter name="timeout">5</parameter>',
            ),
            body(f'<{DSML}arg name="command" value="ls"/>', '<param name="timeout" value="5"/>'),
            body(f'<{DSML}invoke name="command" string="ls" />', FIVE),
            f'{BLOCK}<{DSML}invoke name="bash" command="ls" timeout="5"></{DSML}invoke>{BLOCK_END}',
            f'<{DSML}invoke name="bash" command="ls" timeout="5"/>',
            f'<{DSML}invoke name="bash" arguments="{{"command": "ls", "timeout": 5}}"/>',
            body('{"name": "bash", "arguments": {"command": "ls", "timeout": 5}}'),
            body('{"name": "bash", "input": {"command": "ls", "timeout": 5}}'),
            body('<command string="true">ls</command>', '<timeout type="integer">5</timeout>'),
            body(f'<{DSML}arg name="command" string="true">ls</{DSML}arg>', FIVE),
            body('{"command": "ls"}', FIVE),
            f'{BLOCK}{{"name": "bash", "input": {{"command": "ls", "timeout": 5}}}}{BLOCK_END}',
            (
                f'{BLOCK}{{"tool_calls": [{{"name": "bash", "parameters": '
                f'{{"command": "ls", "timeout": 5}}}}]}}{BLOCK_END}'
            ),
        ],
    )
    def test_arguments_are_found(self, text: str) -> None:
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert calls_of(message) == [LS_FIVE]
        assert (message.content, message.finish) == ("", "tool_calls")
        assert message.diagnostics

    @pytest.mark.parametrize("value", ["<command>ls</command>", "a</command> b"])
    @pytest.mark.parametrize(
        "call",
        [body("<command>{}</command>"), '<invoke name="bash"><command>{}</command></invoke>'],
    )
    def test_an_element_ends_at_its_last_close(self, call: str, value: str) -> None:
        message = dsv4.parse(call.replace("{}", value), thinking=False, tools=TOOLS)
        assert calls_of(message) == [("bash", {"command": value})]

    @pytest.mark.parametrize("body", ["", "\n", "<parameter name='timeout'>5</parameter>"])
    @pytest.mark.parametrize("given", ['command="ls"', 'arguments="{"command": "ls"}"'])
    def test_the_tag_of_a_plain_call_may_hold_arguments(self, given: str, body: str) -> None:
        message = read_everywhere(f'<invoke name="bash" {given}>{body}</invoke>')
        assert calls_of(message) == ([LS_FIVE] if "timeout" in body else [*LS])

    NAMELESS = '{"name": "bash", "args": {"command": "ls"}}'

    @shapes(
        other_keys=shape(f"{BLOCK}[{NAMELESS}]{BLOCK_END}", kinds="dropped_call"),
        no_call=shape(f'{BLOCK}{{"command": "ls"}}{BLOCK_END}', kinds="dropped_call"),
        beside_another=shape(
            f'{BLOCK}[{NAMELESS}, {{"name": "ping"}}]{BLOCK_END}',
            *PING,
            kinds="json_calls dropped_call",
        ),
        after_another_and_broken=shape(
            f'{BLOCK}[{{"name": "ping"}}, {{"name": "bash", "arg{EOS}',
            *PING,
            kinds="json_calls dropped_call implied_close",
        ),
        quoted_in_one_that_is_broken=shape(
            f'{BLOCK}{{"name": "read", "arguments": {{"lines": [{{"name": "ping"}}, {{"a',
            kinds="cut_short",
            finish="length",
        ),
    )
    def test_json_that_is_no_call_is_not_made_one(self, case: Shape) -> None:
        check(case)
        assert dsv4.parse(case.text, thinking=False, tools=TOOLS).dropped

    def test_never_under_these_attributes(self) -> None:
        tools = declared(add={"name": "string", "string": "string", "tool": "string"})
        text = f'{BLOCK}<{DSML}invoke name="add" string="x" tool="y"></{DSML}invoke>{BLOCK_END}'
        assert calls_of(dsv4.parse(text, thinking=False, tools=tools)) == [("add", {})]

    def test_one_object_a_line(self) -> None:
        lines = '{"name": "bash", "arguments": {"command": "ls"}}\n{"name": "ping"}\n'
        message = dsv4.parse(f"{BLOCK}\n{lines}{BLOCK_END}", thinking=False, tools=TOOLS)
        assert calls_of(message) == [*LS, *PING]

    def test_raw_newlines_are_written_properly(self) -> None:
        text = body('{"command": "a\n\tb"}')
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert message.tool_calls[0].arguments == '{"command": "a\\n\\tb"}'


class TestFences:
    """Rule 15."""

    @pytest.mark.parametrize(
        "content",
        [
            *(
                "```ls``` lists.",
                "Here: ```js\nf()\n```\n\nNow.",
                "````\n```\n````",
                "~~~\n```\n~~~",
            ),
            *(
                "> ```\n> x\n> ```",
                ">~~~\n>x\n>~~~",
                "> ```\n> x\n\nNow.",
                "- > ```\n  > x\n  > ```",
            ),
            *("- a\n  ```\n  x\n  ```", "Fix:\n```py\nprint(1)", "~~~\nx", "a ``` b"),
        ],
    )
    @pytest.mark.parametrize("end", ["", EOS])
    def test_calls_after_one(self, content: str, end: str) -> None:
        message = dsv4.parse(f"{content}{LS_TEXT}{end}", thinking=False, tools=TOOLS)
        assert (message.content, calls_of(message)) == (content, list(LS))
        assert not message.diagnostics

    @pytest.mark.parametrize("fence", ["```", "~~~", "   ```", "- ```", "see: ```", "````"])
    def test_examples_in_one(self, fence: str) -> None:
        text = f"{fence}\n\n{LS_TEXT.strip()}\n{fence.split()[-1]}\nok"
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert (message.content, message.tool_calls) == (text, ())
        assert {*kinds_of(message)} == {"markup_as_text"}

    def test_examples_in_a_quoted_one(self) -> None:
        lines = ["```xml", *LS_TEXT.strip().splitlines(), "```", "That is all."]
        text = "\n".join(f"> {line}" for line in lines)
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert (message.content, message.tool_calls) == (text, ())

    @pytest.mark.parametrize("reason", ["length", None])
    def test_what_the_caller_knows(self, reason: Any) -> None:
        message = dsv4.parse(f"```\nx{LS_TEXT}", thinking=False, tools=TOOLS, reason=reason)
        assert bool(message.tool_calls) == (reason is None)

    def test_the_end_of_thought_ends_one(self) -> None:
        message = dsv4.parse(f"a\n```\nb</think>c{LS_TEXT}", tools=TOOLS)
        assert (message.reasoning, message.content) == ("a\n```\nb", "c")
        assert calls_of(message) == list(LS)


class TestProse:
    """Rules 16 to 18."""

    @shapes(
        closers_on_lines=shape(
            f"a\n{PARAMETER_END}\n{INVOKE_END}\n\nb", content="a\n\n\nb", kinds="orphan_closer"
        ),
        a_made_up_turn=shape(f"a{EOS}\n<｜User｜>b{EOS}", content="a", kinds="made_up_turn"),
        an_echo=shape("<｜Assistant｜>a", content="a", kinds="stray_token"),
        a_parameter_without_a_call=shape(
            f"a\n{LS_DONE}\n{INVOKE_END}", content="a\n\n", kinds="dropped_call orphan_closer"
        ),
        text_after_a_wrapper_and_a_blank_line=shape(
            f"a\n{BLOCK}\n\nIt is 4.", content="a\nIt is 4.", kinds="empty_block"
        ),
        a_link_after_them=shape(
            f"{BLOCK}\n\n[It](url) is 4.", content="[It](url) is 4.", kinds="empty_block"
        ),
        text_after_calls_and_a_blank_line=shape(
            f"{BLOCK}\n{LS_CALL}\nNow I wait.", *LS, content="Now I wait.", kinds="implied_close"
        ),
        one_at_the_end=shape(f"a\n{LS_DONE}", content="a\n", kinds="dropped_call"),
        one_before_the_end_of_thought=shape(
            f"a\n{LS_DONE}</think>b",
            reasoning="a\n",
            content="b",
            kinds="dropped_call",
            thinking=True,
        ),
        one_that_is_talked_about=talk(f"a\n{LS_DONE} b"),
        the_example_of_the_prompt=shape(
            f"{block(calling('$TOOL_NAME', x='y'))}a",
            content="a",
            kinds="prompt_example text_after_block",
        ),
        a_bar_and_the_word=talk("a | DSML | b, ｜DSML｜ c", kinds=""),
        thoughts_named_in_backticks=talk("Write `<think>plan</think>` first.", kinds=""),
    )
    def test_what_is_left_and_what_goes(self, case: Shape) -> None:
        check(case)

    @pytest.mark.parametrize(
        "talk",
        [
            *('<param name="q" value="a b" allowfullscreen>', '<toolbar id="main" {...props}>'),
            *('<tool name="x', 'I see <function name="f" in the schema', '`<tool name="x"`'),
            f'`<{DSML}invoke name="`',
        ],
    )
    def test_an_answer_about_markup_comes_out_whole(self, talk: str) -> None:
        message = dsv4.parse(f"e.g. {talk}.</think>See {talk}.{LS_TEXT}{EOS}", tools=TOOLS)
        assert (message.reasoning, message.content) == (f"e.g. {talk}.", f"See {talk}.")
        assert calls_of(message) == list(LS)

    @pytest.mark.parametrize(
        "talk",
        [
            f'Calls begin with <{DSML}invoke name="bash" and go on.',
            f'Then <{DSML}parameter name="command" string="true", and the value.',
            f'A call is `<{DSML}invoke name="` and a name.',
        ],
    )
    @pytest.mark.parametrize("reason", [None, "stop"])
    def test_so_does_one_that_ends_with_it(self, talk: str, reason: Any) -> None:
        message = dsv4.parse(talk, thinking=False, tools=TOOLS, reason=reason)
        assert (message.content, message.finish) == (talk, "stop")

    @pytest.mark.parametrize("quote", ['"', '\\"'])
    def test_an_object_in_an_attribute_does_not_swallow_the_answer(self, quote: str) -> None:
        talk = f'It has <{DSML}invoke name="bash" arguments="{{{quote}command{quote}: '
        message = dsv4.parse(f"{talk}</think>The answer is 42.", tools=TOOLS)
        assert (message.reasoning, message.content) == (talk, "The answer is 42.")

    NATIVE = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>"

    @shapes(
        in_a_native_call=shape(
            f'{NATIVE}{{"command": "l',
            incomplete=(("bash", {"arguments": '{"command": "l'}),),
            kinds="native_markup cut_short",
            finish="length",
        ),
        in_json_without_the_token=talk(
            '<tool_call>{"name": "bash", "arguments": {"comm', kinds="cut_short", finish="length"
        ),
        in_a_string_of_json_that_holds_closes=shape(
            f'{OPEN.replace("true", "false")}{{"a": "{PARAMETER_END} {INVOKE_END}',
            incomplete=(("bash", {"command": f'{{"a": "{PARAMETER_END} {INVOKE_END}'}),),
            kinds="cut_short",
            finish="length",
        ),
        in_a_tag=shape(f"{BLOCK}\n{invoke('ba')[:-3]}", kinds="cut_short", finish="length"),
        in_the_next_tag=shape(
            f"{BLOCK}\n{LS_CALL}{invoke('ba')[:-3]}", *LS, kinds="cut_short", finish="length"
        ),
        in_json=shape(
            f'{BLOCK}[{{"name": "bash", "arguments": {{"command": "ls"}}}}, {{"name": "b',
            *LS,
            kinds="json_calls cut_short",
            finish="length",
        ),
        in_json_after_two_calls=shape(
            f'{BLOCK}[{{"name": "bash", "arguments": {{"command": "ls"}}}},\n'
            '{"name": "ping", "arguments": {}}, {"name": "b',
            *LS,
            *PING,
            kinds="json_calls cut_short",
            finish="length",
        ),
        in_the_close_of_json=shape(
            f"{BLOCK}\n{BASH}\n{TIMEOUT}[5]{PARAMETER_END[:-4]}",
            incomplete=(("bash", {"timeout": "[5]"}),),
            kinds="cut_short",
            finish="length",
        ),
        in_what_may_be_no_close_of_json=shape(
            f"{BLOCK}\n{BASH}\n{TIMEOUT}[5]</",
            incomplete=(("bash", {"timeout": "[5]</"}),),
            kinds="cut_short",
            finish="length",
        ),
        a_broken_tag=shape(
            f'{BLOCK}\n<{DSML}invoke name="b\n\n{LS_CALL}{BLOCK_END}', *LS, kinds="dropped_call"
        ),
        a_broken_parameter=shape(
            body(f'<{DSML}parameter name="c\n\n', LS_DONE),
            incomplete=(("bash", {}),),
            kinds="dropped_call",
        ),
    )
    def test_what_breaks_off(self, case: Shape) -> None:
        check(case)

    def test_one_cut_is_reported_once(self) -> None:
        for end in range(len(LS_TEXT)):
            message = dsv4.parse(LS_TEXT[:end], thinking=False, tools=TOOLS)
            assert kinds_of(message).count("cut_short") <= 1
            assert (message.finish == "length") == ("cut_short" in kinds_of(message))


class TestJson:
    """Rule 19."""

    def test_a_string_of_brackets_is_not_deep(self) -> None:
        value = parameter("command", "false") + json.dumps("[" * 600) + PARAMETER_END
        message = dsv4.parse(body(value), thinking=False, tools=TOOLS)
        assert calls_of(message) == [("bash", {"command": "[" * 600})]

    @pytest.mark.parametrize(
        ("value", "meant"),
        [
            ("NaN", '"NaN"'),
            ("[1, -Infinity]", '[1, "-Infinity"]'),
            ('{"a": "NaN", "b": NaN}', '{"a": "NaN", "b": "NaN"}'),
        ],
    )
    def test_what_is_no_number(self, value: str, meant: str) -> None:
        text = block(f"{BASH}\n{TIMEOUT}{value}{PARAMETER_END}\n{INVOKE_END}\n")
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert message.tool_calls[0].arguments == f'{{"timeout": {meant}}}'
        assert kinds_of(message) == ["repaired_json"]

    @pytest.mark.parametrize(
        ("after", "content"),
        [
            (f"{PARAMETER_END} seconds\n{INVOKE_END}\n{BLOCK_END}", ""),
            (f"{PARAMETER_END}\n</invoke>\n{BLOCK_END}", ""),
            (f"\n</invoke>\n{BLOCK_END}", ""),
            (f"\n{INVOKE_END}\nThat is all.\n{BLOCK_END}", ""),
            (f"\n{BLOCK_END}\nThat is all.", "\nThat is all."),
        ],
    )
    def test_json_decides_where_it_ends(self, after: str, content: str) -> None:
        """Rule 4: what comes after it is no part of it, whatever it is."""
        message = dsv4.parse(f"{BLOCK}\n{BASH}\n{TIMEOUT}5{after}", thinking=False, tools=TOOLS)
        assert calls_of(message) == [("bash", {"timeout": 5})]
        assert message.content == content

    def test_numbers_of_any_length(self) -> None:
        digits = "9" * 6000
        text = block(f"{BASH}\n{TIMEOUT}{digits}{PARAMETER_END}\n{INVOKE_END}\n")
        message = dsv4.parse(text, thinking=False, tools=TOOLS)
        assert message.tool_calls[0].arguments == f'{{"timeout": {digits}}}'
        assert not message.diagnostics


@pytest.mark.parametrize("space", ["", "  ", "\n", "\t ", "\n\n"])
def test_white_space_that_the_strict_grammar_takes_is_no_departure(space: str) -> None:
    text = LS_TEXT.replace("invoke name=", f"invoke{space}name=") + EOS
    strict = dsv4.parse(text, thinking=False, strict=True)
    message = dsv4.parse(text, thinking=False, tools=TOOLS)
    assert calls_of(message) == calls_of(strict) == list(LS)
    assert not message.diagnostics


def test_diagnostics_are_bounded_in_number() -> None:
    text = f"x {INVOKE_END} y " * 1200
    message = dsv4.parse(text, thinking=False, tools=TOOLS)
    assert len(message.diagnostics) == 1025
    last = message.diagnostics[-1]
    assert last.kind == "more_departures"
    assert text[last.start : last.end] == last.raw
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    events = [event for at in range(0, len(text), 7) for event in parser.feed(text[at : at + 7])]
    assert dsv4.assemble([*events, *parser.finish()]) == message


TWICE = f"{BLOCK}{BASH}{COMMAND}a{PARAMETER_END}{COMMAND}b{PARAMETER_END}{INVOKE_END}"


@pytest.mark.parametrize(
    "text",
    [
        TWICE + f'{BASH}{{"command":"ls"}}{INVOKE_END}{BLOCK_END}',
        TWICE + f'{BLOCK_END}{BLOCK}[{{"name":"ping"}}]{BLOCK_END}',
        body('{"command":"a","command" : "b"}') + LS_TEXT,
    ],
)
def test_duplicates_beside_compact_json(text: str) -> None:
    """Found where a scanner of texts took colons to be followed by a space."""
    message = dsv4.parse(text, thinking=False, tools=TOOLS)
    assert message.tool_calls

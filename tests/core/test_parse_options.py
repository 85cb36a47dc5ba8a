"""What a parser is told when it is made, and refuses; and what it tells about itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dsv4
from builders import EOS
from completions import *
from dsv4._format.endings import Ending


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tools": {"name": "f"}}, "tools: found {'name': 'f'}, expected a list of tools"),
        ({"tools": "abc"}, "tools: found 'abc', expected a list of tools"),
        ({"tools": 5}, "tools: found 5, expected a list of tools"),
        ({"tools": [5]}, "tools[0]: found 5, expected a tool: an object with a function"),
        ({"tools": [{}]}, "tools[0].name: found None, expected text"),
        ({"tools": [{"function": {}}]}, "tools[0].function.name: found None, expected text"),
        ({"thinking": "yes"}, "thinking: found 'yes', expected True or False"),
        ({"thinking": None}, "thinking: found None, expected True or False"),
        ({"strict": 1}, "strict: found 1, expected True or False"),
        ({"dialect": "v5"}, "dialect: found 'v5', expected one of"),
        ({"stop": 5}, "stop: found 5, expected text or a list of texts"),
        ({"stop": ["a", 5]}, "stop[1]: found 5, expected text"),
        ({"stop_in": "reasoning"}, 'stop_in: found \'reasoning\', expected "content" or "all"'),
        ({"calls": "half"}, 'calls: found \'half\', expected "streamed" or "whole"'),
        ({"new_id": "call_1"}, "new_id: found 'call_1', expected a function"),
        ({"prefix": 5}, "prefix: found 5, expected text"),
        ({"prefix": "a", "strict": True}, "prefix: found text and strict=True"),
        ({"prefix": "a", "ending": Ending("answer")}, "prefix: found text and an ending"),
        ({"ending": "think"}, "ending: found 'think', expected a prompt's ending"),
    ],
)
def test_what_is_refused(options: dict[str, Any], problem: str) -> None:
    makers: list[Callable[..., Any]] = [dsv4.StreamParser, lambda **o: dsv4.parse("", **o)]
    for make in makers:
        with pytest.raises(dsv4.Error) as caught:
            make(**options)
        assert str(caught.value).startswith(problem)


def test_tools_are_not_used_up_or_changed() -> None:
    given = [{"name": "bash"}]
    text = block(calling("bash"))
    for tools in (given, tuple(given), iter(given), (tool for tool in given)):
        assert calls_of(dsv4.parse(text, thinking=False, tools=tools)) == [("bash", {})]
    assert given == [{"name": "bash"}]


class TestTheEnd:
    @pytest.mark.parametrize("strict", [False, True])
    def test_nothing_comes_after_it(self, strict: bool) -> None:
        parser = dsv4.StreamParser(thinking=False, strict=strict)
        parser.feed(EOS)
        parser.finish()
        with pytest.raises(dsv4.OptionError, match="text: found more text after finish"):
            parser.feed("a")
        with pytest.raises(dsv4.OptionError, match="reason: found finish once more"):
            parser.finish()

    @pytest.mark.parametrize("before", ["a", f"a{block(calling('bash'))[:-25]}", ""])
    def test_not_even_past_the_shortcut(self, before: str) -> None:
        parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
        parser.feed(before)
        parser.finish()
        for text in ("a", "", "<"):
            with pytest.raises(dsv4.OptionError):
                parser.feed(text)

    @pytest.mark.parametrize("reason", [5, 0, False, b"stop", {"type": "stop"}, ["stop"]])
    @pytest.mark.parametrize("strict", [False, True])
    def test_a_reason_that_is_no_text(self, reason: Any, strict: bool) -> None:
        with pytest.raises(dsv4.OptionError, match=r"reason: found .*, expected text"):
            dsv4.StreamParser(strict=strict).finish(reason)

    @pytest.mark.parametrize("text", [5, None, b"a"])
    def test_only_text_comes_in(self, text: Any) -> None:
        parser = dsv4.StreamParser()
        with pytest.raises(dsv4.OptionError, match="text: found"):
            parser.feed(text)
        parser.feed("words")
        with pytest.raises(dsv4.OptionError, match="text: found"):
            parser.feed(text)


class TestReasons:
    """`finish(reason)`: what the caller knows counts more than what the text looks like.

    The words are those of rule 26.
    """

    ENDS = ("eos", "eos_token", "end_turn", "tool_calls", "function_call", "tool_use")
    LENGTHS = ("length", "max_tokens", "model_length")
    FILTERS = ("content_filter", "refusal")
    # Of these nobody knows what they stand for.
    OTHERS = ("timeout", "cancelled", "aborted", "abort", "error", "Stop", "stop ", "later")
    CUTS = (*LENGTHS, *FILTERS, *OTHERS)

    OPEN = f"{BLOCK}\n{BASH}\n{COMMAND}ls"

    def read(self, text: str, reason: Any, **options: Any) -> dsv4.Message:
        options = {"thinking": False, "tools": TOOLS, **options}
        return dsv4.parse(text, reason=reason, **options)

    @pytest.mark.parametrize(
        "text",
        [
            OPEN,
            f"{OPEN}\n",
            f"{OPEN}{PARAMETER_END}",
            f"{OPEN}{PARAMETER_END}\n{INVOKE_END}",
            f"{OPEN}</{DSML}par",
            f"{OPEN}{PARAMETER_END}\n</{DSML}inv",
            f"{OPEN}{PARAMETER_END}\n{INVOKE_END}\n</{DSML}tool",
            f'{BLOCK}{BASH}{{"command": "ls"}}',
        ],
    )
    @pytest.mark.parametrize("word", ENDS)
    def test_a_model_that_ended_the_text_has_made_its_call(self, text: str, word: str) -> None:
        message = self.read(text, word)
        assert calls_of(message) == [("bash", {"command": "ls"})]
        assert (message.finish, message.incomplete) == ("tool_calls", ())
        assert self.read(text, "length").finish == self.read(text, None).finish == "length"

    def test_but_not_with_a_quoted_call_that_never_ends(self) -> None:
        message = self.read(f"{self.OPEN} {BASH}{COMMAND}rm", "eos")
        assert (message.tool_calls, message.finish) == ((), "length")
        assert len(message.incomplete) == 1

    @pytest.mark.parametrize(
        "text",
        [
            OPEN,
            f"{OPEN}{PARAMETER_END}",
            f"{OPEN}</{DSML}par",
            f"{OPEN}</{DSML}>",
            f"{OPEN}{PARAMETER_END}\n</{DSML}inv",
            f'{BLOCK}{BASH}{{"command": "ls"}}',
            f"{BLOCK}{BASH}",
        ],
    )
    @pytest.mark.parametrize("word", ["stop", *CUTS])
    def test_nobody_else_completes_a_call_whose_close_has_not_come(
        self, text: str, word: str
    ) -> None:
        message = self.read(text, word)
        assert (message.tool_calls, message.finish) == ((), "length")
        assert [call.name for call in message.incomplete] == ["bash"]

    def test_a_call_of_an_undeclared_tool_is_cut_as_well(self) -> None:
        message = self.read(f'{BLOCK}<{DSML}invoke name="other">', "stop")
        assert (message.tool_calls, message.finish) == ((), "length")
        assert [call.name for call in message.incomplete] == ["other"]

    @pytest.mark.parametrize("calls", ["", f"{OPEN}{PARAMETER_END}{INVOKE_END}"])
    def test_an_open_wrapper_without_an_open_call_is_no_cut_at_a_stop(self, calls: str) -> None:
        message = self.read(calls or BLOCK, "stop")
        assert message.finish == ("tool_calls" if calls else "stop")
        assert kinds_of(message) == [*([] if calls else ["dropped_call"]), "implied_close"]
        assert self.read(calls or BLOCK, "length").finish == "length"

    CUT_JSON = (
        f'{BLOCK}{BASH}{{"command": "rm -rf /tm',
        f'{BLOCK}{BASH}{{"command": "ls"',
        f'{BLOCK}{BASH}<{DSML}parameter name="timeout" string="false">{{"a": "b',
        f'{BLOCK}{BASH}<{DSML}parameter name="timeout" string="false">[1, 2',
        f'{BLOCK}{BASH}<{DSML}parameter name="timeout" string="false">tru',
        f'{BLOCK}{BASH}<{DSML}parameter name="timeout">[1, 2',
        f'{BLOCK}{BASH}<{DSML}parameter name="arguments" string="true">{{"command": "rm',
    )

    @pytest.mark.parametrize("text", [*CUT_JSON, f"{CUT_JSON[3]}</{DSML}par"])
    @pytest.mark.parametrize("word", [*ENDS, "stop", "length", None])
    def test_cut_json_is_never_complete(self, text: str, word: Any) -> None:
        message = self.read(text, word)
        assert (message.tool_calls, message.finish) == ((), "length")
        assert [call.name for call in message.incomplete] == ["bash"]
        assert kinds_of(message).count("cut_short") == 1

    @pytest.mark.parametrize("text", CUT_JSON)
    @pytest.mark.parametrize("calls", ["streamed", "whole"])
    def test_not_even_before_an_eos(self, text: str, calls: Any) -> None:
        message = self.read(f"{text}{EOS}", None, calls=calls)
        assert (message.tool_calls, message.finish) == ((), "stop")
        assert len(message.dropped) == 1
        assert len(message.incomplete) == (calls == "streamed")

    @pytest.mark.parametrize("word", ["stop", *CUTS])
    def test_an_eos_counts_more_than_any_reason(self, word: str) -> None:
        message = self.read(f"{self.OPEN}{EOS}", word)
        assert calls_of(message) == [("bash", {"command": "ls"})]
        assert message.finish == "tool_calls"
        assert self.read(f"Well{EOS}", word).finish == "stop"

    @pytest.mark.parametrize("word", [*ENDS, "stop", *CUTS])
    def test_a_stop_string_that_was_hit_stays_hit(self, word: str) -> None:
        assert self.read("a STOP b", word, stop=["STOP"]).finish == "stop"
        called = self.read(f"{block(calling('ping'))}a STOP b", word, stop=["STOP"])
        assert called.finish == "tool_calls"

    def test_an_empty_reason_says_nothing(self) -> None:
        for text in (self.OPEN, "Well", block(calling("ping"))):
            assert self.read(text, "") == self.read(text, None)

    @pytest.mark.parametrize("word", ["stop", *CUTS])
    def test_a_block_in_an_open_fence_is_an_example_where_something_else_ended_it(
        self, word: str
    ) -> None:
        text = f"```\nx{block(calling('ping'))}"
        assert self.read(text, word).tool_calls == ()
        assert calls_of(self.read(text, "eos")) == [("ping", {})]

    @pytest.mark.parametrize(
        ("reason", "finish"),
        [(None, "length"), ("eos", "stop"), ("stop", "stop"), ("length", "length")],
    )
    def test_reasoning_that_never_ends(self, reason: Any, finish: str) -> None:
        assert self.read("Hm.", reason, thinking=True).finish == finish

    @pytest.mark.parametrize(
        ("reason", "finish"),
        [
            (None, "stop"),
            *((word, "stop") for word in (*ENDS, "stop", "STOP", "COMPLETE")),
            *((word, "length") for word in CUTS),
        ],
    )
    def test_an_answer(self, reason: Any, finish: str) -> None:
        assert self.read("Well", reason).finish == finish

    def test_calls_that_were_complete_stay_calls(self) -> None:
        message = self.read(f"{block(calling('ping'))}Well, now", "length")
        assert (calls_of(message), message.finish) == ([("ping", {})], "length")

    def test_strictly(self) -> None:
        options = {"thinking": False, "strict": True}
        called = block(calling("ping"))
        for word in ("length", "content_filter", "timeout"):
            assert dsv4.parse(called, reason=word, **options).finish == "length"
            assert dsv4.parse(f"{called}{EOS}", reason=word, **options).finish == "tool_calls"
            assert dsv4.parse(f"Hi{EOS}", reason=word, **options).finish == "stop"
        for word in ("stop", "eos", "tool_calls"):
            assert dsv4.parse(called, reason=word, **options).finish == "tool_calls"
            assert dsv4.parse(f"Hi{EOS}", reason=word, **options).finish == "stop"


class TestWholeCalls:
    """`calls="whole"`: nothing of a call is seen before it is complete."""

    def test_it_comes_at_once(self) -> None:
        parser = dsv4.StreamParser(thinking=False, tools=TOOLS, calls="whole")
        lines = block(calling("bash", command="ls", timeout=5)).splitlines(keepends=True)
        assert [event for line in lines for event in parser.feed(line)] == []
        assert parser.feed(EOS) == [
            dsv4.ToolCallStart(0, "bash"),
            dsv4.ArgumentsDelta(0, '{"command": "ls", "timeout": 5}'),
            dsv4.ToolCallEnd(0),
        ]

    @pytest.mark.parametrize(
        "text",
        [
            f"{BLOCK}{BASH}{COMMAND}l",
            f"{BLOCK}{BASH} well{INVOKE_END}{BLOCK_END}",
            f"{BLOCK}{BASH}{COMMAND}a{PARAMETER_END}<{DSML}parameter>b{PARAMETER_END}{INVOKE_END}",
        ],
    )
    def test_one_that_is_given_up_is_not_seen(self, text: str) -> None:
        options: dict[str, Any] = {"thinking": False, "tools": TOOLS, "calls": "whole"}
        events = events_of([text, block(calling("ping"))], **options)
        started = [event for event in events if isinstance(event, dsv4.ToolCallStart)]
        assert not any(isinstance(event, dsv4.ToolCallAborted) for event in events)
        message = dsv4.assemble(events)
        assert len(started) == len(message.tool_calls)
        assert message.incomplete == ()
        assert any(diagnostic.raw for diagnostic in message.dropped)

    @pytest.mark.parametrize("text", [block(calling("bash", command="a\nb"), calling("ping"))])
    def test_the_message_is_the_same(self, text: str) -> None:
        whole = dsv4.parse(text, thinking=False, tools=TOOLS, calls="whole")
        assert whole == dsv4.parse(text, thinking=False, tools=TOOLS)


class TestEndings:
    def test_it_says_whether_the_model_thinks(self) -> None:
        assert dsv4.parse("a", ending=Ending("think", thinking=True)).reasoning == "a"
        assert dsv4.parse("a", ending=Ending("answer")).content == "a"

    def test_and_what_the_prompt_holds_of_the_turn(self) -> None:
        ending = Ending("continue", f"Look.\n\n{BLOCK}\n{BASH}\n{COMMAND}l")
        message = dsv4.parse(
            f"s{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}", ending=ending, tools=TOOLS
        )
        assert (message.content, calls_of(message)) == ("", [("bash", {"command": "ls"})])


class TestWhatItTells:
    def test_what_is_held(self) -> None:
        parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
        assert (parser.held, parser.position, parser.state.name) == ("", 0, "PROSE")
        parser.feed(f"Look.\n\n{BLOCK[:9]}")
        assert (parser.held, parser.position) == (f"\n\n{BLOCK[:9]}", 5)
        parser.feed(f"{BLOCK[9:]}\n{BASH}\n{COMMAND}ls")
        assert (parser.held, parser.state.name) == ("", "VALUE")
        parser.feed("\n<")
        assert parser.held == "\n<"
        assert "value" in parser.state.value

    def test_strictly_everything_is(self) -> None:
        parser = dsv4.StreamParser(thinking=False, strict=True)
        parser.feed("Hi")
        assert parser.held == "Hi"


def test_ids_are_made_by_the_maker_that_is_given() -> None:
    ids = iter(("one", "two"))
    text = block(calling("bash"), calling("ping"))
    message = dsv4.parse(text, thinking=False, tools=TOOLS, new_id=ids.__next__)
    assert [call.id for call in message.tool_calls] == ["one", "two"]
    strict = dsv4.parse(text, thinking=False, strict=True, new_id=lambda: "x")
    assert [call.id for call in strict.tool_calls] == ["x", "x"]


class TestNamespaces:
    CALL = f'<{DSML} calls>\n<{DSML} invoke name="web::find">\n</{DSML} invoke>\n</{DSML} calls>'

    @pytest.mark.parametrize("strict", [False, True])
    def test_a_dialect_has_them_or_not(self, strict: bool) -> None:
        text = f"\n\n{self.CALL}"
        (call,) = dsv4.parse(text, thinking=False, dialect="v4.1", strict=strict).tool_calls
        assert (call.namespace, call.name) == ("web", "find")
        assert call.to_dict()["namespace"] == "web"
        assert call.to_dict()["function"]["name"] == "find"
        (call,) = dsv4.parse(text, thinking=False).tool_calls
        assert (call.namespace, call.name) == (None, "web::find")

    def test_tools_are_declared_with_them(self) -> None:
        function = declared(find={"q": "string"})[0]["function"]
        for tool in (
            {"namespace": "web", "function": function},
            {"function": {**function, "namespace": "web"}},
            {"namespace": {"name": "web", "description": "d"}, "function": function},
            {"function": {**function, "name": "web::find"}},
        ):
            message = dsv4.parse(self.CALL, thinking=False, tools=[tool], dialect="v4.1")
            assert [(c.namespace, c.name) for c in message.tool_calls] == [("web", "find")]
            assert not message.diagnostics

    def test_an_empty_one_is_one(self) -> None:
        text = self.CALL.replace("web::", "::")
        (call,) = dsv4.parse(text, thinking=False, dialect="v4.1").tool_calls
        assert (call.namespace, call.name) == ("", "find")

    def test_two_are_none(self) -> None:
        text = self.CALL.replace("web::", "a::b::")
        (call,) = dsv4.parse(text, thinking=False, dialect="v4.1").tool_calls
        assert (call.namespace, call.name) == (None, "a::b::find")
        with pytest.raises(dsv4.ParseError, match="at character 38: found 'a::b::find'"):
            dsv4.parse(f"\n\n{text}", thinking=False, dialect="v4.1", strict=True)

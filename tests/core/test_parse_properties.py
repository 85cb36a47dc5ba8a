"""What the parser promises for every text, however it is cut, and what survives a round trip."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dsv4
from builders import BOS, EOS, Message, user, vectors
from completions import *
from counting import functions_called
from parts import part

# Texts that are made of markup, and texts that were seen, with something wrong.

FRAGMENTS = (
    *("<", ">", "\n", "\n\n", "</", DSML, f"<{DSML}", f"</{DSML}", " ", "   ", "\t", "words "),
    *("<think>", "</think>", EOS, BOS, BLOCK, BLOCK_END, BASH, invoke("zsh"), INVOKE_END),
    *(COMMAND, TIMEOUT, f'<{DSML}parameter name="x">', PARAMETER_END, parameter("arguments")),
    *(f'<{DSML}parameter string="true">', f'<{DSML}parameter name="q" string="v"/>'),
    *('{"a": 1}', '{"a": "', "[", "]", '"', "'", "\\", "“", "name=", "x" * 30, "```\n", "`"),
    *('<invoke name="bash">', "</invoke>", '<parameter name="command">', "</parameter>"),
    *(f"{DSML}invoke>", f"<{DSML}bash>", f"<{DSML}command>", f"</{DSML}command>"),
    *(f"<{DSML} calls>", f"</{DSML} calls>", "<|DSML|invoke name='bash'>", "</|DSML|invoke>"),
    *('{"name": "bash", "arguments": {"command": "ls"}}', "<tool_call>"),
)
SEEN = [case["text"] for case in corpus()] + [case["text"] for case in vectors("parse-v4.jsonl")]

fragments = st.sampled_from(FRAGMENTS)
of_markup = st.lists(fragments, max_size=20).map("".join)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A text that was seen, or was written right, changed in a few places."""
    text = draw(st.sampled_from(SEEN))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        change = draw(st.sampled_from(("put in", "take out", "double", "cut", "go on")))
        if change == "put in":
            text = text[:start] + draw(fragments) + text[start:]
        elif change == "take out":
            text = text[:start] + text[end:]
        elif change == "double":
            text = text[:end] + text[start:]
        elif change == "cut":
            text = text[:start]
        else:
            other = draw(st.sampled_from(SEEN))
            text = text[:start] + other[draw(st.integers(0, len(other))) :]
    return text


texts = of_markup | mutated() | st.text(max_size=40)
options = st.fixed_dictionaries(
    {
        "thinking": st.booleans(),
        "tools": st.sampled_from((TOOLS, TOOLS, None, [])),
        "tool_choice": st.sampled_from(("auto", "auto", "none")),
        "dialect": st.sampled_from((None, "v4", "v4.1")),
    }
)
Options = dict[str, Any]


@st.composite
def cut(draw: st.DrawFn) -> list[str]:
    """A text in pieces."""
    text = draw(texts)
    sizes = draw(st.lists(st.integers(0, 30), max_size=12))
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


class TestEveryText:
    @given(cut(), options)
    def test_gives_the_same_events_however_it_is_cut(
        self, pieces: list[str], named: Options
    ) -> None:
        text = "".join(pieces)
        whole = merged(events_of([text], **named))
        assert merged(events_of(pieces, **named)) == whole
        assert merged(events_of(text, **named)) == whole

    @given(texts, options)
    def test_gives_arguments_that_are_json_objects(self, text: str, named: Options) -> None:
        events = events_of([text], **named)
        streams: dict[int, str] = {}
        for event in events:
            if isinstance(event, dsv4.ToolCallStart):
                streams[event.index] = ""
            elif isinstance(event, dsv4.ArgumentsDelta):
                streams[event.index] += event.text
            elif isinstance(event, dsv4.ToolCallAborted):
                streams[event.index] += event.closing
        message = dsv4.assemble(events)
        calls = {call.index: call.arguments for call in (*message.tool_calls, *message.incomplete)}
        assert calls.keys() == streams.keys()
        for index, arguments in calls.items():
            assert isinstance(json.loads(arguments), dict)
            assert json.loads(streams[index]) == json.loads(arguments)

    @given(texts, options)
    def test_has_diagnostics_that_quote_it(self, text: str, named: Options) -> None:
        for diagnostic in dsv4.parse(text, **named).diagnostics:
            assert 0 <= diagnostic.start <= diagnostic.end <= len(text)
            assert text[diagnostic.start : diagnostic.end] == diagnostic.raw

    @given(texts, options, st.data())
    def test_is_told_in_full(self, text: str, named: Options, data: st.DataObject) -> None:
        """Words put into it anywhere are in what is read, or in a diagnostic."""
        words = [f"Zq{n}k" for n in range(3)]
        for word in words:
            place = data.draw(st.integers(0, len(text)))
            text = text[:place] + word + text[place:]
        assume(all(word in text for word in words))  # one did not come to stand inside another
        events = events_of([text], **named)
        told = "".join(
            getattr(event, field)
            for event in events
            for field in ("text", "name", "closing", "raw")
            if hasattr(event, field)
        )
        assert all(word in told for word in words)

    @given(texts, options)
    def test_makes_no_call_where_none_may_be_made(self, text: str, named: Options) -> None:
        for none in ({"tools": []}, {"tool_choice": "none"}):
            message = dsv4.parse(text, **{**named, **none})
            assert message.tool_calls == message.incomplete == ()


# A string and JSON, from where on anything may come.
STRING = f"{BLOCK}{BASH}{COMMAND}"
JSON = f"{BLOCK}{BASH}{TIMEOUT}"


STARTS = ("", STRING, JSON, f'{JSON}"', f"{BLOCK}x", f"{BLOCK}{BASH}")
PIECES = (
    *("<", "< ", "<｜", "｜", "\n", " ", "`", '"', "\\", "[", '{"a": "', DSML, f"<{DSML}"),
    *(BLOCK, BASH, f"\n{BASH}", f"\n{COMMAND}", f"{PARAMETER_END} ", f"{INVOKE_END}\n"),
    *(f"<{DSML}invoke ", f'<{DSML}invoke name="x', "<think>", EOS, "<invoke ", "</invoke>"),
)


# Of six starts and one case in five, each piece has one at least, and each start has some.
@pytest.mark.repeats
@pytest.mark.parametrize(("piece", "start"), part(list(product(PIECES, STARTS)), 5))
def test_twice_the_text_takes_twice_the_work(piece: str, start: str) -> None:
    once, twice = (
        functions_called(dsv4.parse, start + piece * (n // len(piece)), thinking=False, tools=TOOLS)
        for n in (2_000, 4_000)
    )
    assert twice <= 2.2 * once + 100


# Round trips: an assistant's turn as the encoder writes it, read and written again.

MARKUP = re.compile(rf"DSML|</?think>|{EOS}|{BOS}|<invoke|<tool_call|^```", re.MULTILINE)
PIECES = (
    *("<", ">", "</", "｜", "|", "<｜", "< ", "<th", "</think", "<｜end▁of", "``", "`", '"', "'"),
    *("\n", "\n\n", " ", "\t", "\r\n", "<b>", "</parameter>", "<parameter>", "{", "}", "[1]", "\\"),
    *("<tool_result>", "<｜User｜>", "words", "北京", "\u2028", "\x00", "é", "<![CDATA[x]]>"),
)
any_text = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=8).map("".join)
clean = any_text.filter(lambda text: not MARKUP.search(text))
names = st.text("abcXYZ_-.0 'é=/|", min_size=1, max_size=10)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | clean,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
calls = st.fixed_dictionaries(
    {"name": names, "arguments": st.dictionaries(names, values, max_size=4)}
)
messages = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "content": clean,
        "reasoning": clean,
        "tool_calls": st.lists(calls.map(lambda function: {"function": function}), max_size=3),
    }
)
# V3.2 refuses an answer without reasoning and calls.
dialects = st.sampled_from(sorted(set(dsv4.DIALECTS) - {"v3.2"}))


def written(message: Message | dsv4.Message, thinking: bool = True, dialect: str = "v4") -> str:
    """What the model must have written for its turn to be this message."""
    prompt = dsv4.encode([user(), message], thinking=thinking, dialect=dialect)
    return "".join(piece.text for piece in prompt.pieces if piece.origin == "model")


def tools_of(message: Message) -> list[dict[str, Any]]:
    functions = [call["function"] for call in message["tool_calls"]]
    return declared(**{f["name"]: dict.fromkeys(f["arguments"], "string") for f in functions})


class TestTextsWithoutMarkup:
    """`dsv4.parse` has a shortcut for them, which must read what the stream reads."""

    REASONS = (None, "stop", "eos", "length", "content_filter", "abort", "tool_calls")
    LENGTHS = part(range(201), 7)

    @pytest.mark.parametrize("eos", ["", EOS], ids=["open", "ended"])
    @pytest.mark.parametrize("tools", [None, [], TOOLS], ids=["untold", "none", "declared"])
    @pytest.mark.parametrize("thinking", [False, True], ids=["chat", "thinking"])
    def test_every_length_is_read_as_in_a_stream(
        self, thinking: bool, tools: list[Any] | None, eos: str
    ) -> None:
        starts = ("", "</think>", "Hm.</think>") if thinking else ("",)
        for length, start, reason in product(self.LENGTHS, starts, self.REASONS):
            text = start + ("The answer is 42! " * 12)[:length] + eos
            whole = dsv4.parse(text, thinking=thinking, tools=tools, reason=reason)
            events = events_of([text], thinking=thinking, tools=tools, reason=reason)
            assert whole == dsv4.assemble(events)
            if not thinking:
                assert whole.content == text.removesuffix(eos)


class TestRoundTrips:
    @given(messages, st.booleans(), dialects)
    def test_what_is_encoded_is_read_again(
        self, message: Message, thinking: bool, dialect: str
    ) -> None:
        text = written(message, thinking, dialect)
        read = dsv4.parse(text, thinking=thinking, tools=tools_of(message), dialect=dialect)
        assert read.content == message["content"]
        assert read.reasoning == (message["reasoning"] if thinking else "")
        functions = [call["function"] for call in message["tool_calls"]]
        assert repr(calls_of(read)) == repr([(f["name"], f["arguments"]) for f in functions])
        assert read.finish == ("tool_calls" if functions else "stop")
        assert read.diagnostics == ()
        assert written(read, thinking, dialect) == text

    @given(messages, dialects)
    def test_strictly_it_is_the_same(self, message: Message, dialect: str) -> None:
        text = written(message, dialect=dialect)
        strict = dsv4.parse(text, dialect=dialect, strict=True)
        assert strict == dsv4.parse(text, tools=tools_of(message), dialect=dialect)

    @given(messages)
    def test_who_was_not_told_of_tools_reads_the_same(self, message: Message) -> None:
        text = written(message)
        assert dsv4.parse(text) == dsv4.parse(text, tools=tools_of(message))


def one_call(arguments: dict[str, Any], **fields: Any) -> Message:
    call = {"function": {"name": "bash", "arguments": arguments}}
    return {"role": "assistant", "content": "", "reasoning": "", "tool_calls": [call], **fields}


def survives(message: Message, tools: Any = TOOLS) -> bool:
    """Whether it is read as it was: diagnostics or not."""
    read = dsv4.parse(written(message), tools=tools)
    functions = [call["function"] for call in message["tool_calls"]]
    return (read.reasoning, read.content, calls_of(read)) == (
        message["reasoning"],
        message["content"],
        [(f["name"], f["arguments"]) for f in functions],
    )


ALL_CLOSED = f"{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}"


class TestTextsThatSpellMarkup:
    """The exceptions of docs/parsing.md, and what is none."""

    @pytest.mark.parametrize(
        "value",
        [
            f"a {PARAMETER_END} b",
            f"a{PARAMETER_END}\nb",
            f"a{PARAMETER_END}",
            f"a {INVOKE_END} b",
            f"a {BLOCK_END} b",
            f"a {BLOCK} b",
            f"\n{BASH} b",
            f"a {COMMAND} b",
            f"a\n{BLOCK_END}\nb",
            f"a\n{COMMAND}b",
            f"a\n{calling('bash', command='ls')}",
            f"a{INVOKE_END}\n{BLOCK_END}b",
            f"a{block(calling('bash', command='ls'), calling('ping'))}b",
            f"a {calling('bash', command='ls')} b",
            f"{EOS}{BOS}<think></think>{DSML}",
            "<invoke name='bash'></invoke></parameter>\n</tool_calls>",
            "```\n",
            f"a {BLOCK}{BASH}{COMMAND}",
            f"a{INVOKE_END}\n{BASH}\n{COMMAND}rm",
        ],
    )
    def test_values_that_are_read_as_they_were(self, value: str) -> None:
        assert survives(one_call({"command": value}))
        assert survives(one_call({"command": value, "timeout": 5}))
        assert survives(one_call({"timeout": [value]}))

    @pytest.mark.parametrize(
        "value",
        [
            f"a\n{TIMEOUT}b",
            f"a{PARAMETER_END}\n{COMMAND}b",
            f"a{ALL_CLOSED}b",
        ],
    )
    def test_values_that_are_not(self, value: str) -> None:
        assert not survives(one_call({"command": value}))
        assert survives(one_call({"timeout": [value]}))  # as JSON it is

    @pytest.mark.parametrize(
        "content",
        [
            *(f"a {BLOCK} b", f"a {BASH} b", f"a {INVOKE_END} b", f"a {DSML}, b", COMMAND),
            *("a `<think>` b", 'a "</think>" b', "```\n<think>\n```\n", "a ``` b"),
            *("```\n", "a ```\nb\n```\n", "~~~\nx", "- ```\n  x\n  ```\n"),
            *(f"```\n{BLOCK}\n{calling('ping')}{BLOCK_END}\n```\n", '<invoke name="zsh"></invoke>'),
        ],
    )
    def test_content_that_is_read_as_it_was(self, content: str) -> None:
        assert survives(one_call({}, content=content))

    @pytest.mark.parametrize(
        "content",
        [
            *(f"a{EOS}b", f"a{BOS}b", "a</think>b", "a<think>b", f"a {INVOKE_END}", f"\n{BLOCK}"),
            *(f"a {calling('ping')}", f"a{block(calling('ping'))}"),
            '<invoke name="bash"></invoke>',
        ],
    )
    def test_content_that_is_not(self, content: str) -> None:
        assert not survives(one_call({}, content=content))

    @pytest.mark.parametrize("reasoning", [f"a {BLOCK} b", f"{BASH} b", "a <think> b", "```\n"])
    def test_reasoning_that_is_read_as_it_was(self, reasoning: str) -> None:
        assert survives(one_call({}, reasoning=reasoning))

    @pytest.mark.parametrize(
        "reasoning",
        [
            *("a</think>b", "`</think>`", "<think>a", f"a{EOS}", f"a{BOS}", f"a{INVOKE_END}"),
            *(f"\n{BLOCK}", f"a {calling('ping')}", '<invoke name="bash"></invoke>'),
        ],
    )
    def test_reasoning_that_is_not(self, reasoning: str) -> None:
        assert not survives(one_call({}, reasoning=reasoning))

    @pytest.mark.parametrize("key", ['a"b', "a>b", "a\nb", "<b", "", "x" * 512])
    def test_names_that_are_read_as_they_were(self, key: str) -> None:
        call = {"function": {"name": key, "arguments": {key: "x"}}}
        assert survives(one_call({}, tool_calls=[call]))

    @pytest.mark.parametrize("key", [f"<{DSML}", "x" * 1024])
    def test_names_that_are_not(self, key: str) -> None:
        assert not survives(one_call({key: "x"}))


class TestArguments:
    """The other exceptions."""

    @pytest.mark.parametrize("key", ["arguments", "input"])
    def test_alone_under_a_name_that_was_not_declared(self, key: str) -> None:
        message = one_call({key: {"command": "ls"}})
        assert not survives(message)
        assert survives(message, tools=None)
        assert survives(message, declared(bash={key: "object"}))
        assert survives(one_call({key: {"command": "ls"}, "timeout": 5}))

    def test_that_are_no_json_come_back_as_one_parameter(self) -> None:
        message = one_call({})
        message["tool_calls"][0]["function"]["arguments"] = "ls -l"
        read = dsv4.parse(written(message), tools=TOOLS)
        assert calls_of(read) == [("bash", {"arguments": "ls -l"})]
        assert written(read) == written(message)

    def test_deep_ones_survive(self) -> None:
        value: Any = 1
        for _ in range(200):
            value = [value]
        assert survives(one_call({"timeout": value}))

    @pytest.mark.parametrize(("number", "same"), [(1024, True), (1025, False)])
    def test_too_many(self, number: int, same: bool) -> None:
        assert survives(one_call({str(n): n for n in range(number)})) == same
        call = one_call({})["tool_calls"][0]
        assert survives(one_call({}, tool_calls=[call] * number)) == same


class TestLimits:
    def test_calls_beyond_the_limit_are_reported(self) -> None:
        message = dsv4.parse(block(calling("ping") * 1026), thinking=False, tools=TOOLS)
        assert len(message.tool_calls) == 1024
        assert kinds_of(message) == ["limit", "dropped_call"] * 2

    def test_so_are_parameters(self) -> None:
        arguments = {f"k{n}": n for n in range(1025)}
        message = dsv4.parse(block(calling("bash", **arguments)), thinking=False, tools=TOOLS)
        assert message.tool_calls == ()
        ((name, kept),) = incomplete_of(message)
        assert (name, len(kept)) == ("bash", 1024)
        assert kinds_of(message) == ["limit", "dropped_call"]

    def test_and_names(self) -> None:
        message = dsv4.parse(block(calling("n" * 513)), thinking=False)
        assert message.tool_calls == ()
        assert kinds_of(message) == ["limit", "dropped_call"]

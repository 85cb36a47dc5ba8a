"""What comes when: events as the chunks arrive, what is held back, and for how long."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import EOS
from completions import *
from dsv4 import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    ReasoningDelta,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from rows import each_row


def chunk_by_chunk(*chunks: str, **options: Any) -> list[list[Any]]:
    """The events of each chunk, and of the end."""
    parser = dsv4.StreamParser(**{"thinking": False, "tools": TOOLS, **options})
    return [*(parser.feed(chunk) for chunk in chunks), parser.finish()]


class TestProse:
    def test_comes_as_it_arrives(self) -> None:
        assert chunk_by_chunk("Hm", ".", "</think>", "Hel", "lo", EOS, thinking=True) == [
            [ReasoningDelta("Hm")],
            [ReasoningDelta(".")],
            [],
            [ContentDelta("Hel")],
            [ContentDelta("lo")],
            [],
            [End("stop")],
        ]

    def test_empty_chunks_bring_nothing(self) -> None:
        assert chunk_by_chunk("", "a", "", "", "b", "") == [
            *([], [ContentDelta("a")], [], [], [ContentDelta("b")], []),
            [End("stop")],
        ]

    def test_nothing_at_all(self) -> None:
        assert chunk_by_chunk() == [[End("stop")]]
        assert chunk_by_chunk("") == [[], [End("stop")]]

    def test_what_may_be_a_marker_waits_for_one_more_character(self) -> None:
        assert chunk_by_chunk("a <", "1") == [
            [ContentDelta("a ")],
            [ContentDelta("<1")],
            [End("stop")],
        ]

    def test_the_name_of_a_tag_waits_for_its_end(self) -> None:
        assert chunk_by_chunk("a <di", "v", " class") == [
            [ContentDelta("a ")],
            [],
            [ContentDelta("<div class")],
            [End("stop")],
        ]
        assert chunk_by_chunk("a <di", tools=[])[0] == [ContentDelta("a <di")]

    def test_a_blank_line_waits_for_what_follows_it(self) -> None:
        *_, before_block, _, end = chunk_by_chunk(
            "a\n", "\n", f"{BLOCK}{calling('ping')}{BLOCK_END}", ""
        )
        assert not [event for event in (*before_block, *end) if isinstance(event, ContentDelta)]
        assert chunk_by_chunk("a\n", "\n", "b") == [
            [ContentDelta("a")],
            [],
            [ContentDelta("\n\nb")],
            [End("stop")],
        ]


class TestLinesThatGoByUnread:
    """Words go by without being read, where no tag may begin. What depends on where they stand in a
    line is the same as if they had been."""

    @staticmethod
    def read(*chunks: str) -> dsv4.Message:
        return dsv4.assemble([e for events in chunk_by_chunk(*chunks) for e in events])

    def test_talk_about_thinking_ends_with_its_line(self) -> None:
        message = self.read("See `<think>` here", "\nmore ", "</think>done")
        assert message.content == "See `<think>` here\nmore done"

    def test_a_closer_that_opens_a_line_is_an_orphan(self) -> None:
        assert self.read("So ", "it is\n  ", BLOCK_END, "\nYes").content == "So it is\n  \nYes"

    def test_a_closer_in_a_line_is_text(self) -> None:
        content = f"So it is\n no {BLOCK_END}\nYes"
        assert self.read("So ", "it is\n", " no ", BLOCK_END, "\nYes").content == content


class TestCalls:
    def test_a_string_comes_as_it_arrives(self) -> None:
        assert chunk_by_chunk(
            f"Look.\n\n{BLOCK}\n",
            f"{BASH}\n",
            COMMAND,
            "ls ",
            '"a\tb"',
            f"{PARAMETER_END}\n",
            f"{INVOKE_END}\n",
            f"{BLOCK_END}{EOS}",
        ) == [
            [ContentDelta("Look.")],
            [],
            [ToolCallStart(0, "bash"), ArgumentsDelta(0, '{"command": "')],
            [ArgumentsDelta(0, "ls ")],
            [ArgumentsDelta(0, '\\"a\\tb\\"')],
            [],
            [ArgumentsDelta(0, '"'), ArgumentsDelta(0, "}")],
            [ToolCallEnd(0)],  # at EOS (rule 39)
            [End("tool_calls")],
        ]

    def test_it_starts_when_it_is_certain(self) -> None:
        certain = chunk_by_chunk(f"Try {BASH}", "\n", f"{COMMAND}ls")
        assert certain[:2] == [[ContentDelta("Try ")], []]
        assert ToolCallStart(0, "bash") in certain[2]
        text = chunk_by_chunk(f"Try {BASH}", " then")
        assert text[1] == [
            Diagnostic("markup_as_text", 4, 4 + len(BASH), BASH),
            ContentDelta(f"{BASH} then"),
        ]

    @pytest.mark.parametrize(
        ("value", "tag"),
        [
            ("10", TIMEOUT),
            ('{"a": [1, 2]}', parameter("other", "false")),
            ("10", f'<{DSML}parameter name="timeout">'),
            ('{"command": "ls"}', parameter("arguments")),
            ('{"command": "ls"}', parameter("input")),
        ],
        ids=["JSON", "object", "no type", "lone arguments", "lone input"],
    )
    def test_some_values_come_whole(self, value: str, tag: str) -> None:
        parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
        parser.feed(f"{BLOCK}{BASH}{tag}")
        assert [event for character in value for event in parser.feed(character)] == []
        events = parser.feed(f"{PARAMETER_END}{INVOKE_END}")
        deltas = [event for event in events if isinstance(event, ArgumentsDelta)]
        assert value in deltas[0].text

    def test_so_does_a_json_body(self) -> None:
        first, second, third, fourth, _, _ = chunk_by_chunk(
            f"{BLOCK}{BASH}", '{"command": ', '"ls"}', INVOKE_END, BLOCK_END
        )
        assert first == []
        assert ToolCallStart(0, "bash") in second
        assert third == []
        assert fourth == [ArgumentsDelta(0, '{"command": "ls"}')]

    def test_lone_arguments_of_a_tool_that_has_them_stream(self) -> None:
        tools = declared(bash={"arguments": "string"})
        events = chunk_by_chunk(f"{BLOCK}{BASH}{parameter('arguments')}", "ls", tools=tools)
        assert events[1] == [ArgumentsDelta(0, "ls")]

    def test_duplicates_are_written_again(self) -> None:
        first, second = (f"{COMMAND}{value}{PARAMETER_END}" for value in "ab")
        text = f"{BLOCK}{BASH}{first}{second}{INVOKE_END}{BLOCK_END}"
        events = events_of([text], thinking=False, tools=TOOLS)
        stream = "".join(event.text for event in events if isinstance(event, ArgumentsDelta))
        assert stream == '{"command": "a", "command": "b"}'
        assert dsv4.assemble(events).tool_calls[0].arguments == '{"command": "b"}'

    def test_a_call_that_is_cut_is_closed_and_aborted(self) -> None:
        assert chunk_by_chunk(f"{BLOCK}{BASH}{COMMAND}l") == [
            [ToolCallStart(0, "bash"), ArgumentsDelta(0, '{"command": "'), ArgumentsDelta(0, "l")],
            [
                ToolCallAborted(0, "cut_short", '"}'),
                Diagnostic("cut_short", *([len(f"{BLOCK}{BASH}{COMMAND}l")] * 2), ""),
                End("length"),
            ],
        ]


class TestOrder:
    @each_row("case", [pytest.param(case, id=case["id"]) for case in corpus()])
    def test_calls_open_and_close_one_after_the_other(self, case: dict[str, Any]) -> None:
        events = events_of(
            case["text"],
            thinking=case["start"] == "reasoning",
            tools=declared(**case["tools"]),
            tool_choice=case["tool_choice"],
        )
        assert isinstance(events[-1], End)
        assert sum(isinstance(event, End) for event in events) == 1
        open_call, started = None, 0
        arguments = ""
        for event in events:
            if isinstance(event, ToolCallStart):
                assert (open_call, event.index) == (None, started)
                open_call, arguments = started, ""
                started += 1
            elif isinstance(event, ArgumentsDelta):
                assert event.index == open_call
                arguments += event.text
            elif isinstance(event, (ToolCallEnd, ToolCallAborted)):
                assert event.index == open_call
                closing = getattr(event, "closing", "")
                assert isinstance(json.loads(arguments + closing), dict)
                open_call = None
            elif isinstance(event, (ContentDelta, ReasoningDelta)):
                assert event.text  # also behind a call that is closed, and has not ended
                assert open_call is None or isinstance(json.loads(arguments), dict)
        assert open_call is None


# A tag is at most 1024 characters and white space 256; escaping makes a few more of them.
HELD_AT_MOST = 1400
# But for calls behind a line's indentation, which may be quoted, and parameters in mid-line
# (recovery.md, "What waits").
WAITING_LONGER = (29, 34)

# No block that opens a line, no JSON, no plain tag: those may be held whole.
FRAGMENTS = (
    *(
        "words ",
        "more words, and on. " * 10,
        "\n",
        "\n\n",
        " " * 200,
        " " * 300,
        "\t",
        "`",
        "```\n",
    ),
    *("<", "</", "<｜", f"<{DSML}", DSML, f'<{DSML}invoke name="', "x" * 900, 'y="' + "z" * 700),
    *(BASH, BASH, COMMAND, COMMAND, PARAMETER_END, INVOKE_END, f"x {BLOCK}", BLOCK_END),
    *("<think>", "</think>", EOS, f'<{DSML}invoke name="' + "n" * 1100 + '">'),
)


def shown(events: list[Any]) -> int:
    """How many characters of prose and arguments the events show."""
    deltas = (ReasoningDelta, ContentDelta, ArgumentsDelta)
    return sum(len(event.text) for event in events if isinstance(event, deltas))


class TestHoldingBack:
    @given(st.lists(st.sampled_from(FRAGMENTS), max_size=30), st.booleans())
    def test_is_bounded(self, fragments: list[str], thinking: bool) -> None:
        options: dict[str, Any] = {"thinking": thinking, "tools": TOOLS}
        parser = dsv4.StreamParser(**options)
        came, text = 0, ""
        for fragment in fragments:
            text += fragment
            came += shown(parser.feed(fragment))
            all_of_it = shown(events_of([text], **options))
            hold = parser.held_by
            if hold is None or hold.rule not in WAITING_LONGER:
                assert all_of_it - came <= HELD_AT_MOST

    @pytest.mark.parametrize("fragment", ["word ", "<", "a <", "\n", "｜", " ", "`", f"{DSML}, "])
    @pytest.mark.parametrize("before", ["", f"{BLOCK}{BASH}{COMMAND}"], ids=["content", "string"])
    def test_long_texts_of_one_thing(self, before: str, fragment: str) -> None:
        parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
        parser.feed(before)
        came = sum(shown(parser.feed(fragment)) for _ in range(2000))
        assert 2000 * len(fragment) - came <= HELD_AT_MOST

    def test_a_tag_that_is_too_long_is_text(self) -> None:
        tag = f'<{DSML}invoke name="{"n" * 1100}">'
        message = dsv4.parse(f"{tag}{COMMAND}", thinking=False, tools=None)
        assert message.content == f"{tag}{COMMAND}"

    @pytest.mark.parametrize(("spaces", "calls"), [(250, 1), (257, 0)])
    def test_white_space_between_tags_is_bounded_too(self, spaces: int, calls: int) -> None:
        text = f"{BASH}{' ' * spaces}{COMMAND}ls{PARAMETER_END}{INVOKE_END}"
        assert len(dsv4.parse(text, thinking=False, tools=TOOLS).tool_calls) == calls


def test_events_say_what_a_whole_text_says() -> None:
    text = f"Hm.</think>Look.{block(calling('bash', command='ls', timeout=5))}{EOS}"
    message = dsv4.parse(text, tools=TOOLS)
    assert dsv4.assemble(events_of(text, tools=TOOLS)) == message
    assert dsv4.assemble(events_of([text], tools=TOOLS)) == message


def test_events_without_an_end_are_cut_short() -> None:
    parser = dsv4.StreamParser(thinking=False)
    assert dsv4.assemble(parser.feed("Hel")) == dsv4.Message("Hel", finish="length")


def test_events_are_values() -> None:
    assert ContentDelta("a") == ContentDelta("a") != ReasoningDelta("a")
    assert ToolCallStart(0, "f", "call_1") == ToolCallStart(0, "f", "call_2")
    assert ToolCallStart(0, "f", namespace="a") != ToolCallStart(0, "f")
    assert pickle.loads(pickle.dumps(ToolCallStart(0, "f", "x"))).id == "x"
    with pytest.raises(AttributeError):
        ContentDelta("a").other = "b"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["<div class='x'", "<Details open", "</div", "<a href=", "<!-- x"])
def test_html_in_a_string_is_not_held(text: str) -> None:
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    parser.feed(f"{BLOCK}{BASH}{COMMAND}")
    events = [event for character in text for event in parser.feed(character)]
    assert "".join(event.text for event in events if isinstance(event, ArgumentsDelta)) == text
    assert parser.held == ""


@pytest.mark.parametrize("name", ["e▁calls", "x*calls", "a$b.calls", "ns:é-calls", "tool_calls"])
def test_a_wrapper_without_its_bracket_is_one_wherever_the_text_is_cut(name: str) -> None:
    text = f"<{name}\n{calling('bash', command='ls')}"
    whole = dsv4.assemble(events_of([text], thinking=False, tools=TOOLS))
    assert [call.name for call in whole.tool_calls] == ["bash"]
    assert whole.content == ""
    for pieces in cuts(text):
        assert dsv4.assemble(events_of(pieces, thinking=False, tools=TOOLS)) == whole


@pytest.mark.parametrize("indent", ["  ", "\t", "\u3000\u3000", "\u00a0 \u2003"])
def test_a_line_of_a_string_is_indented_by_any_space_wherever_the_text_is_cut(indent: str) -> None:
    """A parameter that begins a line ends the string before it, which was not closed."""
    text = f'{BLOCK}{BASH}{COMMAND}ls\n{indent}<{DSML}parameter name="timeout" string="false">5'
    text += f"{PARAMETER_END}{INVOKE_END}{BLOCK_END}"
    whole = dsv4.assemble(events_of([text], thinking=False, tools=TOOLS))
    for pieces in cuts(text):
        assert dsv4.assemble(events_of(pieces, thinking=False, tools=TOOLS)) == whole


@pytest.mark.repeats
@pytest.mark.parametrize("end", [EOS, f"{INVOKE_END}{EOS}", ""])
def test_json_that_is_read_again_as_text_is_judged_afresh(end: str) -> None:
    """A close in it that waited for what follows may stand in a quoted call then."""
    quoted = f'{DSML}invoke name="bash">\n<{DSML}parameter name="x">1</{DSML}parameter>'
    opening = f'<{DSML}invoke name="bash">\n<{DSML}parameter name="timeout" string="false">'
    text = f'{opening}<{quoted} remark <"{PARAMETER_END}\n{end}'
    whole = dsv4.assemble(events_of([text], thinking=False, tools=TOOLS))
    for at in range(1, len(text)):
        pieces = text[:at], text[at:]
        assert dsv4.assemble(events_of(pieces, thinking=False, tools=TOOLS)) == whole, at


@pytest.mark.repeats
@pytest.mark.parametrize("between", ["<par=t<calls", "<b>x</b>\n<calls>\n", "a <c d <e"])
def test_where_a_plain_call_is_given_up_does_not_depend_on_the_cut(between: str) -> None:
    text = f'<invoke name="bash">{between}{calling("bash", command="ls")}{EOS}'
    whole = dsv4.assemble(events_of([text], thinking=False, tools=TOOLS))
    assert [call.arguments for call in whole.tool_calls] == ['{"command": "ls"}']
    for at in range(1, len(text)):
        pieces = text[:at], text[at:]
        assert dsv4.assemble(events_of(pieces, thinking=False, tools=TOOLS)) == whole, at


@pytest.mark.repeats
@pytest.mark.parametrize(
    "text",
    [
        f'<tool>{{"me": "b"}}<<{DSML}to name="bash">/par',
        f'<tool_call>{{"name": "bash"}}<<{DSML}parameter name="q" string="v"/>/x></tool_call>',
        f'<tool>{{"name": "bash", "argum<<{DSML}invoke name="zsh">![CDAT',
    ],
)
def test_a_bracket_too_many_is_the_tags_where_a_plain_call_is_given_up(text: str) -> None:
    whole = dsv4.assemble(events_of([text], thinking=False))
    assert [diagnostic.raw[:2] for diagnostic in whole.diagnostics][:1] == ["<<"]
    for pieces in [list(text), *cuts(text)]:
        assert dsv4.assemble(events_of(pieces, thinking=False)) == whole


@pytest.mark.parametrize("named", ['naame="ping"', 'name="ping"', ""])
@pytest.mark.parametrize("mark", ["｜", "｜DSML｜", ""])
def test_an_invoke_that_closes_itself_is_the_same_wherever_the_text_is_cut(
    mark: str, named: str
) -> None:
    odd = f"<{mark}invoke {named}/>\n<{mark}invoke {named}/,>"
    text = f"{BLOCK}\n{calling('ping')}\n{odd}\n{BLOCK_END}"
    whole = merged(events_of([text], thinking=False, tools=TOOLS))
    for pieces in cuts(text):
        assert merged(events_of(pieces, thinking=False, tools=TOOLS)) == whole


@pytest.mark.parametrize("spaces", ["", " ", "   ", "    ", "     ", " \t", " \n"])
@pytest.mark.parametrize("bar", ["｜", "|", ""])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_bar_after_the_word_and_spaces_is_found_wherever_the_text_is_cut(
    slash: str, bar: str, spaces: str
) -> None:
    text = f'a <{slash}DSML{spaces}{bar}invoke name="ping"> b'
    whole = merged(events_of([text], thinking=False, tools=TOOLS))
    for pieces in cuts(text):
        assert merged(events_of(pieces, thinking=False, tools=TOOLS)) == whole


class TestQuotations:
    """A line without the mark ends one, even if its words go by without being read."""

    CALL = f"{BLOCK}{calling('ping')}{BLOCK_END}"

    @pytest.mark.parametrize(
        ("pieces", "calls"),
        [
            (["> ```\n> an example", "\nGo on.", CALL], ["ping"]),  # the fence has ended too
            (["> a remark", "\nSo: ", f"```js\ncode\nmore {CALL}"], []),  # this one goes on
        ],
    )
    def test_whatever_the_chunks(self, pieces: list[str], calls: list[str]) -> None:
        for chunks in (pieces, ["".join(pieces)]):
            message = dsv4.assemble(events_of(chunks, thinking=False, tools=TOOLS))
            assert [call.name for call in message.tool_calls] == calls


def test_only_the_piece_itself_is_inert() -> None:
    parser = dsv4.StreamParser()
    events = [
        *parser.feed_inert("</think> is a tag.\n<"),
        *parser.feed("</think>So."),
        *parser.finish(),
    ]
    message = dsv4.assemble(events)
    assert (message.reasoning, message.content) == ("</think> is a tag.\n<", "So.")

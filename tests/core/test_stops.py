"""Stop strings: the prose ends before the first of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import EOS
from completions import TOOLS, block, calling, calls_of, cuts, events_of, merged


def read(text: str, *stops: str, **options: Any) -> dsv4.Message:
    """The message, which is the same for several ways of cutting the text."""
    options = {"thinking": False, "tools": TOOLS, "stop": stops, **options}
    whole = merged(events_of([text], **options))
    for chunks in cuts(text):
        assert merged(events_of(chunks, **options)) == whole
    return dsv4.parse(text, **options)


def test_what_comes_behind_it_does_not_count() -> None:
    message = read(f"One. STOP Two.{block(calling('ping'))}", "STOP")
    assert (message.content, message.tool_calls, message.finish) == ("One. ", (), "stop")
    assert message.diagnostics == ()


def test_no_part_of_it_is_shown() -> None:
    parser = dsv4.StreamParser(thinking=False, stop=["STOP"])
    shown = [parser.feed(chunk) for chunk in ("a S", "T", "O", "P", " b")]
    assert shown == [[dsv4.ContentDelta("a ")], [], [], [dsv4.StopHit("STOP")], []]
    assert parser.finish() == [dsv4.End("stop")]


def test_what_only_starts_like_it_is() -> None:
    parser = dsv4.StreamParser(thinking=False, stop=["STOP"])
    shown = [parser.feed(chunk) for chunk in ("a ST", "ART", " STO")]
    assert shown == [
        [dsv4.ContentDelta("a ")],
        [dsv4.ContentDelta("START")],
        [dsv4.ContentDelta(" ")],
    ]
    assert parser.finish() == [dsv4.ContentDelta("STO"), dsv4.End("stop")]


@pytest.mark.parametrize("text", [f"a ST{EOS}", f"a ST{block(calling('ping'))}"])
def test_what_is_held_comes_before_what_follows(text: str) -> None:
    assert read(text, "STOP").content == "a ST"


@pytest.mark.parametrize(
    "call",
    [
        '<invoke name="bash"><parameter name="command">ls</parameter></invoke>',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
    ],
)
def test_line_breaks_before_calls_without_the_token_count(call: str) -> None:
    message = read(f"Look.\n{call}", "\n")
    assert (message.content, message.tool_calls, message.finish) == ("Look.", (), "stop")


def test_the_first_in_the_text_counts() -> None:
    assert read("a END b STOP c", "STOP", "END").content == "a "
    assert read("aab", "ab", "aab").content == ""


def test_it_may_be_given_alone() -> None:
    assert dsv4.parse("a STOP b", thinking=False, stop="STOP").content == "a "


@pytest.mark.parametrize("stops", [(), ("",)])
def test_none(stops: tuple[str, ...]) -> None:
    assert read("a STOP b", *stops).content == "a STOP b"


def test_in_reasoning() -> None:
    text = "Hm. STOP More.</think>Hi."
    message = read(text, "STOP", thinking=True)
    assert (message.reasoning, message.content) == ("Hm. STOP More.", "Hi.")
    message = read(text, "STOP", thinking=True, stop_in="all")
    assert (message.reasoning, message.content, message.finish) == ("Hm. ", "", "stop")


def test_not_in_arguments() -> None:
    message = read(f"a{block(calling('bash', command='echo STOP'))}", "STOP")
    assert calls_of(message) == [("bash", {"command": "echo STOP"})]
    assert message.finish == "tool_calls"


def test_behind_a_block() -> None:
    message = read(f"a{block(calling('ping'))} b STOP c", "STOP")
    assert (message.content, calls_of(message)) == ("a b ", [("ping", {})])


def test_newlines_that_belong_to_a_block_are_no_prose() -> None:
    message = read(f"a{block(calling('ping'))}", "\n\n")
    assert (message.content, calls_of(message)) == ("a", [("ping", {})])
    assert read("a\n\nb", "\n\n").content == "a"


some_stops = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.text("abc", min_size=size, max_size=size), max_size=3)
)


@given(st.text("abc", max_size=30), some_stops)
def test_the_text_before_the_first_of_them(text: str, stops: list[str]) -> None:
    places = [text.find(stop) for stop in stops if stop in text]
    assert read(text, *stops).content == (text[: min(places)] if places else text)


def test_not_across_the_end_of_thought() -> None:
    message = dsv4.parse("ST</think>OP x", stop="STOP", stop_in="all")
    assert (message.reasoning, message.content) == ("ST", "OP x")


def test_the_one_that_is_whole_first_counts() -> None:
    options: dict[str, Any] = {"thinking": False, "stop": ["a", "baa"]}
    assert merged(events_of("baa", **options)) == merged(events_of(["baa"], **options))


@pytest.mark.parametrize("text", ["One. STOP", "One. STOP Two.", "One. STOP</think>"])
def test_which_one_came_is_said_at_once(text: str) -> None:
    parser = dsv4.StreamParser(thinking=False, stop=["END", "STOP"])
    events = [event for character in text for event in parser.feed(character)]
    assert events[-1] == dsv4.StopHit("STOP")
    assert parser.finish() == [dsv4.End("stop")]


def test_calls_before_it_are_calls() -> None:
    message = read(f"a{block(calling('ping'))} b STOP c", "STOP")
    assert (calls_of(message), message.finish) == ([("ping", {})], "tool_calls")


@pytest.mark.parametrize(
    ("text", "stop", "names"),
    [
        # The quotation is closed before it, might have been closed behind it, or is over.
        ("<pre>{}</pre> foo", "foo", []),
        ("<pre>{}</pre>", "/", []),
        ("<pre>{} and foo", "foo", []),
        ("“{}”, foo", "foo", []),
        ("“{}, foo”", "foo", []),
        ("It’s “{}\n\nfoo", "foo", ["ping"]),
        ("“One” {} foo ”", "foo", ["ping"]),
    ],
)
def test_calls_that_may_be_quoted_before_it(text: str, stop: str, names: list[str]) -> None:
    message = read(text.format(block(calling("ping")).strip()), stop)
    assert [call.name for call in message.tool_calls] == names

"""Going on where the prompt left the turn open: `prefix` is what it holds of the turn already."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import BOS, EOS, assistant, user
from completions import *


def go_on(prefix: str, text: str, **options: Any) -> dsv4.Message:
    """The message, which is the same for several ways of cutting the text."""
    options = {"thinking": False, "tools": TOOLS, "prefix": prefix, **options}
    whole = merged(events_of([text], **options))
    for chunks in cuts(text):
        assert merged(events_of(chunks, **options)) == whole
    return dsv4.parse(text, **options)


CALL = f"{BLOCK}\n{BASH}\n{COMMAND}ls{PARAMETER_END}\n"


def test_in_content() -> None:
    assert go_on("The answer", f" is 42.{EOS}").content == " is 42."


def test_in_reasoning() -> None:
    message = go_on("I should", " look.</think>Done.", thinking=True)
    assert (message.reasoning, message.content) == (" look.", "Done.")


def test_behind_reasoning() -> None:
    message = go_on("Hm.</think>The", " end.", thinking=True)
    assert (message.reasoning, message.content, message.finish) == ("", " end.", "stop")


@pytest.mark.parametrize(
    ("prefix", "text", "arguments"),
    [
        (CALL, f"{INVOKE_END}\n", {"command": "ls"}),
        (
            CALL,
            f"{TIMEOUT}5{PARAMETER_END}\n{INVOKE_END}\n",
            {"command": "ls", "timeout": 5},
        ),
        (
            f"{BLOCK}\n{BASH}\n{TIMEOUT}1",
            f"0{PARAMETER_END}\n{INVOKE_END}\n",
            {"timeout": 10},
        ),
        (f"{BLOCK}\n{BASH}\n", f"{COMMAND}ls{PARAMETER_END}\n{INVOKE_END}", {"command": "ls"}),
        (CALL[:-5], f"{CALL[-5:]}{INVOKE_END}\n", {"command": "ls"}),
    ],
    ids=["behind a string", "next", "in JSON", "before them", "in a tag"],
)
def test_a_call_that_was_begun_is_told_whole(
    prefix: str, text: str, arguments: dict[str, Any]
) -> None:
    message = go_on(f"Look.\n\n{prefix}", f"{text}{BLOCK_END}{EOS}")
    assert calls_of(message) == [("bash", arguments)]
    assert (message.content, message.finish, message.diagnostics) == ("", "tool_calls", ())


def test_a_call_that_was_complete_is_not_told_again() -> None:
    message = go_on(
        f"{BLOCK}\n{calling('bash', command='ls')}", f"{calling('ping')}{BLOCK_END}{EOS}"
    )
    assert [(call.name, call.index) for call in message.tool_calls] == [("ping", 1)]


def test_a_fence_that_was_opened_is_open() -> None:
    message = go_on("```xml\nx ", BLOCK)
    assert (message.content, kinds_of(message)) == (BLOCK, ["markup_as_text"])


def test_places_count_from_the_new_text() -> None:
    message = go_on("a", f"b</think>c{BOS}")
    assert [(d.start, d.end) for d in message.diagnostics] == [(1, 9), (10, 10 + len(BOS))]


@pytest.mark.parametrize("open_turn", ["The answer", f"Look.{block(calling('ping'))[:-20]}"])
def test_it_is_what_the_encoder_wrote_of_the_open_turn(open_turn: str) -> None:
    prompt = str(dsv4.encode([user(), assistant(open_turn, prefix=True)], thinking=False))
    asking = "<｜Assistant｜></think>"
    assert prompt[prompt.index(asking) + len(asking) :] == open_turn


class TestWhatTheParserHeldBack:
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

    def test_of_a_turn_made_up_in_the_prefix_the_completion_is_quoted(self) -> None:
        prefix = f"a{EOS}<｜User｜>{'b' * 2000}"
        (found,) = dsv4.parse("c" * 1500, thinking=False, prefix=prefix).diagnostics
        assert found == dsv4.Diagnostic("made_up_turn", 0, 1500, "c" * 1024)

    @pytest.mark.parametrize("text", [" -l", f" -l{EOS}", f"{EOS}", "", "b\n", f"b\n\nc{EOS}"])
    @pytest.mark.parametrize(
        "prefix",
        [f"{BLOCK}{BASH}{COMMAND}ls", f"{BLOCK}{BASH}", f"a{EOS}<｜User｜>b", "```\n", "a <", "a"],
    )
    def test_a_whole_text_is_read_as_in_a_stream(self, prefix: str, text: str) -> None:
        chosen: dict[str, Any] = {"thinking": False, "tools": TOOLS, "prefix": prefix}
        parser = dsv4.StreamParser(**chosen)
        events = [*parser.feed(text), *parser.finish()]
        assert dsv4.parse(text, **chosen) == dsv4.assemble(events)

    def test_eos_completes_a_call_that_the_prefix_began(self) -> None:
        chosen: dict[str, Any] = {"thinking": False, "tools": TOOLS}
        message = dsv4.parse(f" -l{EOS}", prefix=f"{BLOCK}{BASH}{COMMAND}ls", **chosen)
        assert calls_of(message) == [("bash", {"command": "ls -l"})]

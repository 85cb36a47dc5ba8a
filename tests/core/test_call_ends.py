"""Where calls end (recovery.md, rule 39): what follows may say that a value quoted its closes."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import EOS
from completions import *

ECHO = calling("bash", command="echo").rstrip()
CLOSES = f"{PARAMETER_END}\n{INVOKE_END}\n"
ALL_CLOSES = f"{CLOSES}{BLOCK_END}"
OPENED = f"{BLOCK}\n{BASH}\n{COMMAND}"
LS = [("bash", {"command": "ls"})]
ONE = block(calling("bash", command="ls"))
PING = block(calling("ping"))


def ends_after(*chunks: str, **options: Any) -> int:
    """After which of these pieces the first call ends. Their number: at the end of the text."""
    parser = dsv4.StreamParser(**{"thinking": False, "tools": TOOLS, **options})
    for count, chunk in enumerate(chunks):
        if dsv4.ToolCallEnd(0) in parser.feed(chunk):
            return count
    assert dsv4.ToolCallEnd(0) in parser.finish()
    return len(chunks)


@pytest.mark.parametrize("calls", ["streamed", "whole"])
@pytest.mark.parametrize(
    "chunks",
    [
        (ONE, EOS),
        (f"{ONE}\nDone.", EOS),
        (f"{BLOCK}\n{calling('bash', command='ls')}", calling("ping")),
        (f"{BLOCK}\n{calling('bash', command='ls')} and", f"{calling('ping')}{BLOCK_END}."),
        (f"{ONE}\n\nAnd then: ", PING),
        (ONE, '\n<invoke name="ping"></invoke>'),
        (ONE, "<｜User｜>Go on.<｜Assistant｜></think>"),
        (ONE, "", " \n"),
    ],
)
def test_a_call_ends_where_the_next_begins_or_the_text_ends(
    chunks: tuple[str, ...], calls: str
) -> None:
    last = len(chunks) - (not chunks[-1].isspace())
    assert ends_after(*chunks, calls=calls) == last


def test_a_call_in_reasoning_ends_with_it() -> None:
    assert ends_after(f"Hm.{ONE}", "\nSo.", "</think>", "Done.", thinking=True) == 2


def test_a_call_ends_where_a_stop_string_is_hit() -> None:
    assert ends_after(ONE, "\nSTOP", "more", stop="STOP") == 1


def test_a_call_of_the_prompt_has_ended_there() -> None:
    chunks = ["\nDone.", PARAMETER_END, EOS]
    events = events_of(chunks, thinking=False, prefix=f"Look.{ONE}", tools=TOOLS)
    assert not [event for event in events if hasattr(event, "index")]


def test_text_behind_a_block_is_shown_before_its_call_ends() -> None:
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    parser.feed(ONE)
    parser.feed("\nI am")
    assert parser.feed(" done") == [dsv4.ContentDelta(" done")]
    assert parser.feed(EOS) == [dsv4.ToolCallEnd(0)]


# What stands behind the closes of a call, and closes it once more.
PROVES = [
    f"EOF\nls{ALL_CLOSES}",  # in the block
    f"'''\nprint(x){PARAMETER_END}</{DSML}invoke>",
    f"{BLOCK_END} b{ALL_CLOSES}",  # behind it
    f"{BLOCK_END}\n\nb{PARAMETER_END}",
    f"b\n{BLOCK_END}{PARAMETER_END}",  # behind it, with text in it
    f"{BLOCK_END}\n```\nb\n{PARAMETER_END}\n",
    f"{BLOCK_END} b</{DSML}param>",
    f"{BLOCK_END} `b{PARAMETER_END}",
    f"{BLOCK_END} b {DSML}parameter>",  # without its bracket
    '{"a": 1}' + ALL_CLOSES,
]
PROVES_NOTHING = [
    f"{BLOCK_END}\nDone.",
    ALL_CLOSES,  # repeated directly
    f"{BLOCK_END}{PARAMETER_END}\n{INVOKE_END}\n\n{BLOCK_END}",
    f"{BLOCK_END} b\n{INVOKE_END}\n{BLOCK_END}",  # of the call and the block alone
    f"{BLOCK_END}\nA value ends with `{PARAMETER_END}`, then.",  # named
    f"{BLOCK_END} `{DSML}parameter>` is part of it",
    f"{BLOCK_END} <{DSML}invoke so `{PARAMETER_END}`",  # in what is left of a call
    f"{BLOCK_END}\nA value ends:\n```\n“{PARAMETER_END}”\n```\n",
    f"{BLOCK_END} b </parameter>",  # without the token
    f"{BLOCK_END} b{EOS}{PARAMETER_END}",  # behind its end
]


@pytest.mark.parametrize("calls", ["streamed", "whole"])
@pytest.mark.parametrize("behind", PROVES)
def test_a_close_behind_text_says_that_the_value_had_quoted_its_own(
    behind: str, calls: str
) -> None:
    message = read_everywhere(f"Look.\n\n{OPENED}ls{CLOSES}{behind}{EOS}", calls=calls)
    assert message.tool_calls == ()
    assert message.dropped
    if calls == "streamed":
        assert incomplete_of(message) == LS
    else:
        assert any(OPENED.rpartition("\n")[2] in one.raw for one in message.dropped)


@pytest.mark.parametrize("behind", PROVES_NOTHING)
def test_other_text_behind_a_call_says_nothing(behind: str) -> None:
    message = read_everywhere(f"{OPENED}ls{CLOSES}{behind}{EOS}")
    assert calls_of(message) == LS
    assert message.incomplete == ()


@pytest.mark.parametrize("behind", PROVES)
def test_the_calls_before_and_behind_it_are_made(behind: str) -> None:
    """Only the last call before such a close is in question, and what is left in its block."""
    text = f"{BLOCK}\n{calling('ping')}{BASH}\n{COMMAND}ls{CLOSES}{behind}{PING}{EOS}"
    message = read_everywhere(text)
    assert calls_of(message)[0] == ("ping", {})
    assert incomplete_of(message) == LS


ARGUMENT = f'<{DSML}parameter name="timeout" string="false">5{PARAMETER_END}\n'


@pytest.mark.parametrize("behind", ["", f"{INVOKE_END}\n", f"{ARGUMENT}{INVOKE_END}\n"])
@pytest.mark.parametrize("calls", ["streamed", "whole"])
def test_an_argument_directly_behind_a_call_says_that_it_lacks_one(behind: str, calls: str) -> None:
    """Its close stands a line too early, or in place of a parameter's."""
    text = f"{OPENED}ls{CLOSES}\n{ARGUMENT}{behind}{calling('ping')}{BLOCK_END}{EOS}"
    message = read_everywhere(text, calls=calls)
    assert calls_of(message) == [("ping", {})]
    assert message.dropped


def test_one_behind_the_opening_of_another_call_says_nothing() -> None:
    """That opening is damaged: the argument is of that call."""
    broken = f'<{DSML}invoke name="bash\n'
    text = f"{OPENED}ls{CLOSES}\n{broken}{ARGUMENT}{INVOKE_END}\n{BLOCK_END}{EOS}"
    message = read_everywhere(text)
    assert calls_of(message) == LS
    assert message.dropped

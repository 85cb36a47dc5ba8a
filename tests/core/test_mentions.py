"""Tokens that are only mentioned: they are shown as soon as nothing else can be meant.

recovery.md, rule 47.
"""

from __future__ import annotations

import pytest

import dsv4
from builders import EOS
from completions import *
from completions import read_everywhere as read

BEGIN, CALL, SEP = "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"
USER, ANSWER = "<｜User｜>", "<｜Assistant｜></think>"


def held(text: str, tools: object = TOOLS) -> str:
    """What waits behind a text, which comes character by character."""
    parser = dsv4.StreamParser(thinking=False, tools=tools)  # type: ignore[arg-type]
    for character in text:
        parser.feed(character)
    return parser.held


class TestNativeTokens:
    @pytest.mark.parametrize(
        ("text", "waits"),
        [
            (f"V3 wrote {BEGIN}", BEGIN),
            (f"V3 wrote {BEGIN} there", ""),
            (f"V3 wrote {BEGIN}\n{CALL}", f"{BEGIN}\n{CALL}"),
            (f"V3 wrote {BEGIN}\n{CALL} and", ""),
            (f"{CALL}ba", f"{CALL}ba"),
            (f"{CALL}bat", ""),
            (f"{CALL}bash{SEP}", f"{CALL}bash{SEP}"),
            (f"{CALL}function{SEP}pi", f"{CALL}function{SEP}pi"),
            (f"{CALL}function{SEP}po", ""),
            (f"{CALL}function calls", ""),
            (f"{BEGIN}{CALL}NAME or", ""),
        ],
    )
    def test_they_wait_while_a_declared_name_may_follow(self, text: str, waits: str) -> None:
        assert held(text) == waits

    @pytest.mark.parametrize("name", ["x" * 512, "x" * 513])
    def test_a_name_that_is_too_long_is_none(self, name: str) -> None:
        text = f"{CALL}{name}{SEP}{{}}{EOS}"
        assert len(read(text, tools=None).tool_calls) == (len(name) == 512)

    @pytest.mark.parametrize("kind", ["", f"function{SEP}"])
    def test_calls_are_read_as_before(self, kind: str) -> None:
        calls = f'{BEGIN}{CALL}{kind}bash{SEP}{{"command": "ls"}}<｜tool▁call▁end｜>'
        message = read(f"So.{calls}<｜tool▁calls▁end｜>{EOS}")
        assert calls_of(message) == [("bash", {"command": "ls"})]


class TestRoles:
    @pytest.mark.parametrize("length", [4000, 4095])
    def test_a_turn_that_is_answered_soon_was_made_up(self, length: int) -> None:
        turn = f"{USER}{'x' * (length - len(USER))}{ANSWER}Yes."
        message = read(f"Done.{turn}{EOS}")
        assert (message.content, kinds_of(message)) == ("Done.", ["made_up_turn"])

    def test_a_token_that_no_answer_follows_for_long_is_shown(self) -> None:
        text = f"{USER} begins a turn. {'x' * 4096}"
        assert held(text[:-64]) == text[:-64]
        assert held(text) == ""
        assert read(f"{text}{EOS}").content == text

    @pytest.mark.parametrize("later", ["", f"{USER}And", "<｜Assistant｜>"])
    def test_behind_it_an_answer_is_cut_where_it_opens(self, later: str) -> None:
        text = f"{USER} begins a turn. {'x' * 5000}{later}"
        message = read(f"{text}{ANSWER}Yes.{EOS}")
        assert (message.content, kinds_of(message)) == (text, ["made_up_turn"])


@pytest.mark.parametrize("quotes", ["„“", "„”", "‚‘", "»«", "»»", "「」", "״״"])
@pytest.mark.parametrize("token", [EOS, USER])
def test_a_token_between_quotes_of_any_language_is_named(quotes: str, token: str) -> None:
    text = f"Es schreibt {quotes[0]}{token}{quotes[1]} dort."
    assert read(f"{text}{EOS}").content == text

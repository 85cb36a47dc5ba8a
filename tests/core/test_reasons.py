"""The table of finish reasons: what each word of a server says (recovery.md, rule 26)."""

from __future__ import annotations

import pytest

from dsv4._completion.reasons import Ended, ended_by

TABLE = {
    Ended.END: "eos eos_token end_turn tool_calls function_call tool_use",
    Ended.STOP: "stop STOP COMPLETE",
    Ended.LENGTH: "length max_tokens model_length",
    Ended.FILTER: "content_filter refusal",
    Ended.FAILURE: "timeout cancelled aborted abort error EOS Stop null none 0",
}


@pytest.mark.parametrize(
    ("word", "ended"), [(word, ended) for ended, words in TABLE.items() for word in words.split()]
)
def test_every_word_says_one_thing(word: str, ended: Ended) -> None:
    assert ended_by(word) is ended


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_word_says_nothing(nothing: str | None) -> None:
    assert ended_by(nothing) is None


def test_what_is_a_cut() -> None:
    cuts = {ended for ended in Ended if ended.is_cut}
    assert cuts == {Ended.LENGTH, Ended.FILTER, Ended.FAILURE}

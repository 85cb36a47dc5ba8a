"""The special tokens: what they spell, their ids, and that text which spells one is not one."""

from __future__ import annotations

import copy
import pickle
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4 import DIALECTS, Special
from dsv4._format import tokens
from dsv4._format.tokens import MarkupText, markup

# As the V4 tokenizer has them.
IDS = {
    "<｜begin▁of▁sentence｜>": 0,
    "<｜end▁of▁sentence｜>": 1,
    "<｜User｜>": 128803,
    "<｜Assistant｜>": 128804,
    "<think>": 128821,
    "</think>": 128822,
    "｜DSML｜": 128825,
    "<｜latest_reminder｜>": 128828,
    "<｜action｜>": 128829,
    "<｜query｜>": 128830,
    "<｜authority｜>": 128831,
    "<｜domain｜>": 128832,
    "<｜title｜>": 128836,
    "<｜extracted_url｜>": 128844,
    "<｜read_url｜>": 128845,
}


def test_spellings_and_ids() -> None:
    assert {str(token): token.id for token in tokens.V4_TOKENS} == IDS


def test_v4_1_has_two_more_tokens_in_reserved_places_of_the_v4_vocabulary() -> None:
    more = [token for token in tokens.V4_1_TOKENS if token not in tokens.V4_TOKENS]
    assert {str(token): token.id for token in more} == {
        "<｜System｜>": 128799,
        "<｜deepseek_image｜>": 129264,
    }


def test_bars_and_blocks_are_not_ascii() -> None:
    assert {char for token in tokens.V4_1_TOKENS for char in token if not char.isascii()} == {
        "\N{FULLWIDTH VERTICAL LINE}",
        "\N{LOWER ONE EIGHTH BLOCK}",
    }
    assert not any("|" in token for token in tokens.V4_1_TOKENS)


def test_a_special_token_is_a_string_that_knows_its_id() -> None:
    assert tokens.BOS == "<｜begin▁of▁sentence｜>"
    assert isinstance(tokens.BOS, Special)
    assert repr(tokens.BOS) == "Special('<｜begin▁of▁sentence｜>', 0)"
    assert type(str(tokens.BOS)) is str


@pytest.mark.parametrize("token", [tokens.EOS, tokens.IMAGE])
def test_a_copy_is_a_special_token_too(token: Special) -> None:
    for same in (pickle.loads(pickle.dumps(token)), copy.deepcopy(token)):
        assert (type(same), same, same.id) == (Special, token, token.id)


def test_markup_knows_the_tokens_in_the_formats_own_words() -> None:
    words = markup("a <｜DSML｜invoke> </think>")
    assert words == "a <｜DSML｜invoke> </think>"
    assert words.parts == ("a <", tokens.DSML, "invoke> ", tokens.THINK_END)
    assert [isinstance(part, Special) for part in words.parts] == [False, True, False, True]


@given(st.lists(st.sampled_from([*tokens.V4_1_TOKENS, "a", "<", "｜", "DSML｜", "User｜>", "/"])))
def test_markup_finds_the_tokens_from_left_to_right(written: list[str]) -> None:
    text = "".join(written)
    places = tokens.spelled(tokens.V4_1_TOKENS).finditer(text)
    parts = markup(text).parts
    assert "".join(parts) == text
    assert [p for p in parts if isinstance(p, Special)] == [place[0] for place in places]


@pytest.mark.parametrize("release", DIALECTS)
def test_no_token_overlaps_another(release: str) -> None:
    for one, other in permutations(DIALECTS[release].special_tokens, 2):
        assert one not in other
        assert not any(other.startswith(one[at:]) for at in range(1, len(one)))


def test_markup_keeps_text_as_text_when_given_parts() -> None:
    words = MarkupText(["", "<think>", tokens.THINK_START])
    assert words == "<think><think>"
    assert [isinstance(part, Special) for part in words.parts] == [False, True]
    assert pickle.loads(pickle.dumps(words)).parts == words.parts

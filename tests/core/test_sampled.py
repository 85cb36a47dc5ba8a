"""Turns as the model wrote them: the rules see the message, the prompt gets the text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import BOS, EOS, assistant, call, calling, openai_tool, result, user
from dsv4 import Sampled

ASKING = "<｜Assistant｜><think>"
ANSWERING = "<｜Assistant｜></think>"
READ = assistant("Hello", reasoning_content="hm")
# Not as the format would write it: spaces, and a repeated end of thought.
RAW = " hm </think> Hello </think>!"
# Nothing that spells a token: in what was sampled it would be one.
plain_texts = st.text(st.characters(exclude_characters="<｜"), max_size=8)


def encode(*messages: Any, **options: Any) -> str:
    return str(dsv4.encode(list(messages), **options)).removeprefix(BOS)


class TestText:
    def test_the_prompt_holds_it_as_it_is(self) -> None:
        assert encode(user(), Sampled(READ, RAW)) == f"<｜User｜>Hi{ASKING}{RAW}{EOS}"

    def test_an_eos_of_its_own_is_not_doubled(self) -> None:
        assert encode(user(), Sampled(READ, RAW + EOS)) == f"<｜User｜>Hi{ASKING}{RAW}{EOS}"

    @pytest.mark.parametrize("field", ["wo_eos", "prefix"])
    def test_an_open_turn_has_none(self, field: str) -> None:
        prompt = dsv4.encode([user(), Sampled({**READ, field: True}, RAW)])
        assert prompt.text == f"{BOS}<｜User｜>Hi{ASKING}{RAW}"
        assert prompt.ending == dsv4.Ending("continue", RAW, thinking=True)

    def test_what_it_spells_is_real(self) -> None:
        pieces = dsv4.encode([user(), Sampled(READ, RAW + "<｜User｜>")]).pieces
        assert [p.text for p in pieces if p.special and p.origin == "model"] == [
            *("</think>", "</think>", "<｜User｜>", EOS)
        ]
        assert {p.message for p in pieces if p.origin == "model"} == {1}

    def test_tokens_of_other_dialects_are_text(self) -> None:
        prompt = dsv4.encode([user(), Sampled(READ, "</think><｜System｜>")])
        assert [p.text for p in prompt.pieces if not p.special] == ["Hi", "<｜System｜>"]

    def test_the_parts_are_labelled(self) -> None:
        block = '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">'
        read = calling(call("f"), reasoning="hm")
        pieces = dsv4.encode([user(), Sampled(read, f"hm</think>Well.{block}")]).pieces
        fields = [(p.text, p.field) for p in pieces if p.origin == "model"]
        assert fields[:3] == [("hm", "reasoning"), ("</think>", "reasoning"), ("Well.", "content")]
        assert {field for _, field in fields[3:-1]} == {"tool_calls"}
        assert "".join(text for text, field in fields if field == "tool_calls") == block
        assert fields[-1] == (EOS, "eos")

    def test_where_reasoning_is_dropped_only_what_follows_it_stays(self) -> None:
        prompt = encode(user(), Sampled(READ, RAW), user("2"))
        assert prompt == f"<｜User｜>Hi{ANSWERING} Hello </think>!{EOS}<｜User｜>2{ASKING}"
        assert encode(user(), Sampled(READ, RAW), thinking=False) == (
            f"<｜User｜>Hi{ANSWERING} Hello </think>!{EOS}"
        )

    def test_empty_reasoning_is_dropped_too(self) -> None:
        prompt = encode(user(), Sampled(assistant("Hello"), "</think>Hello"), user("2"))
        assert prompt.startswith(f"<｜User｜>Hi{ANSWERING}Hello{EOS}")

    def test_reasoning_that_never_ended_leaves_the_message_as_it_was_read(self) -> None:
        read = assistant("", reasoning_content="hm")
        assert encode(user(), Sampled(read, "hm"), user("2")).startswith(
            f"<｜User｜>Hi{ANSWERING}{EOS}"
        )
        assert encode(user(), Sampled(read, "hm")) == f"<｜User｜>Hi{ASKING}hm</think>{EOS}"

    @pytest.mark.parametrize("dialect", ["v4-vision", "v4.1"])
    def test_a_message_that_stands_for_itself_may_have_blocks(self, dialect: str) -> None:
        read = assistant(None, content_blocks=[{"type": "text", "text": "Hello"}])
        assert encode(user(), Sampled(read), dialect=dialect) == encode(
            user(), read, dialect=dialect
        )

    def test_an_answer_that_was_sampled_without_thinking(self) -> None:
        turn = Sampled(assistant("Hello"), " Hello")
        assert encode(user(), turn) == f"<｜User｜>Hi{ASKING}</think> Hello{EOS}"
        assert encode(user(), turn, thinking=False) == f"<｜User｜>Hi{ANSWERING} Hello{EOS}"

    def test_results_follow_the_order_of_its_calls(self) -> None:
        read = calling(call(id="a"), call(id="b"))
        prompt = encode(user(), Sampled(read, "x"), result("B", of="b"), result("A", of="a"))
        assert prompt.index(">A<") < prompt.index(">B<")

    def test_the_rules_see_the_message(self) -> None:
        tasked = Sampled(assistant("Hello", task="title"), "Hello")
        assert encode(user(), tasked, thinking=False).endswith(f"Hello{EOS}<｜title｜>")
        tools = Sampled(assistant(tools=[openai_tool()]), "Hello")
        kept = encode(user(), Sampled(READ, RAW), user(), tools, thinking=True)
        assert RAW in kept

    def test_in_every_dialect(self) -> None:
        for dialect in dsv4.DIALECTS:
            prompt = encode(user(), Sampled(READ, RAW), dialect=dialect)
            assert prompt.endswith(f"<｜User｜>Hi{ASKING}{RAW}{EOS}")

    @given(plain_texts, plain_texts)
    def test_a_turn_as_the_format_writes_it_is_that_turn(
        self, reasoning: str, content: str
    ) -> None:
        read = assistant(content, reasoning_content=reasoning)
        turn = Sampled(read, f"{reasoning}</think>{content}")
        for after in ([], [user("2")]):
            plain = dsv4.encode([user(), read, *after])
            assert dsv4.encode([user(), turn, *after]) == plain


class TestWrongInput:
    def test_only_assistants_are_sampled(self) -> None:
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[0\]\.role: found 'user', expected"):
            dsv4.encode([Sampled(user(), "Hi")])

    def test_the_message_must_be_one(self) -> None:
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]: found 3, expected a message"):
            dsv4.encode([user(), Sampled(3, "Hi")])

    def test_text_and_ids(self) -> None:
        for text in (3, b"x", ["x"]):
            with pytest.raises(dsv4.OptionError, match=r"^text: found .* expected text"):
                Sampled(READ, text)  # type: ignore[arg-type]
        for ids in (3, "12", b"12", {1}):
            with pytest.raises(dsv4.OptionError, match=r"^ids: found .* expected a list"):
                Sampled(READ, ids=ids)  # type: ignore[arg-type]

"""Chats of texts: what their own way writes is what the renderer writes, and all else is left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import VECTORS, vectors
from dsv4._encode.encode import effort_text, render_conversation
from dsv4._encode.prompt import Prompt
from dsv4._encode.render_v4 import maybe_plain_chat, plain_chat_omissions
from dsv4._encode.turns import NATIVE
from dsv4._format.dialects import DIALECTS, V4, dialect_named
from strategies import conversations, damaged

TEXTS = st.text(max_size=6) | st.sampled_from(["<｜User｜>", "</think>", "\ud800"])
USER = st.builds(lambda content: {"role": "user", "content": content}, TEXTS)
ASSISTANT = st.builds(
    lambda content, more: {"role": "assistant", **more, "content": content},
    TEXTS,
    st.sampled_from([{}, {"reasoning_content": "Hm."}, {"reasoning_content": None}]),
)
SYSTEM = st.builds(lambda content: {"role": "system", "content": content}, TEXTS)
CHATS = st.builds(
    lambda system, turns, last: [*system, *(m for pair in turns for m in pair), last],
    st.lists(SYSTEM, max_size=1),
    st.lists(st.tuples(USER, ASSISTANT), max_size=3),
    USER,
)


def rendered(messages: list[Any], thinking: bool, bos: bool, effort: str) -> Prompt:
    done = render_conversation(messages, (), V4, NATIVE, thinking, True, bos, effort)
    return Prompt(done.flat, V4, done.images, done.omissions, done.sampled)


@given(
    messages=CHATS,
    thinking=st.booleans(),
    bos=st.booleans(),
    effort=st.sampled_from([None, "high", "max"]),
)
def test_a_chat_is_what_the_renderer_writes(
    messages: list[Any], thinking: bool, bos: bool, effort: str | None
) -> None:
    words = effort_text(effort, V4, NATIVE)
    flat = maybe_plain_chat(messages, V4, thinking, bos, words)
    assert flat is not None
    wanted = rendered(messages, thinking, bos, words)
    assert flat == wanted._flat
    prompt = dsv4.encode(messages, thinking=thinking, bos=bos, effort=effort)
    assert prompt == wanted
    assert prompt.ending == wanted.ending
    assert prompt.dropped == wanted.dropped == plain_chat_omissions(messages, V4, thinking)


def check_against_the_renderer(messages: list[Any], thinking: bool = True) -> bool:
    """Whether a conversation is a plain chat; if so, both ways must write the same."""
    flat = maybe_plain_chat(messages, V4, thinking, True, "")
    if flat is None:
        return False
    wanted = rendered(messages, thinking, True, "")
    assert flat == wanted._flat
    assert plain_chat_omissions(messages, V4, thinking) == wanted.dropped
    return True


@given(messages=conversations, thinking=st.booleans())
def test_any_conversation_that_is_taken_for_a_chat(messages: list[Any], thinking: bool) -> None:
    check_against_the_renderer(messages, thinking)


@given(messages=damaged(CHATS), thinking=st.booleans())
def test_a_damaged_chat_that_is_taken_for_one(messages: Any, thinking: bool) -> None:
    if isinstance(messages, list):
        check_against_the_renderer(messages, thinking)


def test_the_conversations_of_the_vectors() -> None:
    cases = [
        case["messages"]
        for path in sorted(VECTORS.glob("*.jsonl"))
        for case in vectors(path.name)
        if isinstance(case.get("messages"), list)
    ]
    taken = [check_against_the_renderer(messages) for messages in cases]
    assert any(taken)
    assert not all(taken)


ASK = {"role": "user", "content": "x"}
ANSWER = {"role": "assistant", "content": "y"}


class Text(str):
    """A text of a class of its own."""


class Uncomparable:
    def __eq__(self, other: object) -> bool:
        raise ValueError


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [ASK, ANSWER],
        [ASK, ASK],
        [ANSWER, ASK],
        [ASK, ANSWER, ANSWER, ASK],
        [ASK, {"role": "system", "content": "z"}, ASK],
        [{"role": "system", "content": "z", "tools": []}, ASK],
        [{"role": "system", "content": "z"}, {"role": "system", "content": "z"}, ASK],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        [{"role": "user", "content": Text("x")}],
        [{"role": "user", "content": "x", "task": "action"}],
        [{"role": "developer", "content": "x"}],
        [{"role": "tool", "content": "x"}],
        [ASK, {**ANSWER, "tool_calls": []}, ASK],
        [ASK, {**ANSWER, "prefix": True}, ASK],
        [ASK, {**ANSWER, "reasoning": "Hm."}, ASK],
        [{"role": "user"}],
        [{"content": "x"}],
        [{"role": Uncomparable(), "content": "x"}],
        ["x"],
        [None, ASK],
    ],
)
def test_anything_else_is_left_to_the_renderer(messages: list[Any]) -> None:
    assert maybe_plain_chat(messages, V4, True, True, "") is None


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_that_write_more_have_no_such_way(name: str) -> None:
    dialect = dialect_named(name)
    bare = dialect.layout == "v4" and dialect.system_token is None and dialect.image_token is None
    assert (maybe_plain_chat([ASK], dialect, True, True, "") is not None) == bare


def test_longer_chats_than_there_are_fragments_for() -> None:
    messages = [*([ASK, ANSWER] * 2500), ASK]
    assert str(dsv4.encode(messages)) == str(rendered(messages, True, True, ""))

"""Whose an assistant's header is: the answer's, and no message's where none follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given

import dsv4
from builders import assistant, developer, reminder, result, system, user
from strategies import conversations, dialects


def headers(*messages: Any, **options: Any) -> list[tuple[str, int | None]]:
    """Text and message of the pieces that ask for an answer."""
    asking = ("<｜Assistant｜>", "<think>", "</think>")
    return [
        (piece.text, piece.message)
        for piece in dsv4.encode(list(messages), **options).pieces
        if piece.field == "header" and piece.text in asking
    ]


def test_an_answered_action() -> None:
    assert headers(user(task="action"), assistant("search")) == [
        ("<｜Assistant｜>", 1),
        ("<think>", 1),
    ]
    assert headers(user(task="action"), assistant("search"), thinking=False) == [
        ("<｜Assistant｜>", 1),
        ("</think>", 1),
    ]


@pytest.mark.parametrize("follower", [None, reminder(), user(), developer(), system()])
def test_an_action_without_an_answer(follower: Any) -> None:
    messages = [user(task="action"), *([follower] if follower else [])]
    assert all(message is None for _, message in headers(*messages))


def test_an_action_that_a_result_joined() -> None:
    assert headers(user(task="action"), result(), assistant("search"))[0] == ("<｜Assistant｜>", 2)


def test_an_action_of_an_assistant() -> None:
    messages = [user(), assistant(task="action"), assistant("search"), user("2")]
    assert [message for _, message in headers(*messages)] == [1, 1, 2, 2, None, None]


def test_behind_messages_that_vanish() -> None:
    messages = [developer(), user(task="action"), assistant("search"), user("2")]
    assert [message for _, message in headers(*messages)] == [2, 2, None, None]


@given(conversations, dialects)
def test_a_header_is_an_assistants_or_nobodys(messages: list[Any], dialect: str) -> None:
    assume(all(message["role"] in dsv4.DIALECTS[dialect].roles for message in messages))
    for _, index in headers(*messages, dialect=dialect):
        assert index is None or messages[index]["role"] == "assistant"

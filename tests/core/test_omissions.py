"""What the format leaves out, and by which rule."""

from __future__ import annotations

from typing import Any

from hypothesis import given

import dsv4
from builders import *
from strategies import conversations


def dropped(*messages: Any, **options: Any) -> list[tuple[int, str, str]]:
    return [tuple(found) for found in dsv4.encode(list(messages), **options).dropped]


def test_nothing_of_a_plain_conversation() -> None:
    calls = calling(call(id="a"), reasoning="hm")
    assert dropped(system(tools=[openai_tool()]), user(), calls, result(of="a")) == []


class TestReasoning:
    THOUGHT = assistant(reasoning_content="hm")

    def test_old(self) -> None:
        assert dropped(user(), self.THOUGHT, user()) == [(1, "reasoning_content", "old_reasoning")]
        assert dropped(user(), assistant(reasoning="hm"), result()) == [
            (1, "reasoning", "old_reasoning")
        ]
        assert dropped(user(), self.THOUGHT, user(), drop_thinking=False) == []

    def test_none_to_lose(self) -> None:
        assert dropped(user(), assistant(reasoning=""), user()) == []

    def test_in_chat_mode(self) -> None:
        assert dropped(user(), self.THOUGHT, thinking=False) == [
            (1, "reasoning_content", "chat_mode")
        ]

    def test_of_what_answers_a_task(self) -> None:
        assert dropped(user(task="query"), self.THOUGHT) == [
            (1, "reasoning_content", "task_answer")
        ]
        assert dropped(self.THOUGHT, context=[user(task="query")]) == [
            (0, "reasoning_content", "task_answer")
        ]

    def test_in_v32(self) -> None:
        assert dropped(user(), self.THOUGHT, user(), dialect="v3.2", drop_thinking=False) == [
            (1, "reasoning_content", "old_reasoning")
        ]


class TestTurns:
    def test_that_vanish(self) -> None:
        assert dropped(developer(), assistant(), user()) == [(0, "message", "vanished")]
        assert dropped(developer(), assistant(), user(), dialect="v3.2") == [
            (0, "message", "vanished")
        ]

    def test_that_joined_another(self) -> None:
        assert dropped(user(), user(task="query", tools=[function()])) == [
            (1, "task", "joined"),
            (1, "tools", "joined"),
        ]

    def test_a_task_that_nobody_answers(self) -> None:
        assert dropped(user(task="query"), user()) == [(0, "task", "not_asked")]
        assert dropped(user(task="query")) == []
        assert dropped(user(task="query"), reminder()) == []


class TestFields:
    def test_that_the_role_has_no_use_for(self) -> None:
        assert dropped(user(name="Ann", response_format={"a": 1})) == [
            (0, "name", "unread"),
            (0, "response_format", "unread"),
        ]
        assert dropped(user(tools=[function()])) == [(0, "tools", "unread")]
        assert dropped(user(name=None, refusal="", x=[])) == []

    def test_urls(self) -> None:
        assert dropped(user(task="read_url", extracted_url="u")) == []
        assert dropped(user(task="query", extracted_url="u")) == [(0, "extracted_url", "unread")]

    def test_tools_that_the_choice_hides(self) -> None:
        assert dropped(system(tools=[function()]), user(), tool_choice="none") == [
            (0, "tools", "tool_choice")
        ]

    def test_content_where_there_are_blocks(self) -> None:
        message = user("a", content_blocks=[text("b")])
        assert dropped(message, dialect="v4.1") == [(0, "content", "unread")]
        assert dropped(message, dialect="v4") == [(0, "content_blocks", "unread")]

    def test_blocks_that_vanish(self) -> None:
        blocks = [text("a"), {"type": "audio"}, image()]
        for field, message in (
            ("content", system(blocks, tools=[function()])),
            ("content_blocks", system(None, content_blocks=blocks, tools=[function()])),
        ):
            assert dropped(message, dialect="v4.1") == [(0, field, "unseen_block")]


@given(conversations)
def test_it_is_always_found_out(messages: list[Any]) -> None:
    for found in dsv4.encode(messages).dropped:
        assert found.message < len(messages)
        assert found.field == "message" or found.field in messages[found.message]

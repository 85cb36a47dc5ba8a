"""JSON values as requests, and what is said of every one of them from outside."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import assistant, user
from dsv4._inputs.input_files import InputError
from dsv4._inputs.request_bodies import RequestOverrides, request_of

TOOL = {"type": "function", "function": {"name": "f"}}


def test_a_list_of_messages() -> None:
    assert request_of([user()]) == dsv4.Request([user()])


def test_a_chat_request() -> None:
    body = {
        "model": "deepseek-ai/DeepSeek-V4-Pro-0731",
        "messages": [user()],
        "tools": [TOOL],
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
        "thinking": {"type": "disabled"},
        "temperature": 0.5,
    }
    assert request_of(body) == dsv4.Request(
        [user()],
        tools=[TOOL],
        response_format={"type": "json_object"},
        effort="low",
        thinking=False,
        dialect="v4-0731",
    )


def test_a_model_that_says_nothing() -> None:
    assert request_of({"messages": [user()], "model": "my-model"}).dialect == "v4"


@pytest.mark.parametrize(
    ("value", "thinking"),
    [(None, True), (True, True), (False, False), ({"type": "enabled"}, True)],
)
def test_thinking(value: Any, thinking: bool) -> None:
    assert request_of({"messages": [], "thinking": value}).thinking is thinking


@pytest.mark.parametrize("body", [None, 5, "text", {}, {"role": "user"}])
def test_what_is_no_conversation(body: Any) -> None:
    with pytest.raises(InputError):
        request_of(body)


class TestOverrides:
    REQUEST = dsv4.Request([user()], thinking=False, effort="max")

    def test_none_leaves_the_request_alone(self) -> None:
        assert RequestOverrides().on(self.REQUEST) is self.REQUEST

    def test_they_go_before_what_the_request_says(self) -> None:
        changed = RequestOverrides(thinking=True, effort="high", drop_thinking=False).on(
            self.REQUEST
        )
        expected = dsv4.Request([user()], thinking=True, effort="high", drop_thinking=False)
        assert changed == expected

    def test_a_task_goes_on_the_last_message(self) -> None:
        changed = RequestOverrides(task="title").on(dsv4.Request([user(), assistant()]))
        assert changed.messages == [user(), assistant(task="title")]

    @pytest.mark.parametrize("messages", [[], [{"role": "system"}], [user(), user()], "text"])
    def test_a_task_that_would_be_lost(self, messages: Any) -> None:
        with pytest.raises(InputError, match="task: "):
            RequestOverrides(task="title").on(dsv4.Request(messages))

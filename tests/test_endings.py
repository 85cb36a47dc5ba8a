"""Prompts that end elsewhere than the format ends them."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import BOS, assistant, calling, developer, reminder, result, system, user
from dsv4.encoding.endings import maybe_open_reasoning, without_final_header


def unasked(*messages: Any, **options: Any) -> str:
    return str(without_final_header(dsv4.encode(messages, **options)))


@pytest.mark.parametrize("thinking", [True, False])
def test_no_header_after_the_last_turn(thinking: bool) -> None:
    assert unasked(user("Hi"), thinking=thinking) == f"{BOS}<｜User｜>Hi"
    assert unasked(developer("Hi"), thinking=thinking) == f"{BOS}<｜User｜>Hi"
    assert unasked(result("1"), user("Hi"), thinking=thinking).endswith("\n\nHi")


def test_where_no_answer_is_asked_for_nothing_is_missing() -> None:
    for messages in ([system()], [user(), assistant()], [user(), reminder()]):
        assert unasked(*messages) == str(dsv4.encode(messages))


def test_a_task_stays() -> None:
    for task in ("action", "query"):
        messages = [user("Hi", task=task)]
        assert unasked(*messages) == str(dsv4.encode(messages))


def test_the_pieces_are_those_before_the_header() -> None:
    prompt = dsv4.encode([system(), user()], tools=[{"name": "f"}], effort="max")
    assert without_final_header(prompt).pieces == prompt.pieces[:-2]


def open_reasoning(*messages: Any, **options: Any) -> str | None:
    prompt = maybe_open_reasoning(dsv4.encode(messages, **options))
    return None if prompt is None else str(prompt)


def test_reasoning_stays_open() -> None:
    thought = assistant("", reasoning_content="hm")
    assert open_reasoning(user("Hi"), thought) == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>hm"
    again = open_reasoning(user("Hi"), thought, user("Hi"), thought, drop_thinking=False)
    assert again is not None
    assert again.endswith("<｜User｜>Hi<｜Assistant｜><think>hm")


def test_no_reasoning_to_open() -> None:
    thought = assistant("", reasoning_content="hm")
    assert open_reasoning(user(), thought, thinking=False) is None
    assert open_reasoning(user(), thought, user(), assistant(), thinking=False) is None
    assert open_reasoning(user(), thought, user()) is None
    assert open_reasoning(user(task="query"), calling()) is None
    assert open_reasoning(system()) is None

"""How prompts end, and prompts that end elsewhere than the format ends them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import dsv4
from builders import BOS, assistant, calling, developer, reminder, result, system, user
from dsv4 import Ending
from dsv4._encode.prompt import maybe_open_reasoning, without_final_header


@pytest.mark.parametrize(
    ("messages", "options", "ending"),
    [
        ([user()], {}, Ending("think", thinking=True)),
        ([user()], {"thinking": False}, Ending("answer")),
        ([developer()], {}, Ending("think", thinking=True)),
        ([user(task="query")], {}, Ending("task", task="query")),
        ([user(task="action")], {}, Ending("task", task="action")),
        ([user(task="read_url", extracted_url="u")], {}, Ending("task", task="read_url")),
        ([user(), assistant(task="title")], {}, Ending("task", task="title")),
        ([user(), assistant()], {}, Ending("nothing")),
        ([system()], {}, Ending("nothing")),
        ([system()], {"tools": [{"name": "f"}]}, Ending("nothing")),
        ([user(), reminder()], {}, Ending("nothing")),
        ([user(), assistant("Hel", prefix=True)], {"thinking": False}, Ending("continue", "Hel")),
        (
            [user(), assistant("Hel", reasoning="hm", wo_eos=True)],
            {},
            Ending("continue", "hm</think>Hel", thinking=True),
        ),
        ([assistant("", wo_eos=True)], {"thinking": False}, Ending("continue")),
        (
            [assistant("a"), assistant("b", wo_eos=True)],
            {"thinking": False},
            Ending("continue", "b"),
        ),
        ([user(), assistant("Hel", wo_eos=True), reminder()], {}, Ending("nothing")),
        ([user(), assistant(), system()], {"dialect": "v4.1"}, Ending("think", thinking=True)),
    ],
)
def test_how_a_prompt_ends(messages: Any, options: Any, ending: Ending) -> None:
    prompt = dsv4.encode(messages, **options)
    assert prompt.ending == ending
    assert prompt.text.endswith(ending.open)
    assert pickle.loads(pickle.dumps(prompt)).ending == ending


def test_a_call_in_an_open_turn_is_part_of_it() -> None:
    turn = calling({"function": {"name": "f", "arguments": '{"a": "x"}'}}, wo_eos=True)
    prompt = dsv4.encode([user(), turn], thinking=False)
    assert prompt.ending.open == prompt.text.split("</think>")[1]


def test_reasoning_that_stays_open_is_what_is_continued() -> None:
    opened = maybe_open_reasoning(dsv4.encode([user(), assistant("", reasoning="hm")]))
    assert opened is not None
    assert opened.ending == Ending("continue", "hm", thinking=True)


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

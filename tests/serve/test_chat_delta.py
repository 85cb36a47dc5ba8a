"""What a delta of a chat server says, whatever its fields are called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsv4.serve.backend import BackendError
from dsv4.serve.backends.chat_events import ChatEvents
from dsv4.serve.heal.chat_delta import LastMessage, call_pieces, spoken_texts, with_known_names
from dsv4.serve.heal.upstream_calls import UpstreamCalls
from dsv4.serve.upstreams.answer_reader import AnswerReader


def test_the_second_of_two_names_for_one_field_stays_what_it_is() -> None:
    """It replaced the first one, and nothing was said of that."""
    fields = with_known_names({"function_calls": ["f"], "tool_uses": ["g"]})
    assert fields == {"tool_calls": ["f"], "tool_uses": ["g"]}


@pytest.mark.parametrize(
    ("old", "count"),
    [
        ({"name": "f", "arguments": '{"a": 1}'}, 1),
        ({"name": "f", "arguments": {"a": 1}}, 1),
        ({"name": "f", "arguments": '{"a"'}, 1),
        ({"name": "f"}, 1),
        ({"name": "f", "arguments": '{"a": 2}'}, 2),
        ({"name": "g", "arguments": '{"a": 1}'}, 2),
    ],
)
def test_a_function_call_beside_calls_is_one_more_unless_it_says_the_same(
    old: dict[str, Any], count: int
) -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert len([*call_pieces({"tool_calls": [call], "function_call": old})]) == count


def test_a_part_that_has_its_text_under_two_names_says_it_once() -> None:
    assert [*spoken_texts({"content": [{"type": "text", "text": "a", "value": "a"}]})] == [
        (False, "a")
    ]


def test_a_function_may_be_the_text_of_an_empty_object() -> None:
    piece = {"index": 0, "function": "{}"}
    assert [*call_pieces({"tool_calls": [piece]})] == [{"index": 0, "function": {}}]


def test_what_is_beside_the_content_may_have_any_form() -> None:
    assert [*spoken_texts({"content": "Hi", "extra_content": ["x"]})] == [(False, "Hi")]


def test_arguments_are_taken_from_fields_that_are_called_so() -> None:
    """`target` has `arg` in it, and `input_schema` is the tool's."""
    calls = UpstreamCalls(["f"])
    function = {"name": "f", "arguments": "", "input_schema": {"type": "object"}}
    calls.add({"id": "c", "target": {"a": 7}, "function": function})
    assert [call.arguments for call in calls] == [""]


def test_choices_by_number_keep_their_numbers() -> None:
    choices = {n: {"delta": {"content": n}} for n in "01"}
    numbers = [getattr(c.delta, "number", None) for c in ChatEvents().read({"choices": choices})]
    assert numbers == [None, 1]


def test_the_choice_that_speaks_first_is_the_first_one() -> None:
    """Where choice 1 came before choice 0, their calls were taken for one choice's."""
    choices = [{"index": n, "delta": {"content": "a"}} for n in (1, 0, 2)]
    chunks = ChatEvents().read({"choices": choices})
    numbers = [getattr(chunk.delta, "number", None) for chunk in chunks]
    assert numbers == [None, 1, 2]


def test_a_message_that_ends_the_answer_repeats_what_comes_behind_it() -> None:
    """With its reason in it, its call was made once more under the id of the deltas."""
    message = {"role": "assistant", "content": "a", "finish_reason": "stop"}
    [chunk] = ChatEvents().read({"choices": [{"index": 0, "delta": {}, "message": message}]})
    assert isinstance(chunk.delta, LastMessage)


@pytest.mark.parametrize("place", ["delta", "event"])
def test_a_reason_is_found_where_it_stands_behind_text_too(place: str) -> None:
    events = ChatEvents()
    events.read({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]})
    delta, event = {"content": "b"}, {}
    (delta if place == "delta" else event)["finish_reason"] = "stop"
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    chunks = events.read({"choices": [choice], **event})
    assert (chunks[-1] if isinstance(chunks, list) else chunks).finish == "stop"


@pytest.mark.parametrize(
    "choice", [{"status": "failed"}, {"code": 500}, {"success": False}], ids=str
)
def test_a_choice_that_says_that_it_failed_did(choice: dict[str, Any]) -> None:
    event = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", **choice}]}
    with pytest.raises(BackendError, match="failed"):
        AnswerReader().feed(b"data: " + json.dumps(event).encode() + b"\n\n")


@pytest.mark.parametrize("text", [b"[" * 1500 + b"]" * 1500, b"[" * 5000])
def test_an_event_that_is_nested_too_deep_is_a_failure(text: bytes) -> None:
    with pytest.raises(BackendError, match=r"nested too deep|not JSON"):
        AnswerReader().feed(b"data: " + text + b"\n\n")

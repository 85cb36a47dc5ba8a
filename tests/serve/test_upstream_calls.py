"""Which pieces of calls belong together."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4._completion.message import assemble
from dsv4.api import chat
from dsv4.serve.backend import Chunk
from dsv4.serve.heal.chat_delta import LastMessage, OtherChoice
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.heal.upstream_calls import UpstreamCalls

Read = list[tuple[str, str]]


def read(pieces: list[Any]) -> Read:
    calls = UpstreamCalls(["bash", "read"])
    for piece in pieces:
        calls.add(piece)
    return [(call.name, call.arguments) for call in calls]


def headed(index: int, arguments: str) -> list[Any]:
    """A call whose id is the tool's name, with the name in a piece of its own."""
    return [
        {"index": index, "id": "bash", "type": "function"},
        {"index": index, "function": {"name": "bash", "arguments": arguments}},
    ]


@pytest.mark.parametrize("arguments", ["", "{}", '{"a": 1}'])
def test_calls_of_one_tool_under_its_name_are_told_apart_by_their_numbers(arguments: str) -> None:
    one, two = headed(0, arguments), headed(1, arguments)
    expected = [("bash", arguments)]
    assert read(one + two) == 2 * expected
    again = [{"index": 0, "id": "bash"}, {"index": 0, "function": {"name": "bash"}}]
    assert read([*one, *again]) == expected
    if arguments:
        assert read(one + one + two + two) == 2 * expected


def test_all_arguments_may_come_once_more_behind_a_name_that_is_in_every_piece() -> None:
    named = {"index": 0, "function": {"name": "bash"}}
    arguments = {"index": 0, "function": {"name": "bash", "arguments": '{"a": 1}'}}
    again = {"index": 0, "function": {"arguments": '{"a": 1}'}}
    expected = [("bash", '{"a": 1}')]
    assert read([{**named, "id": "x"}, named, arguments, named, again]) == expected


def test_a_late_id_is_that_of_its_number_though_another_call_has_it() -> None:
    pieces = [
        piece
        for index in (0, 1)
        for piece in (
            {"index": index, "function": {"name": "bash"}},
            {"index": index, "id": "bash", "function": {}},
            {"index": index, "function": {"arguments": f'{{"a": {index}}}'}},
        )
    ]
    assert read(pieces) == [("bash", '{"a": 0}'), ("bash", '{"a": 1}')]


@pytest.mark.parametrize("first", [None, "", "{}"])
@pytest.mark.parametrize("id", ["a", ""])
@pytest.mark.parametrize("arguments", ['{"a": 1}', "{", "\x00"])
def test_a_last_message_may_have_the_arguments_of_calls_that_came_without(
    arguments: str, id: str, first: str | None
) -> None:
    calls, message = UpstreamCalls(["bash", "read"]), UpstreamCalls(["bash", "read"])
    for number, name in enumerate(("bash", "read")):
        head = {"name": name, "arguments": first}
        calls.add({"index": number, "id": id and name, "function": head})
        function = {"name": name, "arguments": arguments}
        message.add({"index": number, "id": id and f"other {name}", "function": function})
    calls.take_in(message)
    expected = [(name, arguments) for name in ("bash", "read")]
    assert [(call.name, call.arguments) for call in calls] == expected
    assert not id or [call.id for call in calls] == ["bash", "read"]


@pytest.mark.parametrize("own", ["", '{"a": 1}'])
@pytest.mark.parametrize("twin", ["", '{"a": 1}'])
@pytest.mark.parametrize("suffix", ["", " other"])
def test_last_messages_of_two_equal_choices_bring_each_call_once(
    own: str, twin: str, suffix: str
) -> None:
    def delta(arguments: str, suffix: str = "") -> dict[str, Any]:
        calls = [
            {"index": n, "id": f"{n}{suffix}", "function": {"name": "bash", "arguments": each}}
            for n, each in enumerate(("{}", arguments))
        ]
        return {"content": "Hi", "tool_calls": calls}

    reader = HealingReader(chat.read({"messages": [{"role": "user", "content": "Hi"}]}))
    message = LastMessage(delta('{"a": 1}', suffix))
    for each in (delta(own), OtherChoice(1, delta(twin)), message, message):
        reader.feed(Chunk(delta=each))
    reader.feed(Chunk(finish="tool_calls"))
    reader.end()
    calls = assemble(reader.events).tool_calls
    assert [call.arguments for call in calls] == ["{}", '{"a": 1}']

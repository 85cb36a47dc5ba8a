"""Which pieces of calls belong together."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4._completion.message import assemble
from dsv4.api import chat
from dsv4.serve.backend import BackendError, Chunk
from dsv4.serve.heal.chat_delta import LastMessage, OtherChoice
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.heal.upstream_calls import UpstreamCalls

Read = list[tuple[str, str]]


def read(pieces: list[Any]) -> Read:
    calls = UpstreamCalls(["bash", "read", "read_file"])
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


def piece_of(index: int | None, id: str = "", **function: str) -> dict[str, Any]:
    numbered = {} if index is None else {"index": index}
    return {**numbered, **({"id": id} if id else {}), "function": function}


@pytest.mark.parametrize("rest", ["_file", "read_file"])
@pytest.mark.parametrize("id", ["", "x"])
def test_a_name_may_go_on_though_another_tool_is_called_like_its_beginning(
    rest: str, id: str
) -> None:
    """The tool of the shorter name ran, and `_file` beside it."""
    pieces = [piece_of(0, "x", name="read", arguments=""), piece_of(0, id, name=rest)]
    assert read([*pieces, piece_of(0, arguments="{}")]) == [("read_file", "{}")]


@pytest.mark.parametrize(
    "second", [piece_of(1, "y", name="read_file"), piece_of(0, "y", name="read_file")]
)
def test_another_number_or_id_begins_a_call_of_the_longer_name(second: dict[str, Any]) -> None:
    pieces = [piece_of(0, "x", name="read", arguments=""), second]
    assert [name for name, _ in read(pieces)] == ["read", "read_file"]


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize(("id", "again"), [("x", ""), ("", "x")])
def test_of_two_equal_calls_one_without_an_id_is_the_same_call(
    index: int | None, id: str, again: str
) -> None:
    pieces = [piece_of(index, id, name="bash"), piece_of(index, arguments='{"a":1}')]
    repeated = piece_of(index, again, name="bash", arguments='{"a": 1}')
    assert read([*pieces, repeated]) == [("bash", '{"a":1}')]


def test_equal_calls_without_ids_are_two() -> None:
    one = piece_of(0, name="bash", arguments='{"a": 1}')
    assert read([one, one]) == [("bash", '{"a": 1}')] * 2


def test_an_id_that_two_calls_have_does_not_tell_that_a_third_repeats_one() -> None:
    arguments = ['{"a": 1}', '{"a": 2}', '{"a": 1}']
    pieces = [piece_of(n, "x", name="bash", arguments=each) for n, each in enumerate(arguments)]
    assert read(pieces) == [("bash", each) for each in arguments]


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


def test_a_call_of_another_choice_that_lost_its_name_is_a_failure() -> None:
    """An empty call of the first choice was taken for the same call."""
    reader = HealingReader(chat.read({"messages": [{"role": "user", "content": "Hi"}]}))
    reader.feed(Chunk(delta={"content": "Hi", "tool_calls": [{}]}))
    whole = piece_of(0, "x", name="bash", arguments='{"a": 1}')
    for piece in (whole, piece_of(1, arguments="{}")):
        reader.feed(Chunk(delta=OtherChoice(1, {"tool_calls": [piece]})))
    reader.feed(Chunk(finish="tool_calls"))
    with pytest.raises(BackendError, match="cannot be read"):
        reader.end()

"""Which pieces of calls belong together."""

from __future__ import annotations

from typing import Any

import pytest

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

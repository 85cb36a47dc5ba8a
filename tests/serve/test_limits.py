"""The gate: so many at once, so many waiting, in order, and nothing lost when one goes away."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from dsv4.api import ApiError
from dsv4.serve.access.stream_gate import Busy, StreamGate


def test_no_more_than_the_streams_run_at_once() -> None:
    gate = StreamGate(2, 10)
    with ExitStack() as places:
        turns = [places.enter_context(gate.place()) for _ in range(10)]
        assert [turn.is_set() for turn in turns] == [True, True, *[False] * 8]
        assert (gate.running, gate.waiting) == (2, 8)
    assert (gate.running, gate.waiting) == (0, 0)


def test_first_come_first_served_and_no_more_than_the_queue() -> None:
    gate, places = StreamGate(1, 2), [ExitStack() for _ in range(3)]
    turns = [place.enter_context(gate.place()) for place in places]
    with pytest.raises(Busy), gate.place():
        pass
    for n, place in enumerate(places):
        assert [turn.is_set() for turn in turns] == [True] * (n + 1) + [False] * (2 - n)
        place.close()
    assert (gate.running, gate.waiting) == (0, 0)


@pytest.mark.parametrize("has_its_turn", [True, False])
def test_one_who_goes_away_takes_no_stream_along(has_its_turn: bool) -> None:
    gate, first, second = StreamGate(1, 5), ExitStack(), ExitStack()
    first.enter_context(gate.place())
    turn = second.enter_context(gate.place())
    for place in (first, second) if has_its_turn else (second, first):
        place.close()
    assert turn.is_set() == has_its_turn
    assert (gate.running, gate.waiting) == (0, 0)
    with gate.place() as later:
        assert later.is_set()


def test_each_change_is_told() -> None:
    told: list[tuple[int, int]] = []
    gate = StreamGate(1, 1, lambda running, waiting: told.append((running, waiting)))
    with gate.place(), gate.place():
        pass
    assert told == [(1, 0), (1, 1), (1, 0), (0, 0)]


def test_a_request_for_several_completions_takes_a_stream_for_each() -> None:
    gate, first, second, third = StreamGate(4, 5), ExitStack(), ExitStack(), ExitStack()
    assert first.enter_context(gate.place(3)).is_set()
    turn = second.enter_context(gate.place(2))
    later = third.enter_context(gate.place(1))
    assert (gate.running, turn.is_set(), later.is_set()) == (3, False, False)  # nobody overtakes
    first.close()
    assert (gate.running, turn.is_set(), later.is_set()) == (3, True, True)
    second.close()
    third.close()
    assert (gate.running, gate.waiting) == (0, 0)


def test_more_than_can_ever_run_at_once_is_refused() -> None:
    with (
        pytest.raises(ApiError, match="found 5 completions, expected at most 4"),
        StreamGate(4, 5).place(5),
    ):
        pass

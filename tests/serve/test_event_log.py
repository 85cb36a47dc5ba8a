"""The event log of a completion: the same message, in fewer pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import dsv4
from dsv4._completion.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallStart,
)
from dsv4.serve.choice_reader import EventLog, joined_events


def test_pieces_of_one_text_are_joined_and_nothing_else_is() -> None:
    events: list[Event] = [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        ContentDelta("c"),
        ToolCallStart(0, "f"),
        ArgumentsDelta(0, "{"),
        ArgumentsDelta(0, "}"),
        ArgumentsDelta(1, "{}"),
        ContentDelta("d"),
    ]
    assert joined_events(events) == [
        ReasoningDelta("ab"),
        ContentDelta("c"),
        ToolCallStart(0, "f"),
        ArgumentsDelta(0, "{}"),
        ArgumentsDelta(1, "{}"),
        ContentDelta("d"),
    ]


@given(st.lists(st.sampled_from(["word ", "</think>", "<", "\n"]), max_size=300), st.booleans())
def test_what_is_kept_makes_the_same_message(pieces: list[str], joins: bool) -> None:
    parser, kept, all_events = dsv4.StreamParser(), EventLog(joins), []
    for events in [*map(parser.feed, pieces), parser.finish()]:
        kept.add(events)
        all_events += events
    assert dsv4.assemble(kept.all()) == dsv4.assemble(all_events)
    if not joins:
        assert kept.all() == all_events


def test_a_long_completion_is_few_events() -> None:
    kept = EventLog()
    for _ in range(10_000):
        kept.add([ContentDelta("x")])
    assert len(kept.all()) < 10_000 / 20

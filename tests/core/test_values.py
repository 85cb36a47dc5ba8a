"""Values of the package are compared, hashed and copied by their fields."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

import dsv4

EVENTS = (
    *(dsv4.ReasoningDelta, dsv4.ContentDelta, dsv4.ToolCallStart, dsv4.ArgumentsDelta),
    *(dsv4.ToolCallEnd, dsv4.ToolCallAborted, dsv4.StopHit, dsv4.End),
)
VALUES = (dsv4.Diagnostic, dsv4.Dialect, dsv4.Message, dsv4.Request, dsv4.Sampled, dsv4.ToolCall)


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_is_frozen(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert kind.__hash__ is not None


@pytest.mark.parametrize("kind", EVENTS)
def test_what_may_change_has_no_hash(kind: Any) -> None:
    assert not kind.__dataclass_params__.frozen
    assert kind.__hash__ is None


def test_events_of_different_classes_are_never_equal() -> None:
    assert dsv4.ContentDelta("a") == dsv4.ContentDelta("a")
    assert dsv4.ContentDelta("a") != dsv4.ReasoningDelta("a")
    assert dsv4.ContentDelta("a") != dsv4.ContentDelta("b")


def test_what_is_frozen_has_the_hash_of_what_is_compared() -> None:
    one, other = (dsv4.ToolCall("f", "{}", 0, id) for id in ("call_1", "call_2"))
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, dsv4.ToolCall("g", "{}", 0)}) == 2


def test_a_dialect_shows_its_name_and_none_of_its_long_texts() -> None:
    assert repr(dsv4.DIALECTS["v4"]) == "<Dialect v4>"


def test_a_changed_dialect_is_another_one() -> None:
    v4 = dsv4.DIALECTS["v4"]
    assert dataclasses.replace(v4) == v4
    assert dataclasses.replace(v4, namespaces=True) != v4


@pytest.mark.parametrize(
    "value",
    [
        dsv4.ContentDelta("a"),
        dsv4.Diagnostic("missing_close", 0, 1, "a"),
        dsv4.Message("Hi", tool_calls=(dsv4.ToolCall("f", "{}", 0),)),
        dsv4.Request([{"role": "user", "content": "Hi"}], thinking=False),
        dsv4.Sampled({"role": "assistant"}, "Hi"),
        dsv4.DIALECTS["v4.1"],
    ],
)
def test_a_copy_is_equal(value: Any) -> None:
    for same in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert same == value

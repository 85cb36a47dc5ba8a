"""What is shown and compared by its fields: as `dataclass` has it, for every value of ours."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

import dsv4
from dsv4.values import FrozenRecord, Record


def kinds_below(base: type) -> list[Any]:
    return [kind for kind in base.__subclasses__() if dataclasses.is_dataclass(kind)]


@dataclasses.dataclass(repr=False, eq=False)
class Ours(Record):
    name: str
    size: int = 0
    id: str = dataclasses.field(default="", compare=False)
    held: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(repr=False, eq=False)
class Another(Ours):
    pass


@dataclasses.dataclass
class Written:
    """The same with methods that `dataclass` writes."""

    name: str
    size: int = 0
    id: str = dataclasses.field(default="", compare=False)
    held: str = dataclasses.field(default="", repr=False)


VALUES = [("a",), ("a", 1), ("a", 1, "x"), ("a", 1, "y"), ("a", 1, "x", "held"), ("b",)]


@pytest.mark.parametrize("given", VALUES)
def test_a_value_is_shown_as_a_dataclass_is(given: tuple[Any, ...]) -> None:
    assert repr(Ours(*given)) == repr(Written(*given)).replace("Written", "Ours")


@pytest.mark.parametrize("one", VALUES)
@pytest.mark.parametrize("other", VALUES)
def test_values_are_equal_where_dataclasses_are(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    assert (Ours(*one) == Ours(*other)) is (Written(*one) == Written(*other))


def test_a_value_equals_none_of_another_class() -> None:
    assert Ours("a") != Another("a")
    assert Ours("a") != ("a", 0, "", "")


def test_what_may_change_has_no_hash() -> None:
    for kind in kinds_below(Record):
        assert kind.__hash__ is None or issubclass(kind, FrozenRecord)
    with pytest.raises(TypeError, match="unhashable"):
        hash(dsv4.ContentDelta("a"))


def test_what_is_frozen_has_the_hash_of_what_is_compared() -> None:
    one, other = (dsv4.ToolCall("f", "{}", 0, id) for id in ("call_1", "call_2"))
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, dsv4.ToolCall("g", "{}", 0)}) == 2


@pytest.mark.parametrize("kind", kinds_below(FrozenRecord))
def test_every_value_is_frozen(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen


@pytest.mark.parametrize(
    "value",
    [
        dsv4.ContentDelta("a"),
        dsv4.Diagnostic("missing_close", 0, 1, "a"),
        dsv4.Message("Hi", tool_calls=(dsv4.ToolCall("f", "{}", 0),)),
        dsv4.Request([{"role": "user", "content": "Hi"}], thinking=False),
        dsv4.Sampled({"role": "assistant"}, "Hi"),
    ],
)
def test_a_copy_is_equal(value: Any) -> None:
    for same in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert same == value

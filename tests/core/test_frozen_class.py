"""Frozen values: they behave as those of `dataclasses`, whose functions take them too."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing

import pytest

import dsv4
from dsv4._format.dialects import ImageRule, Tags
from dsv4._format.endings import Ending
from dsv4._format.frozen_class import replace

RULE = ImageRule(379, 384 * 384, widest=8)
DIALECT = dsv4.DIALECTS["v4.1"]


def test_fields_are_taken_in_order_and_by_name() -> None:
    assert (RULE.budget, RULE.least_pixels, RULE.pairs_rows, RULE.widest) == (379, 147456, False, 8)
    assert ImageRule(budget=379, least_pixels=147456, widest=8) == RULE
    assert ImageRule(379, 147456) != RULE


@pytest.mark.parametrize(
    ("values", "named", "words"),
    [
        ((379,), {}, "missing: ['least_pixels']"),
        ((1, 2, False, None, 5), {}, "not expected: [5]"),
        ((1, 2), {"budget": 3}, "not expected: ['budget']"),
        ((1, 2), {"height": 3}, "not expected: ['height']"),
    ],
)
def test_wrong_fields_are_refused(
    values: tuple[int, ...], named: dict[str, int], words: str
) -> None:
    with pytest.raises(TypeError) as caught:
        ImageRule(*values, **named)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_nothing_can_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="budget"):
        RULE.budget = 1  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        del DIALECT.name  # pyright: ignore[reportAttributeAccessIssue]


def test_values_compare_hash_and_show_by_their_fields() -> None:
    same = ImageRule(379, 384 * 384, widest=8)
    assert {RULE: 1}[same] == 1
    assert RULE != (379, 147456, False, 8)
    assert repr(RULE) == "ImageRule(budget=379, least_pixels=147456, pairs_rows=False, widest=8)"
    assert repr(DIALECT) == "<Dialect v4.1>"


@pytest.mark.parametrize("value", [RULE, DIALECT, DIALECT.tags])
def test_values_are_copied_and_pickled(value: object) -> None:
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_the_functions_of_dataclasses_take_them() -> None:
    assert dataclasses.is_dataclass(RULE)
    names = [field.name for field in dataclasses.fields(Tags)]
    assert names[:4] == ["calls", "invoke", "parameter", "dsml"]
    assert dataclasses.asdict(RULE)["widest"] == 8
    own = dataclasses.replace(DIALECT, name="own", namespaces=False)
    assert (own.name, own.namespaces, own.tags) == ("own", False, DIALECT.tags)
    assert own != DIALECT
    assert replace(own, name="v4.1", namespaces=True) == DIALECT


def test_a_replaced_field_is_checked_as_a_given_one_is() -> None:
    with pytest.raises(dsv4.OptionError, match="efforts"):
        dataclasses.replace(DIALECT, efforts={"high": ""})


def test_a_dataclass_may_extend_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class NamedRule(ImageRule):
        name: str = ""

    named = NamedRule(1, 2, name="small")
    assert (named.budget, named.name, named.whole_rows(3)) == (1, "small", 3)


def test_what_is_written_with_tags_follows_a_replaced_name() -> None:
    assert DIALECT.tags.block_open == "\n\n<｜DSML｜ calls>\n"
    other = dataclasses.replace(DIALECT.tags, calls="other")
    assert other.block_open == "\n\n<｜DSML｜other>\n"


class TestNamedTuples:
    """`dsv4.Piece` and others, which are made without `typing.NamedTuple`."""

    ENDING = Ending("think", thinking=True)

    def test_they_are_tuples_with_names(self) -> None:
        assert self.ENDING == ("think", "", True, None)
        assert self.ENDING._replace(task="title").task == "title"
        assert repr(self.ENDING) == "Ending(kind='think', open='', thinking=True, task=None)"
        assert Ending._fields == ("kind", "open", "thinking", "task")
        assert Ending._field_defaults == {"open": "", "thinking": False, "task": None}

    def test_they_are_copied_and_pickled(self) -> None:
        assert copy.deepcopy(self.ENDING) == pickle.loads(pickle.dumps(self.ENDING)) == self.ENDING
        assert type(pickle.loads(pickle.dumps(self.ENDING))) is Ending

    def test_their_types_are_known(self) -> None:
        assert typing.get_type_hints(Ending)["thinking"] is bool
        assert Ending.__module__ == "dsv4._format.endings"
        assert Ending.__doc__
        assert Ending.__doc__.startswith("How a prompt ends.")

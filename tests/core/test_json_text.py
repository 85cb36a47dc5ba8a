"""JSON as the format writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dsv4 import OptionError
from dsv4._encode.tools import json_at, to_json
from strategies import json_values


@given(json_values)
def test_is_what_python_writes_without_escaping(value: Any) -> None:
    assert to_json(value) == json.dumps(value, ensure_ascii=False)


def test_separators_order_and_numbers() -> None:
    value = {"b": [1, 2.5], "a": {"城": None}, "n": float("nan")}
    assert to_json(value) == '{"b": [1, 2.5], "a": {"城": null}, "n": NaN}'


@pytest.mark.parametrize("value", [{1, 2}, b"x", object, {(1, 2): 3}])
def test_an_error_names_the_place(value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        json_at(value, ("tools", 0))
    assert caught.value.path == "tools[0]"
    assert f"{value!r} cannot be written as JSON: " in caught.value.problem


def test_a_circle_is_named_where_it_closes() -> None:
    circle: dict[str, Any] = {}
    circle["way"] = {"back": circle}
    with pytest.raises(OptionError) as caught:
        json_at([circle], ("tools",))
    assert caught.value.path == "tools[0].way.back"
    assert caught.value.problem.endswith("Circular reference detected")


def test_what_is_nested_too_deep_is_named_as_a_whole() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(OptionError) as caught:
        json_at(deep, ("tools", 0))
    assert str(caught.value) == (
        "tools[0]: a value of type list cannot be written as JSON: it is nested too deep"
    )

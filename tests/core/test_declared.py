"""Declared tools, as far as reading calls needs to know them."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4._parse.parser_options import DeclaredTools, has_json_type


def tools(**properties: Any) -> DeclaredTools:
    return DeclaredTools([{"name": "f", "parameters": {"properties": properties}}])


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"enum": ["a", 1]}, {"string", "integer"}),
        ({"anyOf": [{"type": "string"}, {"oneOf": [{"type": "array"}]}]}, {"string", "array"}),
        ({}, set()),
        (True, set()),
        ({"type": 5, "anyOf": {"type": "string"}}, set()),
    ],
)
def test_types(schema: Any, types: set[str]) -> None:
    assert tools(a=schema).types_of("f", "a") == types


@pytest.mark.parametrize("parameters", [None, [], {}, {"properties": []}, "x"])
def test_odd_schemas_declare_nothing(parameters: Any) -> None:
    assert DeclaredTools([{"name": "f", "parameters": parameters}]).keys("f") == {}


def test_a_caller_who_gives_no_tools() -> None:
    unknown = DeclaredTools(None)
    assert (unknown.given, unknown.none_declared, unknown.may_be_tool("f")) == (False, False, True)
    assert DeclaredTools([]).none_declared


def test_names() -> None:
    declared = tools(key={}, **{" b": {}, "b": {}})
    assert declared.declares("f")
    assert declared.declares('f" x')
    assert not declared.declares("g")
    assert declared.as_declared(" f\n") == "f"
    assert declared.as_declared(" g ") == " g "
    assert declared.as_declared(None) is None
    assert declared.key_as_declared("f", " key") == "key"
    assert declared.key_as_declared("f", " b") == " b"


def test_what_may_hold_all_arguments() -> None:
    assert tools(a={}).may_unwrap("f", "arguments")
    assert tools(a={}).may_unwrap("f", "input")
    assert not tools(a={}).may_unwrap("f", "args")
    assert not tools(input={}).may_unwrap("f", "input")
    assert not tools().may_unwrap("f", "input")
    assert not tools(a={}).may_unwrap("g", "input")


@pytest.mark.parametrize(
    ("value", "types", "expected"),
    [
        ("a", {"string"}, True),
        (1, {"number"}, True),
        (1.0, {"integer"}, True),
        (1.5, {"integer"}, False),
        (True, {"integer"}, False),
        (None, {"null"}, True),
        ([], {"array"}, True),
        ({}, {"array"}, False),
    ],
)
def test_fits(value: Any, types: set[str], expected: bool) -> None:
    assert has_json_type(value, frozenset(types)) is expected

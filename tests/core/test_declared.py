"""Declared tools, as far as reading calls needs to know them."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from dsv4._completion.declared import DeclaredTools

TEXT, NULL = {"type": "string"}, {"type": "null"}
PLACE, NODE = {"$ref": "#/$defs/Place"}, {"$ref": "#/$defs/Node"}


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


def test_references_are_followed_to_the_types_of_properties() -> None:
    parameters = {
        "properties": {"unit": {"$ref": "#/$defs/Unit"}, "place": {"anyOf": [PLACE, NULL]}},
        "$defs": {"Unit": {"enum": ["C", "F"]}, "Place": {"type": "object"}},
    }
    declared = DeclaredTools([{"name": "f", "parameters": parameters}])
    assert declared.types_of("f", "unit") == {"string"}
    assert declared.types_of("f", "place") == {"object", "null"}


def test_properties_may_be_declared_by_reference() -> None:
    parameters = {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"properties": {"id": {"type": "string"}, "next": NODE}}},
    }
    declared = DeclaredTools([{"name": "f", "parameters": parameters}])
    assert declared.keys("f") == {"id": {"string"}, "next": set()}


def test_a_declared_reference_decides_how_a_value_is_read() -> None:
    parameters = {"properties": {"zip": {"$ref": "#/$defs/Zip"}}, "$defs": {"Zip": TEXT}}
    tools = [{"name": "f", "parameters": parameters}]
    tags = dsv4.dialect_for("deepseek-v4").tags
    call = (
        f'{tags.block_open}{tags.invoke_open}f">\n{tags.parameter_open}zip">10115'
        f"{tags.parameter_close}\n{tags.invoke_close}{tags.block_close}"
    )
    [read] = dsv4.parse(call, thinking=False, tools=tools).tool_calls
    assert read.arguments == '{"zip": "10115"}'


def test_a_tool_of_anthropic_has_its_schema_under_another_name() -> None:
    declared = DeclaredTools([{"name": "f", "input_schema": {"properties": {"a": TEXT}}}])
    assert declared.types_of("f", "a") == {"string"}


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

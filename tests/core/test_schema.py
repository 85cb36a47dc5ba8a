"""Reading JSON Schemas: references, types, alternatives and properties."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest

from dsv4 import schema

DEFS = {
    "$defs": {
        "Text": {"type": "string"},
        "Tree": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Text"}]},
        "a/b": {"type": "array"},
        "a b": {"type": "boolean"},
        "~": {"type": "number"},
        "%": {"type": "integer"},
    },
    "list": ["zero", "one"],
}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.5, "number"),
        ("a", "string"),
        ([], "array"),
        ((), "array"),
        ({}, "object"),
        (OrderedDict(), "object"),
        (MappingProxyType({}), "object"),
        (b"a", None),
    ],
)
def test_the_type_of_a_value(value: Any, name: str | None) -> None:
    assert schema.json_type(value) == name


@pytest.mark.parametrize(
    ("value", "types", "expected"),
    [
        ("a", {"string"}, True),
        ("a", {"null", "string"}, True),
        (1, {"number"}, True),
        (1.0, {"integer"}, True),
        (1.5, {"integer"}, False),
        (float("inf"), {"integer"}, False),
        (True, {"integer"}, False),
        (True, {"number"}, False),
        (None, {"null"}, True),
        ([], {"array"}, True),
        ({}, {"array"}, False),
        (b"a", {"string"}, False),
        ("a", set(), False),
    ],
)
def test_whether_a_value_has_a_type(value: Any, types: set[str], expected: bool) -> None:
    assert schema.has_type(value, frozenset(types)) is expected


@pytest.mark.parametrize(
    ("given", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null", 5]}, {"string", "null"}),
        ({"enum": ["a", 1, b"no JSON"]}, {"string", "integer"}),
        ({"type": "string", "enum": [1]}, {"string"}),
        ({"anyOf": [{"type": "string"}, {"oneOf": [{"type": "array"}]}]}, {"string", "array"}),
        ({"allOf": [{"$ref": "#/$defs/Text"}]}, {"string"}),
        ({"$ref": "#/$defs/Text"}, {"string"}),
        ({"$ref": "#/$defs/Text", "type": "null"}, {"string", "null"}),
        ({"$ref": "#/$defs/Tree"}, {"string", "null"}),
        ({"$ref": "#/$defs/Nothing"}, set()),
        ({"$ref": 5}, set()),
        ({"type": 5, "anyOf": {"type": "string"}, "enum": "a"}, set()),
        ({}, set()),
        (True, set()),
        (None, set()),
    ],
)
def test_the_types_that_a_schema_allows(given: Any, types: set[str]) -> None:
    assert schema.possible_types(given, root=DEFS) == types


def test_a_schema_inside_itself_has_an_end() -> None:
    endless: dict[str, Any] = {"type": "string"}
    endless["allOf"] = [endless, endless]
    assert schema.possible_types(endless, endless) == {"string"}
    assert len(schema.conjunction(endless, endless)) == schema.MOST_PARTS


def test_the_work_for_one_type_is_bounded() -> None:
    """However many properties refer to a large schema, each costs the same."""
    seen = 0

    class Counted(list[Any]):
        def __iter__(self) -> Any:
            nonlocal seen
            for item in super().__iter__():
                seen += 1
                yield item

    members = [{"enum": Counted(["a"] * 5000)} for _ in range(50)]
    root = {"$defs": {"Large": {"anyOf": Counted(members)}}}
    assert schema.possible_types({"$ref": "#/$defs/Large"}, root) == {"string"}
    assert seen <= schema.MOST_PARTS


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("#", (DEFS, ())),
        ("#/$defs/Text", ({"type": "string"}, ("$defs", "Text"))),
        ("#/$defs/a~1b", ({"type": "array"}, ("$defs", "a/b"))),
        ("#/$defs/~0", ({"type": "number"}, ("$defs", "~"))),
        ("#/$defs/a%20b", ({"type": "boolean"}, ("$defs", "a b"))),
        ("#/list/1", ("one", ("list", 1))),
        ("#/list/2", None),
        ("#/list/" + "9" * 5000, None),
        ("#/list/one", None),
        ("#/$defs/Text/type/0", None),
        ("#/nowhere", None),
        ("#/" + "/".join("a" * 1000), None),
        ("#anchor", None),
        ("$defs/Text", None),
        ("https://example.com/schema#/$defs/Text", None),
        ("", None),
    ],
)
def test_where_a_pointer_leads(pointer: str, found: Any) -> None:
    assert schema.resolve(pointer, DEFS) == found


def test_all_that_a_value_must_fit() -> None:
    root = {
        "$ref": "#/$defs/Base",
        "allOf": [
            {"allOf": [{"title": "inner"}], "title": "outer"},
            True,
            {"$ref": "#/$defs/Base"},
        ],
        "$defs": {"Base": {"title": "base"}},
    }
    titles = [part.get("title") for part in schema.conjunction(root, root)]
    assert titles == [None, "base", "outer", "inner", None]


def test_what_is_no_schema_asks_for_nothing() -> None:
    assert schema.conjunction(True, DEFS) == []


@pytest.mark.parametrize("given", [True, None, [], {}, {"properties": [], "required": "name"}])
def test_odd_schemas_have_no_members(given: Any) -> None:
    assert schema.properties_of(given) == {}
    assert schema.required_of(given) == []


def test_members() -> None:
    given = {"properties": {"a": True}, "required": ["a", 5, "b"]}
    assert schema.properties_of(given) == {"a": True}
    assert schema.required_of(given) == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        ([1, {"a": None}], (1.0, {"a": None}), True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ([], {}, False),
    ],
)
def test_equal_values(one: Any, other: Any, equal: bool) -> None:
    same = schema.json_identity(one) == schema.json_identity(other)
    assert same is equal

"""What no grammar can be made for: an error that says where."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

import dsv4
from dsv4.grammar import for_request
from rows import each_row

PLACE = "tools[0].function.parameters"


def made(parameters: Any, name: str = "f", **options: Any) -> Any:
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}}]
    return for_request(dsv4.Request([{"role": "user", "content": "Hi"}], tools=tools), **options)


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@each_row(
    "parameters, path, problem",
    [
        ("x", "", "found 'x', expected a JSON schema of an object"),
        (an_object(a=5), ".properties.a", "found 5, expected a JSON schema"),
        (an_object(a={"type": "text"}), ".properties.a.type", "found 'text', expected one of null"),
        (an_object(a={"enum": []}), ".properties.a.enum", "found [], expected a list of values"),
        (an_object(a={"anyOf": []}), ".properties.a.anyOf", "found [], expected a list of schemas"),
        (an_object(a={"minimum": "1"}), ".properties.a.minimum", "found '1', expected a number"),
        (an_object(a={"maxLength": -1}), ".properties.a.maxLength", "found -1, expected a count"),
        (an_object(a={"maxItems": 2.5}), ".properties.a.maxItems", "found 2.5, expected a count"),
        (an_object(a={"maxItems": -2.0}), ".properties.a.maxItems", "found -2.0, expected a count"),
        (an_object(a={"minItems": inf}), ".properties.a.minItems", "found inf, expected a count"),
        (an_object(a={"minItems": True}), ".properties.a.minItems", "found True, expected a count"),
        (an_object(a={"items": 3}), ".properties.a.items", "found 3, expected a JSON schema"),
        ({"type": "object", "properties": []}, ".properties", "found [], expected an object of"),
        ({"type": "object", "required": "a"}, ".required", "found 'a', expected a list of names"),
        (an_object(a={"$ref": "#/x"}), ".properties.a.$ref", "found '#/x', which is not there"),
        (an_object(a={"$ref": "x.json"}), ".properties.a.$ref", "expected a reference into the"),
        (an_object(**{'a"b': {}}), '.properties.a"b', "a name without quotes and line ends"),
        ({**an_object(a=False), "required": ["a"]}, "", "found a schema that no arguments fit"),
        ({"type": "string"}, "", "found a schema that no arguments fit"),
        (an_object(**{f"p{n}": {} for n in range(500)}), "", "found 500 members, expected at most"),
    ],
)
def test_a_schema(parameters: Any, path: str, problem: str) -> None:
    with pytest.raises(dsv4.Error) as raised:
        made(parameters)
    assert str(raised.value).startswith(f"{PLACE}{path}: ")
    assert problem in str(raised.value)


@each_row(
    "schema",
    [
        ({"type": "array", "minItems": 1, "maxItems": 2},),
        ({"type": "array", "prefixItems": [{}], "maxItems": 3},),
        ({"type": "array", "maxItems": 2000},),
        ({"type": "string", "minLength": 1, "maxLength": 8},),
        ({"type": "object", "minProperties": 0, "maxProperties": 2},),
        ({"type": "integer", "minimum": 1, "maximum": 20},),
    ],
)
def test_an_integer_that_is_written_as_a_float(schema: dict[str, Any]) -> None:
    """As some libraries write all numbers: `2.0` is the integer 2."""

    def as_float(value: Any) -> Any:
        return float(value) if isinstance(value, int) else value

    same = made(an_object(a={name: as_float(value) for name, value in schema.items()}))
    assert same.text == made(an_object(a=schema)).text


def test_a_name_that_no_tag_can_hold() -> None:
    for name in ('a"b', "a\nb"):
        with pytest.raises(dsv4.Error, match=r"tools\[0\].function.name: found"):
            made({}, name=name)


@pytest.mark.parametrize("name", ["input_schema", "paramters"])
def test_a_schema_under_another_name(name: str) -> None:
    tool = {"name": "f", name: {"type": "object", "properties": {"a": {}}, "required": ["a"]}}
    for tools, place in (
        ([tool], f"tools[0].{name}"),
        ([{"function": tool}], f"tools[0].function.{name}"),
    ):
        request = dsv4.Request([{"role": "user", "content": "Hi"}], tools=tools)
        with pytest.raises(dsv4.Error, match="expected it under 'parameters'") as caught:
            for_request(request)
        assert str(caught.value).startswith(f"{place}: found a schema under '{name}'")


def test_a_value_that_must_hold_itself() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}},
        "required": ["next"],
    }
    parameters = {**an_object(a={"$ref": "#/$defs/node"}), "$defs": {"node": node}}
    assert made(parameters)  # without the parameter
    with pytest.raises(dsv4.Error, match="no arguments fit"):
        made({**parameters, "required": ["a"]})


def test_references_in_a_circle() -> None:
    defs = {"one": {"$ref": "#/$defs/two"}, "two": {"$ref": "#/$defs/one"}}
    with pytest.raises(dsv4.Error, match="refers to itself"):
        made({**an_object(a={"$ref": "#/$defs/one"}), "$defs": defs})


@pytest.mark.parametrize(
    ("option", "value"),
    [("form", "ebnf"), ("reasoning", True), ("order", "alphabetical"), ("markers", "ids")],
)
def test_an_option(option: str, value: Any) -> None:
    with pytest.raises(dsv4.Error, match=f"{option}: found .*, expected one of"):
        made({}, **{option: value})


@pytest.mark.parametrize("choice", ["other", 5, {"type": "function"}])
def test_a_tool_choice(choice: Any) -> None:
    request = dsv4.Request([{"role": "user", "content": "Hi"}], tools=[{"name": "f"}])
    with pytest.raises(dsv4.Error, match=r"tool_choice.*: found"):
        for_request(dsv4.Request(request.messages, tools=request.tools, tool_choice=choice))


def test_required_without_tools() -> None:
    request = dsv4.Request([{"role": "user", "content": "Hi"}], tool_choice="required")
    with pytest.raises(dsv4.Error, match="tool_choice: found 'required', expected it with tools"):
        for_request(request)


@pytest.mark.parametrize("option", ["preamble", "markup_in_values", "parallel", "exact"])
def test_a_flag(option: str) -> None:
    with pytest.raises(dsv4.OptionError, match=f"{option}: found 'no', expected True or False"):
        made({}, **{option: "no"})


@pytest.mark.parametrize("request_", [None, [{"role": "user", "content": "Hi"}]])
def test_what_is_no_request(request_: Any) -> None:
    with pytest.raises(dsv4.OptionError, match=r"request: found .*, expected a Request"):
        for_request(request_)


def test_a_bound_that_no_float_can_hold() -> None:
    found = made(an_object(n={"type": "integer", "maximum": -(10**400)}))
    assert [relaxed.keyword for relaxed in found.relaxed] == ["maximum"]


# Relaxing.


@each_row(
    "schema, keyword",
    [
        ({"type": "string", "format": "date"}, "format"),
        ({"type": "string", "maxLength": 5}, "maxLength"),
        ({"type": "string", "minLength": 2}, "minLength"),
        ({"type": "string", "pattern": r"(?=a)"}, "pattern"),
        ({"type": "string", "pattern": r"^(a)\1$"}, "pattern"),
        ({"type": "string", "pattern": "^a{100}$"}, "pattern"),
        ({"type": "string", "pattern": "^.{1,64}$"}, "pattern"),
        ({"type": "string", "pattern": "^" + ".?" * 100 + "$"}, "pattern"),
        ({"enum": [f"value {n}" for n in range(5000)]}, "enum"),
        ({"const": "x" * 100_000}, "const"),
        ({"enum": [1, 2, 3], "minimum": 2}, "enum"),
        ({"const": {"a": 1}, "properties": {"a": {"type": "string"}}}, "const"),
        ({"type": "number", "minimum": 0.5}, "minimum"),
        ({"type": "integer", "multipleOf": 3}, "multipleOf"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "maxItems": 2000}, "maxItems"),
        ({"type": "object", "patternProperties": {"^a": {}}}, "patternProperties"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "oneOf"),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, "allOf"),
        ({"type": "string", "not": {"const": "a"}}, "not"),
    ],
)
def test_what_is_not_enforced_is_named(schema: Any, keyword: str) -> None:
    (relaxation,) = made(an_object(a=schema)).relaxed
    assert relaxation.path == f"{PLACE}.properties.a.{keyword}"
    assert relaxation.keyword == keyword
    assert relaxation.reason
    with pytest.raises(dsv4.Error, match="cannot be enforced"):
        made(an_object(a=schema), exact=True)


@each_row(
    "schema",
    [
        {"type": "string", "minLength": 1},
        {"type": "integer", "format": "date", "maxLength": 5},  # not about integers
        {"type": "integer", "minimum": -5, "exclusiveMaximum": 10**20},
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^[\w.-]+@\w+\.[a-z]{2,6}$"},
        {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        {"type": "array", "maxItems": 1000, "uniqueItems": False},
        {"enum": ["a", "b"], "format": "date"},
    ],
)
def test_what_is_enforced_is_not(schema: Any) -> None:
    assert made(an_object(a=schema), exact=True).relaxed == ()


def test_undeclared_parameters_may_come_twice() -> None:
    (relaxation,) = made({**an_object(), "additionalProperties": True}).relaxed
    assert relaxation.keyword == "additionalProperties"


def test_references_too_deep() -> None:
    defs = {f"d{n}": an_object(next={"$ref": f"#/$defs/d{n + 1}"}) for n in range(500)}
    defs["d500"] = {"type": "integer"}
    with pytest.raises(dsv4.Error, match="refer to each other too deeply"):
        made({**an_object(a={"$ref": "#/$defs/d0"}), "$defs": defs})


def test_names_that_are_no_text() -> None:
    with pytest.raises(dsv4.Error, match=r"properties: found the name 1, expected text"):
        made({"type": "object", "properties": {1: {}}})


# What could grow without end.


LEAF = {"type": "string"}


@pytest.mark.parametrize(
    "defs",
    [
        {  # a schema that holds together with itself
            "d0": {
                "allOf": [an_object(x={"$ref": "#/$defs/d0"}), an_object(x={"$ref": "#/$defs/d0"})]
            }
        },
        {"d0": an_object(x={"$ref": "#/$defs/d0", "type": "object"})},
        {"d0": {"allOf": [{"$ref": "#/$defs/d1"}] * 2}, "d1": an_object(x={"$ref": "#/$defs/d0"})},
        {
            **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)},
            "d40": LEAF,
        },
        {
            **{
                f"d{n}": an_object(
                    x={"$ref": f"#/$defs/d{n + 1}", "title": "x"},
                    y={"$ref": f"#/$defs/d{n + 1}", "type": "object"},
                )
                for n in range(40)
            },
            "d40": an_object(),
        },
    ],
)
@each_row("form", ["xgrammar", "gbnf", "lark"])
def test_references_that_double_are_few_rules(defs: Any, form: Any) -> None:
    grammar = made({**an_object(a={"$ref": "#/$defs/d0"}), "$defs": defs}, form=form)
    assert len(grammar.text) < 40_000


def test_too_many_alternatives() -> None:
    for word in ("anyOf", "oneOf"):
        schema = {word: [{"type": "integer", "minimum": n} for n in range(10_000)]}
        with pytest.raises(dsv4.Error, match=f"a.{word}: found 10000 alternatives, expected at"):
            made(an_object(a=schema))


def test_all_patterns_together_are_bounded() -> None:
    patterns = {f"p{n}": {"type": "string", "pattern": rf"^{n}\w{{50}}$"} for n in range(100)}
    relaxed = made(an_object(**patterns)).relaxed
    assert 50 < len(relaxed) < 90
    assert all("too many patterns" in relaxation.reason for relaxation in relaxed)


def test_items_one_by_one() -> None:
    schema = {"type": "array", "prefixItems": [{"type": "integer"}] * 900}
    assert made(an_object(a=schema), exact=True)

"""The validator of schemas: bounded work, whatever a client declares."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4._fit.schema_validator import schema_error, validator_of

pytest.importorskip("jsonschema_rs")


def ladder(keyword: str, rungs: int) -> dict[str, Any]:
    """A small schema of 2 to the power of `rungs` branches."""
    steps = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(rungs)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{rungs}": {"type": "object"}}}


def tree(keyword: str) -> dict[str, Any]:
    """A schema that refers to itself twice for each member."""
    node = {"type": "object", "properties": {"a": {keyword: [{"$ref": "#/$defs/n"}] * 2}}}
    return {"$ref": "#/$defs/n", "$defs": {"n": node}}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_branches_that_nobody_has_time_for(keyword: str) -> None:
    deep: Any = "s"
    for _ in range(40):
        deep = {"a": deep}
    for schema, value in ((ladder(keyword, 40), {}), (tree(keyword), deep)):
        validator = validator_of(schema)
        assert validator is not None
        assert validator.problems(value) is None


@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_few_branches(keyword: str) -> None:
    for schema in (ladder(keyword, 5), tree(keyword)):
        validator = validator_of(schema)
        assert validator is not None
        assert validator.problems({"a": {"a": {}}}) == []
        assert validator.problems([])


def test_patterns_do_not_backtrack() -> None:
    validator = validator_of({"properties": {"a": {"pattern": "^(a+)+$"}}})
    assert validator is not None
    [problem] = validator.problems({"a": "a" * 5_000 + "b"}) or ()
    assert problem.path == ("a",)
    assert problem.keyword == "pattern"
    assert len(problem.text) <= 160


def test_schemas_are_compiled_once() -> None:
    schema = {"type": "object", "properties": {"once": {"type": "integer"}}}
    assert validator_of(schema) is validator_of(dict(schema))


def test_a_schema_that_is_too_long_is_not_used() -> None:
    assert validator_of({"description": "x" * 2_000_000}) is None


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, None),
        ({"$ref": "#/nowhere"}, None),
        ({"$ref": "http://127.0.0.1:9/x"}, None),
        ({"properties": {"a": {"minimum": "5"}}}, 'properties.a.minimum: "5" is not of type'),
    ],
)
def test_what_is_wrong_with_a_schema(schema: dict[str, Any], expected: str | None) -> None:
    said = schema_error(schema)
    assert said == expected or (said is not None and said.startswith(str(expected)))

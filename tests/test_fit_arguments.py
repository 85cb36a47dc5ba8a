"""`dsv4.fit_arguments`: what it changes, what it leaves alone, and that it never changes a call
that fits."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

import dsv4
from parts import fewer
from schemas import random_call, random_schema, slipped

pytest.importorskip("jsonschema_rs")

CORPUS = Path(__file__).with_name("corpus") / "fitting.jsonl"
ROWS = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
COUNT: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "additionalProperties": False,
}


def fits(arguments: object, schema: dict[str, Any]) -> bool:
    """What another validator says, which has no part in the repairs."""
    return bool(jsonschema.Draft202012Validator(schema).is_valid(arguments))


class TestCorpus:
    def test_there_are_many_patterns(self) -> None:
        assert len({row["pattern"] for row in ROWS}) == len(ROWS) >= 33

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row["pattern"])
    def test_what_can_be_made_to_fit(self, row: dict[str, Any]) -> None:
        assert not fits(json.loads(row["given"]), row["schema"])
        result = dsv4.fit_arguments(row["given"], row["schema"])
        assert result.arguments == row["fitted"]
        assert result.repairs
        assert result.problem is None
        assert fits(json.loads(row["fitted"]), row["schema"])

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row["pattern"])
    def test_what_looks_alike_and_stays(self, row: dict[str, Any]) -> None:
        schema = row.get("kept_schema", row["schema"])
        result = dsv4.fit_arguments(row["kept"], schema)
        assert (result.arguments, result.repairs) == (row["kept"], ())
        assert (result.problem is None) == fits(json.loads(row["kept"]), schema)

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row["pattern"])
    def test_what_was_made_to_fit_is_not_touched_again(self, row: dict[str, Any]) -> None:
        assert dsv4.fit_arguments(row["fitted"], row["schema"]).arguments is row["fitted"]

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row["pattern"])
    def test_objects_become_what_their_texts_become(self, row: dict[str, Any]) -> None:
        given, schema = json.loads(row["given"]), copy.deepcopy(row["schema"])
        before = copy.deepcopy(given)
        result = dsv4.fit_arguments(given, schema)
        assert fits(result.arguments, schema)
        assert (given, schema) == (before, row["schema"])


def cases(schemas: int, calls: int) -> Iterator[tuple[Random, dict[str, Any], dict[str, Any]]]:
    """Schemas, each with calls that fit it."""
    for seed in range(schemas):
        schema = random_schema(Random(seed))
        for n in range(calls):
            random = Random(f"{seed}/{n}")
            call = random_call(random, schema)
            assert fits(call, schema)
            yield random, schema, call


class TestLaws:
    def test_of_20_000_valid_calls_for_300_schemas_none_is_changed(self) -> None:
        changed, total = [], 0
        for _, schema, call in cases(fewer(300, 10), 67):
            text = json.dumps(call, ensure_ascii=False)
            result = dsv4.fit_arguments(text, schema)
            total += 1
            if result != dsv4.FittedArguments(text):
                changed.append((text, schema, result))
        assert total >= fewer(20_000, 10)
        assert changed == []

    def test_a_call_with_slips_fits_or_stays_what_it_was(self) -> None:
        repaired = total = 0
        for random, schema, call in cases(fewer(300, 10), 20):
            given = json.dumps(slipped(random, call))
            result = dsv4.fit_arguments(given, schema)
            if fits(json.loads(given), schema):
                assert result == dsv4.FittedArguments(given)
                continue
            total += 1
            if result.repairs:
                assert result.problem is None
                assert fits(json.loads(result.arguments), schema), (given, schema, result)
                repaired += 1
            else:
                assert result.arguments is given
                assert result.problem
        assert repaired > total / 2 > 0


def anything(random: Random, depth: int = 0) -> Any:
    """A value that may be a schema, or not."""
    words = [None, True, 0, -1.5, 10**30, "", "#", "#/$defs/x", "string", "integer", "[", "null"]
    if depth > 3 or random.random() < 0.4:
        return random.choice(words)
    if random.random() < 0.3:
        return [anything(random, depth + 1) for _ in range(random.randint(0, 3))]
    keywords = ["type", "items", "anyOf", "not", "enum", "$ref", "pattern", "properties", "a"]
    return {random.choice(keywords): anything(random, depth + 1) for _ in range(2)}


class TestBadInput:
    @pytest.mark.parametrize("arguments", ["", "{", "[]", "5", '"{}"', "null", '{"n": NaN}'])
    def test_arguments_that_are_no_object(self, arguments: str) -> None:
        result = dsv4.fit_arguments(arguments, COUNT)
        assert result.arguments == arguments
        assert result.problem is not None
        assert result.problem.startswith("the arguments are no JSON")

    @pytest.mark.parametrize(
        ("arguments", "schema"), [(None, COUNT), (["n"], COUNT), ("{}", None), ("{}", True)]
    )
    def test_what_is_no_call_or_no_schema(self, arguments: Any, schema: Any) -> None:
        with pytest.raises(dsv4.OptionError, match="expected a JSON"):
            dsv4.fit_arguments(arguments, schema)

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "objekt"},
            {"properties": 5},
            {"$ref": "#/$defs/nowhere"},
            {"$ref": "http://127.0.0.1:9/schema"},
            {"$ref": "file:///etc/passwd"},
            {"$schema": "http://127.0.0.1:9/schema"},
            {"properties": {"n": {"pattern": "["}}},
            {"enum": float("nan")},
            {"properties": {"n": object()}},
        ],
    )
    def test_a_schema_that_cannot_be_used_changes_nothing(self, schema: dict[str, Any]) -> None:
        assert dsv4.fit_arguments('{"n": "5"}', schema) == dsv4.FittedArguments('{"n": "5"}')

    def test_the_validator_says_what_does_not_fit(self) -> None:
        assert dsv4.fit_arguments('{"n": "x"}', COUNT).problem == 'n: "x" is not of type "integer"'

    @pytest.mark.parametrize("depth", [50, 130, 300, 600, 900, 20_000])
    def test_deep_arguments(self, depth: int) -> None:
        text = '{"n": ' + "[" * depth + "]" * depth + "}"
        assert dsv4.fit_arguments(text, COUNT).arguments is text

    @pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), b"5"])
    def test_objects_that_are_no_json(self, value: Any) -> None:
        given = {"n": value}
        assert dsv4.fit_arguments(given, COUNT).arguments is given

    def test_whatever_a_client_declares_nothing_is_raised(self) -> None:
        random = Random(5)
        for _ in range(fewer(20_000, 20)):
            given = json.dumps({random.choice("abn"): anything(random) for _ in range(2)})
            dsv4.fit_arguments(given, {key: anything(random) for key in ("properties", "required")})
            dsv4.fit_arguments(given, {"properties": {"a": anything(random)}, "$defs": {}})

    def test_numbers_that_python_cannot_hold(self) -> None:
        digits = "9" * 10_000
        text = f'{{"n": {digits}, "t": {digits}, "x": 1e999}}'
        types = {"n": "integer", "t": "string", "x": "number"}
        schema = {"properties": {name: {"type": kind} for name, kind in types.items()}}
        expected = f'{{"n": {digits}, "t": "{digits}", "x": 1e999}}'
        assert dsv4.fit_arguments(text, schema).arguments == expected

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dsv4._fit.fit_arguments.has_validator", lambda: False)
        with pytest.raises(ImportError, match="jsonschema-rs: pip install"):
            dsv4.fit_arguments("{}", COUNT)

"""The one validator of JSON Schemas: it finds the parts of a value that do not fit a schema.

Schemas come from clients, so nothing outside of a schema is ever fetched, and no schema takes more
than a bounded time: with references, a small schema may have 2^30 branches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, NamedTuple

from dsv4.errors import Location
from dsv4.schema import Schema, resolve

# A schema of more characters is not used; a validator is cached only for shorter ones.
_LONGEST_SCHEMA, _LONGEST_KEPT = 1 << 20, 1 << 16
# The most pairs of a schema and a value that are examined, and their greatest depth.
_MOST_PAIRS, _DEEPEST = 5_000, 64


class SchemaProblem(NamedTuple):
    """A part of a value that does not fit: its place in the value, the validator's message, the
    keyword, the types that it names, and its place in the schema. For alternatives, `inside` has
    the problems of each."""

    path: Location
    text: str
    keyword: str = ""
    types: tuple[str, ...] = ()
    schema_path: Location = ()
    inside: tuple[SchemaProblem, ...] = ()


@lru_cache
def has_validator() -> bool:
    """Whether the library is installed."""
    return find_spec("jsonschema_rs") is not None


class SchemaValidator:
    """A compiled schema."""

    def __init__(self, schema: Schema, compiled: Any) -> None:
        self.schema = schema
        self._compiled = compiled
        text = json.dumps(schema)
        self._refers = '"$ref"' in text
        self._is_unbounded = '"$dynamicRef"' in text or '"$recursiveRef"' in text

    def problems(self, value: object) -> list[SchemaProblem] | None:
        """The problems of a value. None if they cannot be found, or not in time."""
        if self._is_unbounded or (self._refers and not self._is_small(value)):
            return None
        try:
            if self._compiled.is_valid(value):
                return []
            return [_problem(error) for error in self._compiled.iter_errors(value)]
        except (ValueError, RecursionError):  # a value that is not JSON, or nested too deep
            return None

    def _is_small(self, value: object) -> bool:
        pairs = _pairs(self.schema, value, self.schema, _DEEPEST)
        return sum(1 for _ in islice(pairs, _MOST_PAIRS)) < _MOST_PAIRS


def validator_of(schema: Schema) -> SchemaValidator | None:
    """The validator of a schema. None if the schema cannot be used, or the library is missing."""
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return None
    if not has_validator() or len(text) > _LONGEST_SCHEMA:
        return None
    return _kept_validator(text) if len(text) <= _LONGEST_KEPT else _usable_validator(text)


def _new_validator(text: str) -> SchemaValidator:
    library = import_module("jsonschema_rs")
    compiled = library.validator_for(text, offline=True, validate_formats=False)
    return SchemaValidator(json.loads(text), compiled)


def _usable_validator(text: str) -> SchemaValidator | None:
    try:
        return _new_validator(text)
    except (ValueError, RecursionError):
        return None


# Unusable schemas are cached as well, so that they are not tried again with every call.
_kept_validator = lru_cache(256)(_usable_validator)


def schema_problem(schema: object) -> SchemaProblem | None:
    """The problem with a schema. None if there is none, or it cannot be determined."""
    try:
        _new_validator(json.dumps(schema))
    except (TypeError, ValueError, RecursionError) as error:
        return _problem(error) if hasattr(error, "kind") else None
    return None


# The keywords of problems with the references of a schema.
OF_REFERENCES = ("$ref", "referencing")


def schema_error(schema: Schema) -> str | None:
    """The validator's message on why a schema is invalid, None if it is valid. The targets of its
    references are not checked."""
    problem = schema_problem(schema)
    if problem is None or problem.keyword in OF_REFERENCES:
        return None
    path = ".".join(map(str, problem.path))
    return f"{path}: {problem.text}" if path else problem.text


def _problem(error: Any) -> SchemaProblem:
    kind = error.kind
    branches = getattr(kind, "context", None) or ()
    return SchemaProblem(
        tuple(error.instance_path),
        _in_short(error.message),
        kind.name,
        tuple(getattr(kind, "types", ())),
        tuple(error.schema_path),
        tuple(_problem(each) for branch in branches for each in branch),
    )


def _in_short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 160 else line[:159] + "…"


# The work for a schema with references. The validator may examine all of these pairs.


# Keywords with schemas of the same value, and with schemas of its members.
_OF_ITSELF = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas")
_OF_MEMBERS = (
    *("additionalProperties", "patternProperties", "unevaluatedProperties", "items"),
    *("prefixItems", "additionalItems", "contains", "unevaluatedItems"),
)


def _pairs(schema: object, value: object, root: Schema, depth: int) -> Iterator[None]:
    """One item for each pair of a schema and a value that the validator may compare."""
    yield None
    if not isinstance(schema, dict) or not depth:
        return
    target = resolve(schema["$ref"], root) if isinstance(schema.get("$ref"), str) else None
    same = [] if target is None else [target.schema]
    for keyword in _OF_ITSELF:
        same += _schemas_in(schema.get(keyword))
    for each in same:
        yield from _pairs(each, value, root, depth - 1)
    named = schema.get("properties")
    others = [each for keyword in _OF_MEMBERS for each in _schemas_in(schema.get(keyword))]
    for name, member in _members(value):
        own = named.get(name) if isinstance(named, dict) else None
        for each in [*others, own] if own is not None else others:
            yield from _pairs(each, member, root, depth - 1)


def _schemas_in(given: object) -> list[object]:
    """The schemas under a keyword: a single one, those in a list, or those in an object by name."""
    if isinstance(given, dict):
        return [given, *(each for each in given.values() if isinstance(each, dict))]
    return list(given) if isinstance(given, list) else []


def _members(value: object) -> list[tuple[object, object]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []

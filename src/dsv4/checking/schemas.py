"""Arguments against a tool's schema: with `jsonschema` where it is installed, else as far as a few
lines go."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from dsv4.checking.words import quoted
from dsv4.errors import Location

# Enough to see what is wrong with one call.
MOST_PROBLEMS = 5


class Problem(NamedTuple):
    path: Location
    text: str


def problems(value: Any, schema: dict[str, Any]) -> list[Problem]:
    """What of a value its schema does not allow."""
    find = _by_jsonschema if _has_jsonschema() else _by_hand
    try:
        return find(value, schema)[:MOST_PROBLEMS]
    except Exception:  # a schema may be anything: references into nowhere, patterns that are none
        return []


def invalid_schema(schema: Any) -> str | None:
    """Why something is no JSON schema of an object."""
    if not isinstance(schema, dict):
        return f"found {quoted(schema)}, expected a JSON schema"
    if schema.get("type", "object") != "object":
        return f"found type {quoted(schema['type'])}, expected a schema of an object"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        return f"properties: found {quoted(properties)}, expected an object"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"required: found {quoted(required)}, expected a list of names"
    missing = [name for name in required if name not in properties]
    if missing and schema.get("additionalProperties") is False:
        return f"{quoted(missing[0])} is required, and not among the properties"
    return _invalid_by_jsonschema(schema) if _has_jsonschema() else None


@lru_cache
def _has_jsonschema() -> bool:
    return find_spec("jsonschema") is not None


# By the library.


def _validator(schema: dict[str, Any]) -> Any:
    draft = import_module("jsonschema").validators.validator_for(schema)
    # A registry of its own: the library would look for references on the network.
    return draft(schema, registry=import_module("referencing").Registry())


def _by_jsonschema(value: Any, schema: dict[str, Any]) -> list[Problem]:
    errors = _validator(schema).iter_errors(value)
    found = [Problem(tuple(error.absolute_path), _in_short(error.message)) for error in errors]
    return sorted(found, key=lambda problem: list(map(str, problem.path)))


def _in_short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 160 else line[:159] + "…"


def _invalid_by_jsonschema(schema: dict[str, Any]) -> str | None:
    try:
        _validator(schema).check_schema(schema)
    except import_module("jsonschema").SchemaError as error:
        path = ".".join(map(str, error.absolute_path))
        return _in_short(f"{path}: {error.message}" if path else error.message)
    except Exception:
        return None
    return None


# By hand: types, required and unknown names, choices, and what is inside.

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
}


def _by_hand(value: Any, schema: Any) -> list[Problem]:
    return list(_walk(value, schema, ()))


def _walk(value: Any, schema: Any, path: Location) -> Iterator[Problem]:
    if not isinstance(schema, dict):
        return
    kinds = schema.get("type")
    allowed = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if allowed and not any(_is_a(value, kind) for kind in allowed):
        yield Problem(path, f"{quoted(value)} is not of type {' or '.join(map(quoted, allowed))}")
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield Problem(path, f"{quoted(value)} is not one of {quoted(choices)}")
    if isinstance(value, dict):
        yield from _walk_object(value, schema, path)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _walk(item, schema.get("items"), (*path, n))


def _walk_object(
    value: dict[str, Any], schema: dict[str, Any], path: Location
) -> Iterator[Problem]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in value:
            yield Problem(path, f"{quoted(name)} is a required property")
    for name, item in value.items():
        if name in properties:
            yield from _walk(item, properties[name], (*path, name))
        elif schema.get("additionalProperties") is False:
            yield Problem(path, f"{quoted(name)} is not among the properties")


def _is_a(value: Any, kind: Any) -> bool:
    if not isinstance(kind, str) or kind not in _TYPES:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])

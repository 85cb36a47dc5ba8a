"""JSON Schemas as deepseek-recipe takes them: whether a value is one, and how the parameters of a
tool with `strict: true` are rebuilt.

Strict parameters keep only the keys of a table, in its order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from dsv4._fit.schema_validator import has_validator, schema_problem
from dsv4.errors import EncodeError, location_of
from dsv4.profiles.server_requests import (
    Object,
    list_at,
    object_at,
    one_of,
    server_refusal,
    text_at,
    unexpected,
)
from dsv4.schema import has_type

# Whether a value is a JSON Schema.


def check_schema(schema: object, path: str) -> None:
    """Raise an `EncodeError` that says where a value is not a JSON Schema. The validator is that of
    deepseek-recipe; if it is not installed, any value is accepted."""
    problem = schema_problem(schema) if has_validator() else None
    if problem is None:
        return
    raise EncodeError((*location_of(path), *problem.path), problem.text)


# The parameters of a tool with `strict: true`.


STRICT_FORMATS = ("email", "hostname", "ipv4", "ipv6", "uuid")
LISTED_TYPES = ("string", "number", "integer", "boolean", "null")
# Reads the value of a keyword that is kept, or raises.
FieldReader: TypeAlias = Callable[[object, str], Any]


def strict_parameters(parameters: object, path: str) -> Object:
    """The schema of a tool's parameters, rebuilt."""
    schema = {"type": "object"} if parameters is None else parameters
    rebuilt = _strict_schema(schema, path, top=True)
    if rebuilt.get("type") != "object":
        raise unexpected(parameters, "an object's schema", path)
    return rebuilt


def check_strict(schema: object, path: str) -> None:
    """Raise an `EncodeError` for a schema that cannot be rebuilt."""
    _strict_schema(schema, path, top=True)


def _strict_schema(schema: object, path: str, top: bool = False) -> Object:
    fields = schema if isinstance(schema, dict) else {}
    kind = fields.get("type")
    if isinstance(kind, list):
        types = [one_of(name, LISTED_TYPES, f"{path}.type[{n}]") for n, name in enumerate(kind)]
        return {"type": types, **_read_keys(fields, path, {"description": text_at})}
    if kind == "object":
        return _object(fields, path, top)
    if kind is not None:
        keys = _KEYS[one_of(kind, ("object", *_KEYS), f"{path}.type")]
        rebuilt = {"type": kind, **_read_keys(fields, path, keys)}
        if kind == "array" and "items" not in rebuilt:
            raise server_refusal(f"{path}.items", "found nothing, expected the schema of the items")
        return rebuilt
    if fields.get("anyOf") is not None:
        return _read_keys(fields, path, {"anyOf": _choices, "description": text_at})
    if fields.get("$ref") is not None:
        return _read_keys(fields, path, {"$ref": text_at})
    raise unexpected(schema, "a schema with type, anyOf or $ref", path)


def _read_keys(schema: Object, path: str, keys: dict[str, FieldReader]) -> Object:
    """The keys that are kept, each read by its own function; null counts as absent."""
    return {
        key: read(schema[key], f"{path}.{key}")
        for key, read in keys.items()
        if schema.get(key) is not None or (key == "items" and key in schema)
    }


def _object(schema: Object, path: str, top: bool) -> Object:
    properties = _properties(schema.get("properties"), f"{path}.properties")
    required = schema.get("required")
    if required is not None:
        _check_required(required, properties, f"{path}.required")
    additional = schema.get("additionalProperties")
    if additional is not None and additional is not False:
        raise unexpected(additional, "false", f"{path}.additionalProperties")
    if not properties and not top:
        raise server_refusal(f"{path}.properties", "found none, expected some properties")
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(properties),
        **_read_keys(schema, path, {"description": text_at, "$def": _properties}),
    }


def _check_required(required: object, properties: Object, path: str) -> None:
    names = _texts(required, path)
    if sorted(names) != sorted(properties):
        raise unexpected(names, "the name of every property, once", path)


def _properties(properties: object, path: str) -> Object:
    listed = {} if properties is None else object_at(properties, path)
    return {name: _strict_schema(schema, f"{path}.{name}") for name, schema in listed.items()}


def _choices(choices: object, path: str) -> list[Object]:
    return [
        _strict_schema(choice, f"{path}[{n}]") for n, choice in enumerate(list_at(choices, path))
    ]


def _format(value: object, path: str) -> str:
    return one_of(value, STRICT_FORMATS, path)


def _texts(value: object, path: str) -> list[str]:
    return [text_at(item, f"{path}[{n}]") for n, item in enumerate(list_at(value, path))]


def _integer(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise unexpected(value, "a whole number", path)
    return value


def _strict_number(value: Any, path: str) -> Any:
    if not has_type(value, ("number",)):
        raise unexpected(value, "a number", path)
    return value


_BOUNDS = ("const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_KEYS: dict[str, dict[str, FieldReader]] = {
    "string": {
        **{"description": text_at, "pattern": text_at},
        **{"format": _format, "enum": _texts},
    },
    "number": {"description": text_at, **dict.fromkeys((*_BOUNDS, "multipleOf"), _strict_number)},
    "integer": {"description": text_at, **dict.fromkeys((*_BOUNDS, "multipleOf"), _integer)},
    "boolean": {"description": text_at},
    "null": {"description": text_at},
    "array": {"items": _strict_schema, "description": text_at},
}

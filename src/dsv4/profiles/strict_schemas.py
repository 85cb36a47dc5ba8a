"""How deepseek-recipe rebuilds the parameters of a tool with `strict: true`.

Only the keys of the table below come through, in its order; everything else is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsv4.errors import short_repr
from dsv4.profiles.body import Object, list_at, object_at, one_of, text_at
from dsv4.profiles.places import refused

FORMATS = ("email", "hostname", "ipv4", "ipv6", "uuid")
LISTED_TYPES = ("string", "number", "integer", "boolean", "null")


def strict_parameters(parameters: Any, path: str) -> Object:
    """The schema of a tool's parameters, rebuilt."""
    given = {"type": "object"} if parameters is None else parameters
    rebuilt = _schema(given, path, top=True)
    if rebuilt.get("type") != "object":
        raise refused(path, f"found {short_repr(parameters)}, expected an object's schema")
    return rebuilt


def check_strict(schema: Any, path: str) -> None:
    """Raise an `EncodeError` for a schema that cannot be rebuilt."""
    _schema(schema, path, top=True)


def _schema(schema: Any, path: str, top: bool = False) -> Object:
    given = schema if isinstance(schema, dict) else {}
    kind = given.get("type")
    if isinstance(kind, list):
        types = [one_of(name, LISTED_TYPES, f"{path}.type[{n}]") for n, name in enumerate(kind)]
        return {"type": types, **_kept(given, path, {"description": text_at})}
    if kind == "object":
        return _object(given, path, top)
    if kind is not None:
        keys = _KEYS[one_of(kind, ("object", *_KEYS), f"{path}.type")]
        rebuilt = {"type": kind, **_kept(given, path, keys)}
        if kind == "array" and "items" not in rebuilt:
            raise refused(f"{path}.items", "found nothing, expected the schema of the items")
        return rebuilt
    if given.get("anyOf") is not None:
        return _kept(given, path, {"anyOf": _choices, "description": text_at})
    if given.get("$ref") is not None:
        return _kept(given, path, {"$ref": text_at})
    raise refused(path, f"found {short_repr(schema)}, expected a schema with type, anyOf or $ref")


def _kept(given: Object, path: str, keys: dict[str, Callable[[Any, str], Any]]) -> Object:
    """The keys that come through, each read by its own function; null counts as absent."""
    return {
        key: read(given[key], f"{path}.{key}")
        for key, read in keys.items()
        if given.get(key) is not None or (key == "items" and key in given)
    }


def _object(given: Object, path: str, top: bool) -> Object:
    properties = _properties(given.get("properties"), f"{path}.properties")
    required = given.get("required")
    if required is not None:
        _check_required(list_at(required, f"{path}.required"), properties, f"{path}.required")
    if given.get("additionalProperties") not in (None, False) or (
        given.get("additionalProperties").__class__ not in (bool, type(None))
    ):
        found = short_repr(given["additionalProperties"])
        raise refused(f"{path}.additionalProperties", f"found {found}, expected false")
    if not properties and not top:
        raise refused(f"{path}.properties", "found none, expected some properties")
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(properties),
        **_kept(given, path, {"description": text_at, "$def": _properties}),
    }


def _check_required(required: Any, properties: Object, path: str) -> None:
    names = [text_at(name, f"{path}[{n}]") for n, name in enumerate(required)]
    if sorted(names) != sorted(properties):
        raise refused(path, f"found {short_repr(names)}, expected the name of every property, once")


def _properties(properties: Any, path: str) -> Object:
    given = {} if properties is None else object_at(properties, path)
    return {name: _schema(schema, f"{path}.{name}") for name, schema in given.items()}


def _choices(choices: Any, path: str) -> list[Object]:
    return [_schema(choice, f"{path}[{n}]") for n, choice in enumerate(list_at(choices, path))]


def _format(value: Any, path: str) -> str:
    return one_of(value, FORMATS, path)


def _texts(value: Any, path: str) -> list[str]:
    return [text_at(item, f"{path}[{n}]") for n, item in enumerate(list_at(value, path))]


def _integer(value: Any, path: str) -> int:
    if value.__class__ is not int or not -(2**63) <= value < 2**63:
        raise refused(path, f"found {short_repr(value)}, expected a whole number")
    return int(value)


def _number(value: Any, path: str) -> int | float:
    if value.__class__ is not int and value.__class__ is not float:
        raise refused(path, f"found {short_repr(value)}, expected a number")
    return value


_BOUNDS = ("const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_KEYS: dict[str, dict[str, Callable[[Any, str], Any]]] = {
    "string": {
        **{"description": text_at, "pattern": text_at},
        **{"format": _format, "enum": _texts},
    },
    "number": {"description": text_at, **dict.fromkeys((*_BOUNDS, "multipleOf"), _number)},
    "integer": {"description": text_at, **dict.fromkeys((*_BOUNDS, "multipleOf"), _integer)},
    "boolean": {"description": text_at},
    "null": {"description": text_at},
    "array": {"items": _schema, "description": text_at},
}

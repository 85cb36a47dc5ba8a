"""JSON Schemas as deepseek-recipe takes them: whether a value is one, and how the parameters of a
tool with `strict: true` are rebuilt.

One row for each keyword of draft 2020-12 says what its value must be; earlier drafts, when a
schema names one, differ in two keywords. Of strict parameters only the keys of a table come
through, in its order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeGuard

from dsv4._encode.tools import to_json
from dsv4.errors import EncodeError, short_repr
from dsv4.profiles.server_requests import (
    Object,
    list_at,
    object_at,
    one_of,
    server_refusal,
    text_at,
    unexpected,
)
from dsv4.schema import TYPES, has_type, resolve

# Whether a value is a JSON Schema.


# A value and its path in the request.
Located: TypeAlias = tuple[object, str]
# Finds the schemas inside a keyword's value and their paths, or raises.
KeywordRule: TypeAlias = Callable[[object, str], Iterator[Located]]

_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_OLDER = re.compile(r"https?://json-schema\.org/(draft-0[467]/schema|draft/2019-09/schema)#?")


def check_schema(schema: object, path: str) -> None:
    """Raise an `EncodeError` that says where a value is no JSON Schema."""
    rules = _OLDER_RULES if _is_older(schema, f"{path}.$schema") else _RULES
    waiting: list[Located] = [(schema, path)]
    references: list[tuple[str, str]] = []
    while waiting:
        inner, at = waiting.pop()
        if isinstance(inner, bool):
            continue
        if not isinstance(inner, dict):
            raise _invalid(inner, 'of types "boolean", "object"', at)
        for keyword, value in inner.items():
            if keyword in rules:
                waiting += rules[keyword](value, f"{at}.{keyword}")
        if isinstance(inner.get("$ref"), str):
            references.append((inner["$ref"], f"{at}.$ref"))
    for reference, at in references:
        # Only pointers into the schema itself are looked at.
        if reference.startswith("#/") and resolve(reference, schema) is None:
            raise server_refusal(at, f"found {short_repr(reference)}, which points nowhere")


def _invalid(value: object, expected: str, path: str) -> EncodeError:
    """The refusal of a value, in the words of the library that checks schemas."""
    return server_refusal(path, f"{to_json(value)} is not {expected}")


def _is_older(schema: object, path: str) -> bool:
    """Whether a schema names a draft before 2020-12."""
    name = schema.get("$schema", _DRAFT_2020) if isinstance(schema, dict) else _DRAFT_2020
    if not isinstance(name, str):
        raise _invalid(name, 'of type "string"', path)
    if name.rstrip("#") == _DRAFT_2020:
        return False
    if not _OLDER.fullmatch(name):
        raise server_refusal(path, f"found {short_repr(name)}, which is no draft of JSON Schema")
    return True


def _is_number(value: object) -> TypeGuard[int | float]:
    return has_type(value, ("number",))


def _plain_rule(expected: str, holds: Callable[[object], bool]) -> KeywordRule:
    """A rule for a value that holds no schemas."""

    def rule(value: object, path: str) -> Iterator[Located]:
        if not holds(value):
            raise _invalid(value, expected, path)
        return iter(())

    return rule


def _one_schema(value: object, path: str) -> Iterator[Located]:
    return iter([(value, path)])


def _schemas(value: object, path: str) -> Iterator[Located]:
    if not isinstance(value, list) or not value:
        raise _invalid(value, 'of type "array"', path)
    return ((item, f"{path}[{n}]") for n, item in enumerate(value))


def _named_schemas(value: object, path: str) -> Iterator[Located]:
    if not isinstance(value, dict):
        raise _invalid(value, 'of type "object"', path)
    return ((item, f"{path}.{name}") for name, item in value.items())


def _patterned_schemas(value: object, path: str) -> Iterator[Located]:
    schemas = _named_schemas(value, path)
    if isinstance(value, dict) and not all(map(_is_pattern, value)):
        raise _invalid(value, 'a "regex"', path)
    return schemas


def _dependencies(value: object, path: str) -> Iterator[Located]:
    schemas = _named_schemas(value, path)
    return ((item, at) for item, at in schemas if not _is_names(item))


def _schema_or_schemas(value: object, path: str) -> Iterator[Located]:
    return _schemas(value, path) if isinstance(value, list) else _one_schema(value, path)


def _is_names(value: object) -> TypeGuard[list[str]]:
    return (
        isinstance(value, list)
        and all(isinstance(item, str) for item in value)
        and len(set(value)) == len(value)
    )


def _is_types(value: object) -> bool:
    names = [value] if isinstance(value, str) else value
    return _is_names(names) and bool(names) and all(name in TYPES for name in names)


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


_text = _plain_rule('of type "string"', lambda value: isinstance(value, str))
_flag = _plain_rule('of type "boolean"', lambda value: isinstance(value, bool))
_list = _plain_rule('of type "array"', lambda value: isinstance(value, list))
_number_rule = _plain_rule('of type "number"', _is_number)
_above_zero = _plain_rule("a number above 0", lambda value: _is_number(value) and value > 0)
_pattern = _plain_rule('a "regex"', _is_pattern)
_names = _plain_rule('of type "array"', _is_names)
_types = _plain_rule("valid under any of the schemas listed in the 'anyOf' keyword", _is_types)
_count = _plain_rule(
    'of type "integer"',
    lambda value: _is_number(value) and value >= 0 and has_type(value, ("integer",)),
)
_anchor = _plain_rule(
    'of type "string"',
    lambda value: isinstance(value, str) and bool(re.match(r"[A-Za-z_][-A-Za-z0-9._]*\Z", value)),
)
_named_names = _plain_rule(
    'of type "object"',
    lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
)

_RULES: dict[str, KeywordRule] = {
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), _named_schemas),
    "patternProperties": _patterned_schemas,
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _schemas),
    **dict.fromkeys(("not", "if", "then", "else", "items", "contains"), _one_schema),
    **dict.fromkeys(("additionalProperties", "propertyNames", "contentSchema"), _one_schema),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), _one_schema),
    "dependencies": _dependencies,
    "dependentRequired": _named_names,
    "type": _types,
    "required": _names,
    **dict.fromkeys(("enum", "examples"), _list),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number_rule),
    "multipleOf": _above_zero,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count),
    "pattern": _pattern,
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
    **dict.fromkeys(("title", "description", "$comment", "format", "$id", "$ref"), _text),
    **dict.fromkeys(("$dynamicRef", "contentEncoding", "contentMediaType"), _text),
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _anchor),
}
_OLDER_RULES: dict[str, KeywordRule] = {
    **_RULES,
    "items": _schema_or_schemas,
    **dict.fromkeys(
        ("exclusiveMinimum", "exclusiveMaximum"),
        _plain_rule('of type "number"', lambda value: isinstance(value, (int, float))),
    ),
}


# The parameters of a tool with `strict: true`.


STRICT_FORMATS = ("email", "hostname", "ipv4", "ipv6", "uuid")
LISTED_TYPES = ("string", "number", "integer", "boolean", "null")
# Reads the value of a keyword that comes through, or raises.
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
    """The keys that come through, each read by its own function; null counts as absent."""
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


def _strict_number(value: object, path: str) -> int | float:
    if not _is_number(value):
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

"""JSON Schemas as deepseek-recipe takes them: whether a value is one, and how the parameters of a
tool with `strict: true` are rebuilt.

One row for each keyword of draft 2020-12 says what its value must be; earlier drafts, when a
schema names one, differ in two keywords. Of strict parameters only the keys of a table come
through, in its order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dsv4.errors import short_repr
from dsv4.profiles.server_requests import (
    Object,
    list_at,
    object_at,
    one_of,
    server_refusal,
    text_at,
)

# Whether a value is a JSON Schema, as far as servers look.
#
# One row for each keyword of draft 2020-12 says what its value must be. Earlier drafts, when a
# schema names one, differ in two keywords.


# Finds the schemas inside a keyword's value and their paths, or raises.
KeywordRule: TypeAlias = Callable[[Any, str], Iterator[tuple[Any, str]]]

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_OLDER = re.compile(r"https?://json-schema\.org/(draft-0[467]/schema|draft/2019-09/schema)#?")


def check_schema(schema: Any, path: str) -> None:
    """Raise an `EncodeError` that says where a value is no JSON Schema."""
    older = isinstance(schema, dict) and _is_older(schema.get("$schema", _DRAFT_2020), path)
    rules = _OLDER_RULES if older else _RULES
    waiting = [(schema, path)]
    references = []
    while waiting:
        found, at = waiting.pop()
        if isinstance(found, bool):
            continue
        if not isinstance(found, dict):
            raise server_refusal(at, f"found {short_repr(found)}, expected a JSON Schema")
        for keyword, value in found.items():
            if keyword in rules:
                waiting += rules[keyword](value, f"{at}.{keyword}")
        if isinstance(found.get("$ref"), str):
            references.append((found["$ref"], at))
    for reference, at in references:
        _resolve(schema, reference, f"{at}.$ref")


def _is_older(name: Any, path: str) -> bool:
    path = f"{path}.$schema"
    if not isinstance(name, str):
        raise server_refusal(path, f"found {short_repr(name)}, expected the URI of a draft")
    if name.rstrip("#") == _DRAFT_2020:
        return False
    if not _OLDER.fullmatch(name):
        raise server_refusal(path, f"found {short_repr(name)}, which is no draft of JSON Schema")
    return True


def _resolve(schema: Any, reference: str, path: str) -> None:
    """Follow a pointer into the schema itself. Other references are not looked at."""
    if not reference.startswith("#/"):
        return
    here = schema
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and step in here:
            here = here[step]
        elif isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        else:
            raise server_refusal(path, f"found {short_repr(reference)}, which points nowhere")


def _expect(holds: bool, value: Any, expected: str, path: str) -> None:
    if not holds:
        raise server_refusal(path, f"found {short_repr(value)}, expected {expected}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain_rule(expected: str, holds: Callable[[Any], bool]) -> KeywordRule:
    """A rule for a value that holds no schemas."""

    def rule(value: Any, path: str) -> Iterator[tuple[Any, str]]:
        _expect(holds(value), value, expected, path)
        return iter(())

    return rule


def _one_schema(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    return iter([(value, path)])


def _schemas(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    _expect(isinstance(value, list) and bool(value), value, "a list of schemas", path)
    return ((item, f"{path}[{n}]") for n, item in enumerate(value))


def _named_schemas(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    _expect(isinstance(value, dict), value, "an object of schemas", path)
    return ((item, f"{path}.{name}") for name, item in value.items())


def _patterned_schemas(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    found = list(_named_schemas(value, path))
    _expect(all(map(_is_pattern, value)), value, "regular expressions as keys", path)
    return iter(found)


def _dependencies(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    _expect(isinstance(value, dict), value, "an object", path)
    found = ((item, f"{path}.{name}") for name, item in value.items())
    return ((item, at) for item, at in found if not _is_names(item))


def _schema_or_schemas(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    return _schemas(value, path) if isinstance(value, list) else _one_schema(value, path)


def _is_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(item, str) for item in value)
        and len(set(value)) == len(value)
    )


def _is_types(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _is_names(value) and bool(value) and all(item in TYPES for item in value)


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (TypeError, re.error, RecursionError, OverflowError):
        return False
    return isinstance(value, str)


_text = _plain_rule("text", lambda value: isinstance(value, str))
_flag = _plain_rule("true or false", lambda value: isinstance(value, bool))
_list = _plain_rule("a list", lambda value: isinstance(value, list))
_number_rule = _plain_rule("a number", _is_number)
_above_zero = _plain_rule("a number above 0", lambda value: _is_number(value) and value > 0)
_pattern = _plain_rule("a regular expression", _is_pattern)
_names = _plain_rule("a list of different texts", _is_names)
_types = _plain_rule(f"a type, or a list of types: {', '.join(TYPES)}", _is_types)
_count = _plain_rule(
    "a whole number, 0 or more",
    lambda value: _is_number(value) and value >= 0 and value == int(value),
)
_anchor = _plain_rule(
    "a name",
    lambda value: isinstance(value, str) and bool(re.match(r"[A-Za-z_][-A-Za-z0-9._]*\Z", value)),
)
_named_names = _plain_rule(
    "an object of lists of different texts",
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
        _plain_rule("a number, true or false", lambda value: isinstance(value, (int, float))),
    ),
}


# How deepseek-recipe rebuilds the parameters of a tool with `strict: true`.
#
# Only the keys of the table below come through, in its order; everything else is left out.


STRICT_FORMATS = ("email", "hostname", "ipv4", "ipv6", "uuid")
LISTED_TYPES = ("string", "number", "integer", "boolean", "null")


def strict_parameters(parameters: Any, path: str) -> Object:
    """The schema of a tool's parameters, rebuilt."""
    given = {"type": "object"} if parameters is None else parameters
    rebuilt = _strict_schema(given, path, top=True)
    if rebuilt.get("type") != "object":
        raise server_refusal(path, f"found {short_repr(parameters)}, expected an object's schema")
    return rebuilt


def check_strict(schema: Any, path: str) -> None:
    """Raise an `EncodeError` for a schema that cannot be rebuilt."""
    _strict_schema(schema, path, top=True)


def _strict_schema(schema: Any, path: str, top: bool = False) -> Object:
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
            raise server_refusal(f"{path}.items", "found nothing, expected the schema of the items")
        return rebuilt
    if given.get("anyOf") is not None:
        return _kept(given, path, {"anyOf": _choices, "description": text_at})
    if given.get("$ref") is not None:
        return _kept(given, path, {"$ref": text_at})
    raise server_refusal(
        path, f"found {short_repr(schema)}, expected a schema with type, anyOf or $ref"
    )


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
        raise server_refusal(f"{path}.additionalProperties", f"found {found}, expected false")
    if not properties and not top:
        raise server_refusal(f"{path}.properties", "found none, expected some properties")
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
        raise server_refusal(
            path, f"found {short_repr(names)}, expected the name of every property, once"
        )


def _properties(properties: Any, path: str) -> Object:
    given = {} if properties is None else object_at(properties, path)
    return {name: _strict_schema(schema, f"{path}.{name}") for name, schema in given.items()}


def _choices(choices: Any, path: str) -> list[Object]:
    return [
        _strict_schema(choice, f"{path}[{n}]") for n, choice in enumerate(list_at(choices, path))
    ]


def _format(value: Any, path: str) -> str:
    return one_of(value, STRICT_FORMATS, path)


def _texts(value: Any, path: str) -> list[str]:
    return [text_at(item, f"{path}[{n}]") for n, item in enumerate(list_at(value, path))]


def _integer(value: Any, path: str) -> int:
    if value.__class__ is not int or not -(2**63) <= value < 2**63:
        raise server_refusal(path, f"found {short_repr(value)}, expected a whole number")
    return int(value)


def _strict_number(value: Any, path: str) -> int | float:
    if value.__class__ is not int and value.__class__ is not float:
        raise server_refusal(path, f"found {short_repr(value)}, expected a number")
    return value


_BOUNDS = ("const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_KEYS: dict[str, dict[str, Callable[[Any, str], Any]]] = {
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

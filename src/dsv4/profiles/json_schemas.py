"""Whether a value is a JSON Schema, as far as servers look.

One row for each keyword of draft 2020-12 says what its value must be. Earlier drafts, when a schema
names one, differ in two keywords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dsv4.errors import short_repr
from dsv4.profiles.places import refused

# Finds the schemas inside a keyword's value and their paths, or raises.
Rule: TypeAlias = Callable[[Any, str], Iterator[tuple[Any, str]]]

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
            raise refused(at, f"found {short_repr(found)}, expected a JSON Schema")
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
        raise refused(path, f"found {short_repr(name)}, expected the URI of a draft")
    if name.rstrip("#") == _DRAFT_2020:
        return False
    if not _OLDER.fullmatch(name):
        raise refused(path, f"found {short_repr(name)}, which is no draft of JSON Schema")
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
            raise refused(path, f"found {short_repr(reference)}, which points nowhere")


def _expect(holds: bool, value: Any, expected: str, path: str) -> None:
    if not holds:
        raise refused(path, f"found {short_repr(value)}, expected {expected}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _a(expected: str, holds: Callable[[Any], bool]) -> Rule:
    """A rule for a value that holds no schemas."""

    def rule(value: Any, path: str) -> Iterator[tuple[Any, str]]:
        _expect(holds(value), value, expected, path)
        return iter(())

    return rule


def _schema(value: Any, path: str) -> Iterator[tuple[Any, str]]:
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
    return _schemas(value, path) if isinstance(value, list) else _schema(value, path)


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


_text = _a("text", lambda value: isinstance(value, str))
_flag = _a("true or false", lambda value: isinstance(value, bool))
_list = _a("a list", lambda value: isinstance(value, list))
_number = _a("a number", _is_number)
_above_zero = _a("a number above 0", lambda value: _is_number(value) and value > 0)
_pattern = _a("a regular expression", _is_pattern)
_names = _a("a list of different texts", _is_names)
_types = _a(f"a type, or a list of types: {', '.join(TYPES)}", _is_types)
_count = _a(
    "a whole number, 0 or more",
    lambda value: _is_number(value) and value >= 0 and value == int(value),
)
_anchor = _a(
    "a name",
    lambda value: isinstance(value, str) and bool(re.match(r"[A-Za-z_][-A-Za-z0-9._]*\Z", value)),
)
_named_names = _a(
    "an object of lists of different texts",
    lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
)

_RULES: dict[str, Rule] = {
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), _named_schemas),
    "patternProperties": _patterned_schemas,
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _schemas),
    **dict.fromkeys(("not", "if", "then", "else", "items", "contains"), _schema),
    **dict.fromkeys(("additionalProperties", "propertyNames", "contentSchema"), _schema),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), _schema),
    "dependencies": _dependencies,
    "dependentRequired": _named_names,
    "type": _types,
    "required": _names,
    **dict.fromkeys(("enum", "examples"), _list),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    "multipleOf": _above_zero,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count),
    "pattern": _pattern,
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
    **dict.fromkeys(("title", "description", "$comment", "format", "$id", "$ref"), _text),
    **dict.fromkeys(("$dynamicRef", "contentEncoding", "contentMediaType"), _text),
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _anchor),
}
_OLDER_RULES: dict[str, Rule] = {
    **_RULES,
    "items": _schema_or_schemas,
    **dict.fromkeys(
        ("exclusiveMinimum", "exclusiveMaximum"),
        _a("a number, true or false", lambda value: isinstance(value, (int, float))),
    ),
}

"""The JSON Schemas that llama.cpp turns into grammars: those that it cannot read it refuses.

It does so for the parameters of every tool that a model may call, and for the schema of an answer.
Found by comparing with a real server (`make test-llamacpp`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from dsv4.errors import short_repr
from dsv4.profiles.server_requests import Object, object_at, server_refusal, unexpected

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
ALTERNATIVES = ("oneOf", "anyOf")
LOCAL = "#/"


def check_schema(schema: object, path: str) -> None:
    """Refuse a schema that llama.cpp cannot read; `path` is where it stands in the request."""
    _SchemaCheck(schema).check(schema, path)


class _SchemaCheck:
    def __init__(self, root: object) -> None:
        self._root = root
        self._followed: set[str] = set()

    def check(self, value: object, path: str) -> None:
        """The first thing that a schema has decides what is looked at."""
        schema = object_at(value, path)
        if "$ref" in schema:
            self._reference(schema["$ref"], f"{path}.$ref")
            return
        for name in ALTERNATIVES:
            if name in schema:
                self._several(schema[name], f"{path}.{name}")
                return
        if isinstance(schema.get("type"), list):
            self._types(schema, path)
        elif "enum" in schema and "const" not in schema:
            _several_values(schema["enum"], f"{path}.enum")
        elif "const" not in schema:
            self._typed(schema, path)

    def _reference(self, reference: object, path: str) -> None:
        if not isinstance(reference, str) or not reference.startswith(LOCAL):
            raise unexpected(reference, f"a reference that begins with {LOCAL}", path)
        if reference in self._followed:
            return
        self._followed.add(reference)
        place = self._root
        for step in reference.removeprefix(LOCAL).split("/"):
            place = _child(place, step)
            if place is None:
                problem = f"found {short_repr(reference)}, which leads nowhere: no {step}"
                raise server_refusal(path, problem)
        self.check(place, path)

    def _several(self, schemas: object, path: str) -> None:
        for n, schema in enumerate(_several_values(schemas, path)):
            self.check(schema, f"{path}[{n}]")

    def _types(self, schema: Object, path: str) -> None:
        for name in _several_values(schema["type"], f"{path}.type"):
            self.check({**schema, "type": name}, path)

    def _typed(self, schema: Object, path: str) -> None:
        kind = schema.get("type")
        if kind is not None and kind not in TYPES:
            raise unexpected(kind, f"one of {', '.join(TYPES)}", f"{path}.type")
        if kind in (None, "object") and _describes_object(schema):
            self._object(schema, path)
        elif kind in (None, "object", "string") and "allOf" in schema:
            self._several(schema["allOf"], f"{path}.allOf")
        elif kind in (None, "array") and ("items" in schema or "prefixItems" in schema):
            self._array(schema, path)
        else:
            _check_fields(schema, _FIELDS.get(kind or "string", {}), path)

    def _object(self, schema: Object, path: str) -> None:
        if "properties" in schema:
            properties = object_at(schema["properties"], f"{path}.properties")
            for name, value in properties.items():
                self.check(value, f"{path}.properties.{name}")
        others = schema.get("additionalProperties", True)
        if not isinstance(others, bool):
            self.check(others, f"{path}.additionalProperties")

    def _array(self, schema: Object, path: str) -> None:
        name = "items" if "items" in schema else "prefixItems"
        items = schema[name]
        if isinstance(items, list):
            for n, item in enumerate(items):
                self.check(item, f"{path}.{name}[{n}]")
        else:
            self.check(items, f"{path}.{name}")
            _check_fields(schema, _FIELDS["array"], path)


def _describes_object(schema: Object) -> bool:
    return "properties" in schema or schema.get("additionalProperties", True) is not True


def _child(value: object, step: str) -> object:
    """What a step of a reference leads to. None: nothing."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


def _several_values(values: object, path: str) -> list[object]:
    if not isinstance(values, list) or not values:
        raise unexpected(values, "a list that is not empty", path)
    return values


# Fields whose values must be of a kind.


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_SIZE = (_is_size, "a whole number from 0")
_TEXT = (_is_text, "text")
_NUMBER = (_is_number, "a number")
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
FieldCheck: TypeAlias = tuple[Callable[[object], bool], str]
_FIELDS: Mapping[str, Mapping[str, FieldCheck]] = {
    "array": {"minItems": _SIZE, "maxItems": _SIZE},
    "string": {"pattern": _TEXT, "format": _TEXT, "minLength": _SIZE, "maxLength": _SIZE},
    "integer": dict.fromkeys(_BOUNDS, _NUMBER),
}


def _check_fields(schema: Object, checks: Mapping[str, FieldCheck], path: str) -> None:
    for name, (is_right, expected) in checks.items():
        if name in schema and not is_right(schema[name]):
            raise unexpected(schema[name], expected, f"{path}.{name}")

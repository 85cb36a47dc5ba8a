"""The smallest JSON value that fits a schema, as far as it can be found without a search."""

from __future__ import annotations

from typing import Any

_MAX_DEPTH = 32
# A value has no more parts, whatever its schema asks for: letters, items and members.
_MAX_PARTS = 10_000
_EMPTY = {"boolean": False, "null": None}


def smallest_value(schema: Any) -> Any:
    """A value for `schema`."""
    return _SmallestValues(schema).value(schema)


class _SmallestValues:
    """Values for the parts of one schema, `root`, in which references are looked up."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MAX_PARTS

    def value(self, schema: Any, depth: int = 0) -> Any:
        self._left -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._left < 0:
            return {}
        if "const" in schema:
            return schema["const"]
        for key in ("enum", "examples"):
            if isinstance(schema.get(key), list) and schema[key]:
                return schema[key][0]
        if "default" in schema:
            return schema["default"]
        if isinstance(schema.get("$ref"), str):
            return self.value(self._referred(schema["$ref"]), depth + 1)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and schema[key]:
                return self.value(schema[key][0], depth + 1)
        if isinstance(schema.get("allOf"), list) and schema["allOf"]:
            return self.value(self._merged(schema), depth + 1)
        return self._by_type(schema, depth)

    def _by_type(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = kind[0] if kind else None
        if kind is None:
            kind = "object" if "properties" in schema else "string"
        if kind == "object":
            properties = _properties(schema)
            names = [name for name in _required(schema) if isinstance(name, str)]
            return {name: self.value(properties.get(name, {}), depth + 1) for name in names}
        if kind == "array":
            items, count = schema.get("items", {}), self._taken(schema.get("minItems"))
            return [self.value(items, depth + 1) for _ in range(count)]
        if kind == "string":
            return "demo".ljust(self._taken(schema.get("minLength")), "o")
        if kind in ("integer", "number"):
            return _number(schema)
        return _EMPTY.get(kind) if isinstance(kind, str) else None

    def _taken(self, least: Any) -> int:
        """As many parts as a schema asks for, of those that are left."""
        taken = min(max(least, 0), max(self._left, 0)) if isinstance(least, int) else 0
        self._left -= taken
        return taken

    def _referred(self, reference: str) -> Any:
        found = self._root
        for name in reference.lstrip("#/").split("/") if reference.strip("#/") else ():
            name = name.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def _merged(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What `allOf` says, in one schema."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            if isinstance(part, dict) and isinstance(part.get("$ref"), str):
                part = self._referred(part["$ref"])
            if isinstance(part, dict):
                properties = {**_properties(part), **_properties(merged)}
                required = [*_required(merged), *_required(part)]
                merged |= {key: value for key, value in part.items() if key not in merged}
                merged |= {"properties": properties, "required": required}
        return merged


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: dict[str, Any]) -> list[Any]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def _number(schema: dict[str, Any]) -> Any:
    if isinstance(schema.get("minimum"), (int, float)):
        return schema["minimum"]
    if isinstance(schema.get("exclusiveMinimum"), (int, float)):
        return schema["exclusiveMinimum"] + 1
    least = schema.get("maximum")
    return min(1, least) if isinstance(least, (int, float)) else 1

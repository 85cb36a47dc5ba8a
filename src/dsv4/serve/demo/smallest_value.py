"""The smallest JSON value that fits a schema, as far as it can be found without a search."""

from __future__ import annotations

from collections.abc import Mapping

from dsv4.schema import Schema, conjunction, listed, own_types, properties_of, required_of

_MAX_DEPTH = 32
# A value has no more parts, whatever its schema asks for: letters, items and members.
_MAX_PARTS = 10_000
_EMPTY = {"boolean": False, "null": None}


def smallest_value(schema: object) -> object:
    """A value for `schema`."""
    return _SmallestValues(schema).value(schema)


class _SmallestValues:
    """Values for the parts of one schema, `root`, in which references are looked up."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._left = _MAX_PARTS

    def value(self, schema: object, depth: int = 0) -> object:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._left < 0:
            return {}
        if "const" in schema:
            return schema["const"]
        for keyword in ("enum", "examples"):
            if values := listed(schema, keyword):
                return values[0]
        if "default" in schema:
            return schema["default"]
        if "$ref" in schema or "allOf" in schema:
            return self.value(self._merged(schema), depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if alternatives := listed(schema, keyword):
                return self.value(alternatives[0], depth + 1)
        return self._by_type(schema, depth)

    def _by_type(self, schema: Schema, depth: int) -> object:
        unnamed = "object" if "properties" in schema else "string"
        kind = next(iter(own_types(schema)), unnamed)
        if kind == "object":
            properties = properties_of(schema)
            names = required_of(schema)
            return {name: self.value(properties.get(name, {}), depth + 1) for name in names}
        if kind == "array":
            items, count = schema.get("items", {}), self._taken(schema.get("minItems"))
            return [self.value(items, depth + 1) for _ in range(count)]
        if kind == "string":
            return "demo".ljust(self._taken(schema.get("minLength")), "o")
        return _number(schema) if kind in ("integer", "number") else _EMPTY.get(kind)

    def _taken(self, least: object) -> int:
        """As many parts as a schema asks for, of those that are left."""
        taken = min(max(least, 0), max(self._left, 0)) if isinstance(least, int) else 0
        self._left -= taken
        return taken

    def _merged(self, schema: Schema) -> Schema:
        """What a schema says together with all that it refers to and lists under `allOf`."""
        parts = conjunction(schema, self._root)
        merged = {keyword: part[keyword] for part in reversed(parts) for keyword in part}
        merged["properties"] = {
            name: member for part in reversed(parts) for name, member in properties_of(part).items()
        }
        merged["required"] = [name for part in parts for name in required_of(part)]
        return {key: value for key, value in merged.items() if key not in ("$ref", "allOf")}


def _number(schema: Schema) -> object:
    least, above, most = (
        schema.get(keyword) for keyword in ("minimum", "exclusiveMinimum", "maximum")
    )
    if isinstance(least, (int, float)):
        return least
    if isinstance(above, (int, float)):
        return above + 1
    return min(1, most) if isinstance(most, (int, float)) else 1

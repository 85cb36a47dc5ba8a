"""The smallest JSON value that fits a schema, as far as that can be found without searching."""

from __future__ import annotations

from typing import Any

_DEEPEST = 32
_EMPTY = {"object": {}, "array": [], "string": "", "boolean": False, "null": None}


def smallest(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """A value for `schema`. `root` is the schema that references are looked up in."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    if "default" in schema:
        return schema["default"]
    if isinstance(schema.get("$ref"), str):
        return smallest(_referred(schema["$ref"], root), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return smallest(schema[key][0], root, depth + 1)
    if isinstance(schema.get("allOf"), list) and schema["allOf"]:
        return smallest(_merged(schema, root), root, depth + 1)
    return _by_type(schema, root, depth)


def _by_type(schema: dict[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind is None:
        kind = "object" if "properties" in schema else "string"
    if kind == "object":
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        names = required if isinstance(required, list) else ()
        return {name: smallest(properties.get(name, {}), root, depth + 1) for name in names}
    if kind == "array":
        count = schema.get("minItems")
        items = smallest(schema.get("items", {}), root, depth + 1)
        return [items] * (count if isinstance(count, int) else 0)
    if kind == "string":
        least = schema.get("minLength")
        return "demo" if not isinstance(least, int) else "demo".ljust(least, "o")[: max(least, 4)]
    if kind in ("integer", "number"):
        return _number(schema)
    return _EMPTY.get(kind)


def _number(schema: dict[str, Any]) -> Any:
    if isinstance(schema.get("minimum"), (int, float)):
        return schema["minimum"]
    if isinstance(schema.get("exclusiveMinimum"), (int, float)):
        return schema["exclusiveMinimum"] + 1
    least = schema.get("maximum")
    return min(1, least) if isinstance(least, (int, float)) else 1


def _referred(reference: str, root: Any) -> Any:
    found = root
    for name in reference.lstrip("#/").split("/"):
        name = name.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _merged(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """What `allOf` says, in one schema."""
    merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        part = _referred(part["$ref"], root) if isinstance(part, dict) and "$ref" in part else part
        if isinstance(part, dict):
            merged |= {key: value for key, value in part.items() if key not in merged}
            merged["properties"] = {**part.get("properties", {}), **merged.get("properties", {})}
            merged["required"] = [*merged.get("required", []), *part.get("required", [])]
    return merged

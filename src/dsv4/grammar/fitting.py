"""Whether a value fits a shape: for values that a schema lists itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dsv4.grammar.shapes import Document, Shape, Together, identity

_TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": (list, tuple),
    "object": Mapping,
}


def fits(value: Any, shape: Shape, document: Document) -> bool:
    """Whether a value has what the keywords ask for. What is not enforced is not asked for."""
    kinds = [kind for kind in shape.types if is_of(value, kind)]
    if not kinds:
        return False
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, (int, float)):
        return _number_fits(value, shape)
    if isinstance(value, str):
        return _string_fits(value, shape)
    if isinstance(value, Mapping):
        return _object_fits(value, shape, document)
    return _array_fits(value, shape, document)


def is_of(value: Any, kind: str) -> bool:
    """Whether a value is of a type."""
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _number_fits(value: float, shape: Shape) -> bool:
    return (
        value >= shape.get("minimum", value)
        and value <= shape.get("maximum", value)
        and ("exclusiveMinimum" not in shape.keywords or value > shape.get("exclusiveMinimum"))
        and ("exclusiveMaximum" not in shape.keywords or value < shape.get("exclusiveMaximum"))
    )


def _string_fits(value: str, shape: Shape) -> bool:
    long_enough = shape.get("minLength", 0) <= len(value) <= shape.get("maxLength", len(value))
    if not long_enough:
        return False
    try:
        return re.search(shape.get("pattern", ""), value) is not None
    except re.error:
        return True


def _any_fits(value: Any, together: Together, document: Document) -> bool:
    for shape in document.shapes(together):
        listed = shape.get("enum")
        known = listed is None or identity(value) in map(identity, listed)
        if known and fits(value, shape, document):
            return True
    return False


def _array_fits(value: Any, shape: Shape, document: Document) -> bool:
    if not shape.get("minItems", 0) <= len(value) <= shape.get("maxItems", len(value)):
        return False
    wanted = [*shape.prefix, *[shape.items] * len(value)]
    return all(_any_fits(item, part, document) for item, part in zip(value, wanted, strict=False))


def _object_fits(value: Mapping[str, Any], shape: Shape, document: Document) -> bool:
    if any(name not in value for name in shape.get("required", ())):
        return False
    other = shape.additional or ()
    return all(
        _any_fits(member, shape.properties.get(name, other), document)
        for name, member in value.items()
    )

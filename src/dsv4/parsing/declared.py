"""The tools a caller declares, as far as reading calls needs to know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Schemas that refer to alternatives do so under one of these.
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


class Tools:
    """Declared tools: name -> parameter -> its JSON types, empty where the schema names none.

    `told` is false where the caller said nothing: then any name may be one, inside a wrapper.
    """

    def __init__(self, tools: Iterable[Any] | None) -> None:
        self.told = tools is not None
        self.parameters: dict[str, dict[str, frozenset[str]]] = {}
        for tool in tools or ():
            function = tool.get("function", tool) if isinstance(tool, Mapping) else None
            if isinstance(function, Mapping) and isinstance(function.get("name"), str):
                self.parameters[function["name"]] = _properties(function.get("parameters"))

    @property
    def none_declared(self) -> bool:
        """Whether the caller declared that there are none, so that no call is ever made."""
        return self.told and not self.parameters

    def declares(self, name: str) -> bool:
        # The strict grammar lets a name run on behind a quote. Which of the two readings a caller
        # had in mind cannot be told, so the shorter one will do for being known.
        return name in self.parameters or name.partition('"')[0] in self.parameters

    def types_of(self, name: str, parameter: str) -> frozenset[str]:
        return self.parameters.get(name, {}).get(parameter, frozenset())

    def may_unwrap(self, name: str, parameter: str) -> bool:
        """Whether a lone parameter may hold all the arguments (rule 8)."""
        parameters = self.parameters.get(name, {})
        unknown = bool(parameters) and parameter not in parameters
        return unknown and parameter in ("arguments", "input")


def _properties(schema: Any) -> dict[str, frozenset[str]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: frozenset(_types(value))
        for name, value in properties.items()
        if isinstance(name, str)
    }


def _types(schema: Any, depth: int = 0) -> Iterable[str]:
    if not isinstance(schema, Mapping) or depth > 8:
        return
    declared = schema.get("type")
    for kind in declared if isinstance(declared, list) else [declared]:
        if isinstance(kind, str):
            yield kind
    if declared is None and isinstance(schema.get("enum"), list):
        yield from (_KINDS[type(value)] for value in schema["enum"] if type(value) in _KINDS)
    for word in _ALTERNATIVES:
        for alternative in schema.get(word) or () if isinstance(schema.get(word), list) else ():
            yield from _types(alternative, depth + 1)


_KINDS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


def fits(value: Any, types: frozenset[str]) -> bool:
    """Whether a JSON value has one of the types."""
    kind = _KINDS[type(value)]
    return (
        kind in types
        or (kind == "integer" and "number" in types)
        or (kind == "number" and "integer" in types and value == value // 1)
    )

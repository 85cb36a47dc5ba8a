"""The tools a caller declares, as far as reading calls needs to know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dsv4._format.dialects import NAMESPACE_END
from dsv4._format.spellings import HOLDS_ALL

# Schemas that refer to alternatives do so under one of these.
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


class Tools:
    """Declared tools: name -> parameter -> its JSON types, empty where the schema names none.

    `told` is false where the caller said nothing: then any name may be one, inside a wrapper.
    """

    __slots__ = ("parameters", "spaced", "told")

    def __init__(self, tools: Iterable[Any] | None) -> None:
        self.told = tools is not None
        self.parameters: dict[str, dict[str, frozenset[str]]] = {}
        self.spaced: set[str] = set()  # names that were declared with a namespace of their own
        for tool in tools or ():
            function = tool.get("function", tool) if isinstance(tool, Mapping) else None
            if isinstance(function, Mapping) and isinstance(function.get("name"), str):
                name = _qualified(tool, function)
                if name != function["name"]:
                    self.spaced.add(name)
                self.parameters[name] = _properties(function.get("parameters"))

    @property
    def none_declared(self) -> bool:
        """Whether the caller declared that there are none, so that no call is ever made."""
        return self.told and not self.parameters

    def declares(self, name: str) -> bool:
        # The strict grammar lets a name run on after a quote. Which of the two readings a caller
        # had in mind cannot be known, so it is enough that the shorter one is.
        return name in self.parameters or name.partition('"')[0] in self.parameters

    def may_be(self, name: str) -> bool:
        """Whether a name counts as declared inside a wrapper."""
        return not self.told or self.declares(name)

    def as_declared(self, name: str | None) -> str | None:
        """A name without white space around it, if that is what was declared (rule 13)."""
        return _trimmed(name, self.parameters)

    def key_as_declared(self, tool: str, key: str | None) -> str | None:
        return _trimmed(key, self.keys(tool))

    def keys(self, tool: str) -> dict[str, frozenset[str]]:
        return self.parameters.get(tool, {})

    def types_of(self, tool: str, key: str) -> frozenset[str]:
        return self.keys(tool).get(key, frozenset())

    def may_unwrap(self, tool: str, key: str) -> bool:
        """Whether a lone parameter may hold all the arguments (rule 8)."""
        keys = self.keys(tool)
        return bool(keys) and key not in keys and key in HOLDS_ALL


def _trimmed(name: str | None, declared: Mapping[str, Any]) -> str | None:
    if name is None or name in declared or name.strip() not in declared:
        return name
    return name.strip()


def _qualified(tool: Mapping[Any, Any], function: Mapping[Any, Any]) -> str:
    """The name as the model sees it (format.md, section 13.3)."""
    name: str = function["name"]
    space = tool.get("namespace")
    if space is None:
        space = function.get("namespace")
    if isinstance(space, Mapping):
        space = space.get("name")
    if not isinstance(space, str) or NAMESPACE_END in name:
        return name
    return f"{space}{NAMESPACE_END}{name}"


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

"""The tools a caller declares, as far as reading calls needs to know them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, TypeAlias

from dsv4._format.dialects import NAMESPACE_END
from dsv4._format.spellings import HOLDS_ALL
from dsv4.schema import conjunction, possible_types, properties_of

# An object as callers give it: a tool, its function, or a schema.
GivenObject: TypeAlias = Mapping[Any, Any]


class DeclaredTools:
    """Declared tools: name -> parameter -> its JSON types, empty where the schema names none.

    `given` is false where the caller said nothing: then any name may be one, inside a wrapper.
    """

    def __init__(self, tools: Iterable[GivenObject] | None) -> None:
        self.given = tools is not None
        self.parameters: dict[str, dict[str, frozenset[str]]] = {}
        self.namespaced: set[str] = set()  # names that were declared with a namespace of their own
        for tool in tools or ():
            function: GivenObject = tool.get("function", tool)
            name = _qualified(tool, function)
            if name != function["name"]:
                self.namespaced.add(name)
            # Anthropic's tools have their schema under another name.
            schema = function.get("parameters", function.get("input_schema"))
            self.parameters[name] = _properties(schema)

    @property
    def none_declared(self) -> bool:
        """Whether the caller declared that there are none, so that no call is ever made."""
        return self.given and not self.parameters

    def declares(self, name: str | None) -> bool:
        # The strict grammar lets a name run on after a quote. Which of the two readings a caller
        # had in mind cannot be known, so it is enough that the shorter one is.
        return name is not None and (
            name in self.parameters or name.partition('"')[0] in self.parameters
        )

    def may_be_tool(self, name: str | None) -> bool:
        """Whether a name counts as declared inside a wrapper."""
        return self.declares(name) or (name is not None and not self.given)

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


def _trimmed(name: str | None, declared: Container[str]) -> str | None:
    if name is None or name in declared or name.strip() not in declared:
        return name
    return name.strip()


def _qualified(tool: GivenObject, function: GivenObject) -> str:
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


def _properties(schema: object) -> dict[str, frozenset[str]]:
    """The types of each property, as far as the schema names them, directly or by reference."""
    return {
        name: possible_types(value, root=schema)
        for part in reversed(conjunction(schema, root=schema))
        for name, value in properties_of(part).items()
        if isinstance(name, str)
    }

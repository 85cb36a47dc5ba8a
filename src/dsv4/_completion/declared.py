"""The tools a caller declares, as far as reading calls needs to know them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, TypeAlias

from dsv4._completion.json_text import read_json
from dsv4._format.dialects import NAMESPACE_END
from dsv4._format.spellings import AROUND_NAMES, HOLDS_ALL
from dsv4.schema import conjunction, has_type, listed, possible_types, properties_of, required_of

# An object as callers give it: a tool, its function, or a schema.
GivenObject: TypeAlias = Mapping[Any, Any]
_NAMES_MORE = "additionalProperties"


class DeclaredObject:
    """The demands of a tool's schema on its arguments."""

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self._parts = conjunction(schema, root=schema)
        # The keys that must be there. None: the schema does not say.
        lists = [required_of(part) for part in self._parts if "required" in part]
        self.required = frozenset(key for one in lists for key in one) if lists else None

    def keys(self) -> dict[str, frozenset[str]]:
        """The types of each property, as far as the schema names them; empty where it does not."""
        return {
            name: possible_types(value, root=self._schema)
            for part in reversed(self._parts)
            for name, value in properties_of(part).items()
            if isinstance(name, str)
        }

    @property
    def is_open(self) -> bool:
        """Whether keys are allowed that are not declared."""
        rules = [part["additionalProperties"] for part in self._parts if _NAMES_MORE in part]
        lists_keys = any("properties" in part for part in self._parts)
        return not lists_keys or (bool(rules) and False not in rules)

    def omits(self, key: str, text: str) -> bool:
        """Whether the schema lists the texts of a key, and this is not one of them."""
        properties = [properties_of(part).get(key) for part in self._parts]
        schemas = [one for of in properties for one in conjunction(of, root=self._schema)]
        return any(
            ("enum" in one and text not in listed(one, "enum")) or one.get("const", text) != text
            for one in schemas
        )


class DeclaredTools:
    """Declared tools by their names.

    `given` is false if the caller said nothing: then any name may be a tool's, inside a wrapper.
    """

    def __init__(
        self, tools: Iterable[GivenObject] | None, namespace_end: str = NAMESPACE_END
    ) -> None:
        self.given = tools is not None
        self.declared: dict[str, object] = {}  # their schemas
        self._objects: dict[str, DeclaredObject] = {}  # those of tools that were asked for
        self._keys: dict[str, dict[str, frozenset[str]]] = {}
        self.namespaced: set[str] = set()  # names that were declared with a namespace of their own
        for tool in tools or ():
            function: GivenObject = tool.get("function", tool)
            name = _qualified(tool, function, namespace_end)
            if name != function["name"]:
                self.namespaced.add(name)
            # Anthropic's tools have their schema under another name.
            schema = function.get("parameters", function.get("input_schema"))
            self.declared[name] = schema

    @property
    def none_declared(self) -> bool:
        """Whether the caller declared that there are none, so that no call is ever made."""
        return self.given and not self.declared

    def declares(self, name: str | None) -> bool:
        # The strict grammar lets a name run on after a quote. It cannot be known which of the two
        # readings a caller had in mind, so it is enough that the shorter one is declared.
        return name is not None and (
            name in self.declared or name.partition('"')[0] in self.declared
        )

    def may_be_tool(self, name: str | None) -> bool:
        """Whether a name counts as declared inside a wrapper."""
        return self.declares(name) or (name is not None and not self.given)

    def as_declared(self, name: str | None) -> str | None:
        """A name without surplus characters around it, if it is declared so (rules 13 and 45)."""
        return _trimmed(name, self.declared)

    def key_as_declared(self, tool: str, key: str | None) -> str | None:
        return _trimmed(key, self.keys(tool))

    def _object(self, tool: str) -> DeclaredObject | None:
        """The demands on the tool's arguments, read when needed: most tools are never called."""
        found = self._objects.get(tool)
        if found is None and tool in self.declared:
            found = self._objects[tool] = DeclaredObject(self.declared[tool])
        return found

    def keys(self, tool: str) -> dict[str, frozenset[str]]:
        found = self._keys.get(tool)
        if found is None:
            declared = self._object(tool)
            found = self._keys[tool] = {} if declared is None else declared.keys()
        return found

    def types_of(self, tool: str, key: str) -> frozenset[str]:
        return self.keys(tool).get(key, frozenset())

    def requires(self, tool: str) -> frozenset[str] | None:
        """The keys that a call must have. None: the schema does not say."""
        declared = self._object(tool)
        return None if declared is None else declared.required

    def breaks_schema(self, tool: str, values: Mapping[str, tuple[str, str]]) -> bool:
        """Whether a call breaks its schema. Types are not checked: they are the schema's business.

        `values` maps keys to their texts, as they were written and as JSON.
        """
        declared = self._object(tool)
        if declared is None:
            return False
        is_complete = values.keys() >= (declared.required or frozenset())
        if not is_complete or not (declared.is_open or values.keys() <= self.keys(tool).keys()):
            return True
        return any(self._refuses(tool, key, *texts) for key, texts in values.items())

    def _refuses(self, tool: str, key: str, raw: str, json_text: str) -> bool:
        """Whether a value has to be JSON and is not, or is a text that the schema does not list.

        JSON of another type than the declared one is the schema's own business.
        """
        given = read_json(json_text)
        if given is None or not isinstance(given.value, str):
            return False
        types = self.types_of(tool, key)
        if types and "string" not in types:
            return read_json(raw) is None
        return self._objects[tool].omits(key, given.value)

    def is_of_others(self, tool: str, key: str, json_text: str, others: Iterable[str]) -> bool:
        """Whether a value has the type that another of these tools gives a key, and not its own."""
        types, given = self.types_of(tool, key), read_json(json_text)
        if not types or given is None or has_type(given.value, types):
            return False
        return any(has_type(given.value, self.types_of(other, key)) for other in others)

    def may_unwrap(self, tool: str, key: str) -> bool:
        """Whether a lone parameter may hold all the arguments (rule 8)."""
        keys = self.keys(tool)
        return bool(keys) and key not in keys and key in HOLDS_ALL


def _trimmed(name: str | None, declared: Container[str]) -> str | None:
    if name is None or name in declared:
        return name
    bare = name.strip()
    trimmed = bare.strip(AROUND_NAMES)
    if trimmed == name:  # nothing is around it
        return name
    # `name="bash"">`, `name="="bash">` and `=" namebash">` call `bash` (rule 45).
    if trimmed not in declared and bare != name:
        trimmed = bare.removeprefix("name").strip(AROUND_NAMES)
    return trimmed if trimmed in declared else name


def _qualified(tool: GivenObject, function: GivenObject, end: str) -> str:
    """The name as the model sees it (format.md, section 13.3)."""
    name: str = function["name"]
    space = tool.get("namespace")
    if space is None:
        space = function.get("namespace")
    if isinstance(space, Mapping):
        space = space.get("name")
    if not isinstance(space, str) or end in name:
        return name
    return f"{space}{end}{name}"

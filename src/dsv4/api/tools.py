"""Declared tools: how the model sees them, and how a call of one finds its way back."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from dsv4._format.dialects import Dialect
from dsv4.api import fields
from dsv4.api.asked import AUTO, Choice, Declared, Tool, ToolKey
from dsv4.api.bodies import clean_value
from dsv4.api.errors import ApiError, wrong
from dsv4.api.remembering import ENTRIES, Remembered

# What stands between a namespace and a name. V4.1 has a form of its own for it, which came with
# the system token; before it, the form that clients themselves use where names must be flat.
FLAT, QUALIFIED = "__", "::"

# The one parameter of a custom tool.
INPUT = "input"
INPUT_SCHEMA = {
    "type": "object",
    "properties": {INPUT: {"type": "string"}},
    "required": [INPUT],
}


@dataclass(frozen=True, slots=True)
class ToolName:
    """What the client calls a tool that the model knows by another name."""

    name: str
    namespace: str | None = None
    kind: Literal["function", "custom"] = "function"
    # Where the request declares it.
    path: str = field(default="", compare=False)


def prompt_name(key: ToolKey, dialect: Dialect) -> str:
    """The name by which the model sees a tool."""
    namespace, name = key
    if namespace is None:
        return name
    return f"{namespace}{FLAT if dialect.system_token is None else QUALIFIED}{name}"


def chosen(tools: Iterable[Tool], choice: Choice) -> tuple[Tool, ...]:
    """The tools that a request wants shown. Those it names must be there."""
    tools = tuple(tools)
    keys = {tool.key for tool in tools}
    wanted = choice.allowed if choice.allowed is not None else frozenset[ToolKey]()
    for key in (*sorted(wanted, key=str), *([choice.tool] if choice.tool else [])):
        if key not in keys:
            names = ", ".join(tool.name for tool in tools) or "no tool: none is declared"
            message = f"found the tool {key[1]!r}, expected one of {names}"
            raise ApiError(message, path=choice.path)
    if choice.allowed is not None:
        tools = tuple(tool for tool in tools if tool.key in wanted)
    if choice.mode == "required" and not tools:
        message = "found a call that must be made, expected tools: none is declared"
        raise ApiError(message, path=choice.path)
    return tools


def functions(tools: Iterable[Tool], dialect: Dialect) -> list[dict[str, Any]]:
    """The tools as the prompt shows them."""
    return [_function(tool, dialect) for tool in tools]


def _function(tool: Tool, dialect: Dialect) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": prompt_name(tool.key, dialect)}
    description = shown_description(tool)
    if description is not None:
        shown["description"] = description
    if tool.kind == "custom":
        shown["parameters"] = INPUT_SCHEMA
    elif tool.parameters is not None:
        shown["parameters"] = tool.parameters
    return shown


def shown_description(tool: Tool) -> str | None:
    """A tool's own words, after those of its namespace and before its grammar."""
    description = tool.description
    if tool.format is not None and tool.format.get("definition"):
        grammar = f"The input follows this grammar ({tool.format.get('syntax')}):\n"
        grammar += tool.format["definition"]
        description = f"{description}\n\n{grammar}" if description else grammar
    if tool.namespace_description:
        return f"{tool.namespace_description}\n{description or ''}"
    return description


def schema_at(value: Any, path: str) -> dict[str, Any]:
    """A JSON schema: an object that can be written as JSON."""
    if not isinstance(value, dict):
        raise wrong(value, "a JSON schema: an object", path)
    schema: dict[str, Any] = clean_value(value, path)
    return schema


def read_function(function: dict[str, Any], path: str, schema: str = "parameters") -> Tool:
    """A function object. `schema` is the name of the field that holds its parameters."""
    parameters, strict = function.get(schema), function.get("strict")
    return Tool(
        fields.name_at(function, path),
        path,
        fields.maybe_text_at(function, "description", path),
        None if parameters is None else schema_at(parameters, f"{path}.{schema}"),
        strict=strict if isinstance(strict, bool) else None,
    )


def read_allowed(allowed: dict[str, Any], path: str, key: Any) -> Choice:
    """A choice that allows some of the tools. `key` reads one of its entries, or gives None."""
    given = allowed.get("mode")
    if given is not None:
        fields.one_of("auto", "required")(given, f"{path}.mode")
    mode: Literal["auto", "required"] = "required" if given == "required" else "auto"
    listed = fields.listed(allowed.get("tools"), f"{path}.tools")
    keys = [key(item, f"{path}.tools[{n}]") for n, item in enumerate(listed)]
    return Choice(mode, allowed=frozenset(k for k in keys if k is not None))


def names_of(tools: Iterable[Tool], dialect: Dialect) -> dict[str, ToolName]:
    """The way back: from the name in the prompt to the client's own."""
    named = [(prompt_name(tool.key, dialect), tool) for tool in tools]
    refuse_doubles((name, tool.path) for name, tool in named)
    return {name: ToolName(tool.name, tool.namespace, tool.kind, tool.path) for name, tool in named}


def refuse_doubles(named: Iterable[tuple[str, str]]) -> None:
    """Raises where two tools have one name. Each is given with where the request has it."""
    seen: set[str] = set()
    for name, path in named:
        if name in seen:
            message = f"found a second tool with the name {name!r}, expected each name once"
            raise ApiError(message, path=f"{path}.name")
        seen.add(name)


def client_name(name: str, names: Mapping[str, ToolName]) -> ToolName:
    """What the client calls the tool. One that it did not declare has the name it came with."""
    return names.get(name) or ToolName(name)


@dataclass(frozen=True, slots=True)
class Shown:
    """Tools as the prompt shows them, and the table of their names."""

    functions: list[dict[str, Any]] | None
    names: Mapping[str, ToolName]
    forced: str | None


# A client sends the same tools with every request, and each time they are the same value
# (`declared_in`). What a dialect makes of them is remembered for the last few.
@lru_cache(ENTRIES)
def shown(declared: Declared, dialect: Dialect) -> Shown:
    """How a dialect shows all tools that a request declares."""
    return shown_for(declared, AUTO, dialect)


def shown_for(declared: Declared, choice: Choice, dialect: Dialect) -> Shown:
    """How a dialect shows the tools that a request declares and chooses."""
    names = names_of(declared.tools, dialect)
    tools = chosen(declared.tools, choice)
    forced = prompt_name(choice.tool, dialect) if choice.tool is not None else None
    return Shown(functions(tools, dialect) or None, MappingProxyType(names), forced)


_remembered = Remembered[Declared]()


def declared_in(
    tools: Any, path: str, read: Callable[[Any, str], Declared], protocol: str
) -> Declared:
    """What `read` makes of a request's list of tools, remembered."""
    try:
        dumped = marshal.dumps(tools)
    except ValueError:
        return read(tools, path)  # says what is wrong
    key = (dumped, protocol)
    declared = _remembered.get(key)
    if declared is None:
        declared = read(marshal.loads(dumped), path)
        _remembered.keep(key, declared, len(dumped))
    return declared

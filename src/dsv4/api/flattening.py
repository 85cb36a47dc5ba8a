"""Functions alone: for chat servers, which know neither namespaces nor custom tools.

Tools get the names, words and parameters that the model is shown in a dialect without namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dsv4.api.asked import Asked, Declared, Message, Tool, ToolKey
from dsv4.api.tools import FLAT, INPUT_SCHEMA, ToolName, refuse_doubles, shown_description


def flat(asked: Asked) -> Asked:
    """What is asked for, with functions in the place of all other tools. Raises `ApiError` where
    two would have one name."""
    tools = tuple(map(_tool, asked.declared.tools))
    refuse_doubles((tool.name, tool.path) for tool in tools)
    choice = asked.choice
    named = None if choice.tool is None else _key(choice.tool)
    allowed = None if choice.allowed is None else frozenset(map(_key, choice.allowed))
    changed = {
        "declared": Declared(tools, asked.declared.ignored),
        "choice": replace(choice, tool=named, allowed=allowed),
        "messages": list(map(_message, asked.messages)),
    }
    return Asked({**vars(asked), **changed})


def with_flat_names(names: Mapping[str, ToolName]) -> dict[str, ToolName]:
    """The way back, from those names too."""
    return {**{_name((tool.namespace, tool.name)): tool for tool in names.values()}, **names}


def _name(key: ToolKey) -> str:
    namespace, name = key
    return name if namespace is None else f"{namespace}{FLAT}{name}"


def _key(key: ToolKey) -> ToolKey:
    return None, _name(key)


def _tool(tool: Tool) -> Tool:
    parameters = INPUT_SCHEMA if tool.kind == "custom" else tool.parameters
    description = shown_description(tool)
    return Tool(_name(tool.key), tool.path, description, parameters, strict=tool.strict)


def _message(message: Message) -> Message:
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": list(map(_call, message["tool_calls"]))}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    name = _name((call.get("namespace"), function["name"]))
    return {"id": call["id"], "type": "function", "function": {**function, "name": name}}

"""Which tools may be called, and whether one must be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dsv4.encoding.namespaces import qualified_function
from dsv4.encoding.tools import function_of
from dsv4.errors import Location, refusal, shown
from dsv4.format.dialects import dialect_named
from dsv4.grammar.calls import Tool
from dsv4.request import Request


class Wanted(NamedTuple):
    """The tools that may be called, and the one that must be: "" for any, None for none."""

    tools: tuple[Tool, ...]
    forced: str | None


def wanted(request: Request) -> Wanted:
    """The tools that the request's choice leaves."""
    choice = request.tool_choice
    if choice == "none":
        return Wanted((), None)
    tools = tuple(_declared(request))
    if choice is None or choice == "auto":
        return Wanted(tools, None)
    if choice == "required":
        if not tools:
            raise refusal(("tool_choice",), "found required, expected tools to be declared")
        return Wanted(tools, "")
    choice = _name_in(choice)
    named = tuple(tool for tool in tools if tool.name == choice)
    if not named:
        known = ", ".join(tool.name for tool in tools) or "none at all"
        problem = f"found {shown(choice)}, expected a declared tool: {known}"
        raise refusal(("tool_choice",), problem)
    return Wanted(named, choice)


def _name_in(choice: Any) -> str:
    """The name of the tool, which OpenAI puts in an object."""
    function = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else choice
    if not isinstance(name, str):
        expected = 'expected "auto", "none", "required" or a tool\'s name'
        raise refusal(("tool_choice",), f"found {shown(choice)}, {expected}")
    return name


def _declared(request: Request) -> Iterable[Tool]:
    """The tools of the request, or of its messages."""
    namespaces = dialect_named(request.dialect).namespaces
    if request.tools is not None:
        yield from _tools(request.tools, ("tools",), namespaces)
        return
    for name, messages in (("context", request.context), ("messages", request.messages)):
        for n, message in enumerate(messages or ()):
            tools = message.get("tools") if isinstance(message, Mapping) else None
            if tools and message.get("role") in ("system", "developer"):
                yield from _tools(tools, (name, n, "tools"), namespaces)


def _tools(tools: Any, location: Location, namespaces: bool) -> Iterable[Tool]:
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise refusal(location, f"found {shown(tools)}, expected a list of tools")
    for n, tool in enumerate(tools):
        place = (*location, n)
        fields, function = function_of(tool, True, place)
        inside = place if function is fields else (*place, "function")
        if namespaces:
            function = qualified_function(fields, function, place)
        yield Tool(function["name"], function.get("parameters"), inside)

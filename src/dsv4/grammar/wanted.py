"""Which tools may be called, and whether one must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dsv4._encode.encode import chosen_tool, read_tool_choice, visible_tools
from dsv4._encode.tools import function_location, function_of, qualified_function
from dsv4._format.dialects import dialect_named
from dsv4.grammar.calls import Tool
from dsv4.request import Request


class Wanted(NamedTuple):
    """The tools that may be called, and the one that must be: "" for any, None for none."""

    tools: tuple[Tool, ...]
    forced: str | None


def wanted(request: Request) -> Wanted:
    """The tools that the request's choice leaves."""
    mode, tool = read_tool_choice(request.tool_choice)
    if mode == "none":
        return Wanted((), None)
    tools = tuple(_declared(request))
    if mode == "auto":
        return Wanted(tools, None)
    own, before, messages = _given(request)
    name = chosen_tool(tool, own, before, messages, dialect_named(request.dialect))
    if name is None:
        return Wanted(tools, "")
    return Wanted(tuple(tool for tool in tools if tool.name == name), name)


def _given(request: Request) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Tools, context and messages as lists, of which some may not be given."""
    own = () if request.tools is None else list(request.tools)
    return own, () if request.context is None else list(request.context), list(request.messages)


def _declared(request: Request) -> Iterator[Tool]:
    """The tools that the prompt shows."""
    namespaces = dialect_named(request.dialect).namespaces
    own, before, messages = _given(request)
    placed = ((("tools", n), tool) for n, tool in enumerate(own))
    for location, tool in (*placed, *visible_tools(before, messages)):
        fields, function = function_of(tool, True, location)
        inside = function_location(fields, function, location)
        if namespaces:
            function = qualified_function(fields, function, location)
        yield Tool(function["name"], function.get("parameters"), inside)

"""Tool schemas as the prompt shows them (docs/format.md, section 5)."""

from __future__ import annotations

import marshal
from typing import Any

from dsv4.encoding.door import Message, maybe_dict, maybe_list
from dsv4.encoding.json_text import json_at
from dsv4.encoding.memory import MEMORY, Shelf
from dsv4.encoding.namespaces import place_of_function, qualified_function
from dsv4.errors import Location, refusal, shown

_remembered: Shelf[str] = MEMORY.shelf()


class Written(str):
    """The text of an extra of the request, written before its place is known."""

    __slots__ = ()


def schemas_text(tools: Any, named: bool, namespaces: bool, location: Location) -> str:
    """One JSON object a line, in the order given."""
    if tools.__class__ is Written:
        return str.__str__(tools)
    # Marshal writes plain values by exact type and in order: so the key tells 1 from True, sees
    # every change, and never stands for two different lists. It notes which values are one object,
    # so equal lists may have two keys: that is only a miss.
    try:
        key = marshal.dumps((tools, named, namespaces))
    except ValueError:
        return _schemas(tools, named, namespaces, location)
    text = _remembered.recall(key)
    if text is None:
        text = _schemas(tools, named, namespaces, location)
        if _is_whole(key, tools):
            _remembered.keep(key, text)
    return text


def _is_whole(key: bytes, tools: Any) -> bool:
    """Whether marshal wrote all that there is: what has a buffer, as numbers of numpy have, it
    writes as if it were bytes."""
    try:
        return bool(marshal.loads(key)[0] == tools)
    except Exception:  # an array does not say whether it is equal
        return False


def _schemas(tools: Any, named: bool, namespaces: bool, location: Location) -> str:
    listed = maybe_list(tools)
    if listed is None:
        raise refusal(location, f"found {shown(tools)}, expected a list of tools")
    return "\n".join(
        _schema(tool, named, namespaces, (*location, n)) for n, tool in enumerate(listed)
    )


def _schema(tool: Any, named: bool, namespaces: bool, location: Location) -> str:
    fields, function = function_of(tool, named, location)
    inside = place_of_function(fields, function, location)
    if namespaces and _has_name(function):
        return json_at(qualified_function(fields, function, location), inside)
    return json_at(function, inside)


def _has_name(function: Any) -> bool:
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def function_of(tool: Any, named: bool, location: Location) -> tuple[Message, Any]:
    """A tool, and its function object: the tool itself, where that is given bare."""
    fields = maybe_dict(tool)
    if fields is None:
        raise refusal(location, f"found {shown(tool)}, expected a tool object")
    if "function" not in fields and "name" in fields:
        function: Any = fields
    else:
        given = fields.get("function")
        as_dict = maybe_dict(given)
        function = given if as_dict is None else as_dict
    if function is None and not named:
        raise refusal(location, f'found {shown(tool)}, expected a tool with a "function"')
    if named and not isinstance(function, dict):
        problem = f"found {shown(function)}, expected a function object"
        raise refusal((*location, "function"), problem)
    if named and not (isinstance(function.get("name"), str) and function["name"]):
        found = shown(function.get("name"))
        place = (*place_of_function(fields, function, location), "name")
        raise refusal(place, f"found {found}, expected the tool's name")
    return fields, function

"""Tool schemas as the prompt shows them (format.md, section 5)."""

from __future__ import annotations

import marshal
from typing import Any

from dsv4.encoding.json_text import json_at
from dsv4.errors import EncodeError, shown

# A server sends the same tools with every request. Their text is remembered for at most this many
# lists of tools, of at most this many bytes each; when full, the oldest goes.
REMEMBERED_LISTS = 64
REMEMBERED_BYTES = 262_144

_remembered: dict[tuple[bytes, bool], str] = {}


def schemas_text(tools: Any, named: bool, path: str) -> str:
    """One JSON object a line, in the order given."""
    key = _key(tools, named)
    text = _remembered.get(key) if key else None
    if text is None:
        text = _schemas(tools, named, path)
        if key:
            _remember(key, text)
    return text


def _key(tools: Any, named: bool) -> tuple[bytes, bool] | None:
    # Marshal writes plain values by exact type and in order, and can read back what it wrote: so
    # the key tells 1 from True, sees every change, and never stands for two different lists. It
    # notes which values are one object, so equal lists may have two keys: that is only a miss.
    try:
        dumped = marshal.dumps(tools)
    except ValueError:
        return None
    return (dumped, named) if len(dumped) <= REMEMBERED_BYTES else None


def _remember(key: tuple[bytes, bool], text: str) -> None:
    while len(_remembered) >= REMEMBERED_LISTS:
        try:
            _remembered.pop(next(iter(_remembered)), None)
        except (StopIteration, RuntimeError):  # another thread was at it
            break
    _remembered[key] = text


def _schemas(tools: Any, named: bool, path: str) -> str:
    if not isinstance(tools, (list, tuple)):
        raise EncodeError(path, f"found {shown(tools)}, expected a list of tools")
    return "\n".join(
        json_at(function_of(tool, named, f"{path}[{n}]"), f"{path}[{n}]")
        for n, tool in enumerate(tools)
    )


def function_of(tool: Any, named: bool, path: str) -> Any:
    """The function object of a tool, which may also be given bare."""
    if not isinstance(tool, dict):
        raise EncodeError(path, f"found {shown(tool)}, expected a tool object")
    function = tool.get("function", tool if "name" in tool else None)
    if named and not isinstance(function, dict):
        raise EncodeError(
            f"{path}.function", f"found {shown(function)}, expected a function object"
        )
    if function is None:
        raise EncodeError(path, f'found {shown(tool)}, expected a tool with a "function"')
    if named and not (isinstance(function.get("name"), str) and function["name"]):
        found = shown(function.get("name"))
        raise EncodeError(f"{path}.function.name", f"found {found}, expected the tool's name")
    return function

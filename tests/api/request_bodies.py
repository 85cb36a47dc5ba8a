"""One conversation, as the body of each protocol."""

from __future__ import annotations

import json
from typing import Any

from dsv4.api import chat, messages, responses

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
# A picture of one pixel, as PNG in base64.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgABc3UBGAAAAABJRU5ErkJggg=="
)
PROTOCOLS = {"chat": chat, "responses": responses, "messages": messages}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def body(protocol: str, *turns: Any, **fields: Any) -> dict[str, Any]:
    """A body with these messages or items."""
    turns = turns or (user("Hi"),)
    return {"input" if protocol == "responses" else "messages": list(turns), **fields}


def tools(protocol: str, *names: str) -> list[dict[str, Any]]:
    """Tools of these names."""
    forms = {
        "chat": lambda name: {"type": "function", "function": {"name": name, "parameters": SCHEMA}},
        "responses": lambda name: {"type": "function", "name": name, "parameters": SCHEMA},
        "messages": lambda name: {"name": name, "input_schema": SCHEMA},
    }
    return [forms[protocol](name) for name in names]


def call(protocol: str, id: str, name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn that is one call."""
    text = json.dumps(arguments)
    if protocol == "chat":
        function = {"name": name, "arguments": text}
        made = {"id": id, "type": "function", "function": function}
        return [{"role": "assistant", "content": None, "tool_calls": [made]}]
    if protocol == "responses":
        return [{"type": "function_call", "call_id": id, "name": name, "arguments": text}]
    block = {"type": "tool_use", "id": id, "name": name, "input": arguments}
    return [{"role": "assistant", "content": [block]}]


def result(protocol: str, id: str, text: str) -> list[dict[str, Any]]:
    """The result of a call."""
    if protocol == "chat":
        return [{"role": "tool", "tool_call_id": id, "content": text}]
    if protocol == "responses":
        return [{"type": "function_call_output", "call_id": id, "output": text}]
    return [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}
    ]


def prompt(protocol: str, request: Any, **options: Any) -> str:
    """The prompt of a body."""
    return str(PROTOCOLS[protocol].read(request, **options).request.encode())

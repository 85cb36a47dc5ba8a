"""Short ways to write messages, so that a test shows what it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Message = dict[str, Any]

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"

VECTORS = Path(__file__).parent / "vectors"


def vectors(name: str) -> list[dict[str, Any]]:
    with (VECTORS / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def system(content: Any = "Be brief.", **fields: Any) -> Message:
    return {"role": "system", "content": content, **fields}


def user(content: Any = "Hi", **fields: Any) -> Message:
    return {"role": "user", "content": content, **fields}


def assistant(content: Any = "Hello", **fields: Any) -> Message:
    return {"role": "assistant", "content": content, **fields}


def result(content: Any = "sunny", of: Any = None, **fields: Any) -> Message:
    return {"role": "tool", "tool_call_id": of, "content": content, **fields}


def reminder(content: Any = "Today is Friday.", **fields: Any) -> Message:
    return {"role": "latest_reminder", "content": content, **fields}


def developer(content: Any = "Find it.", **fields: Any) -> Message:
    return {"role": "developer", "content": content, **fields}


def call(name: Any = "weather", arguments: Any = "{}", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def calling(*calls: Any, **fields: Any) -> Message:
    return assistant("", tool_calls=list(calls), **fields)


def function(name: Any = "weather", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def openai_tool(name: Any = "weather", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": function(name, **fields)}


def image(url: str = "https://example.com/1.png") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: Any) -> dict[str, Any]:
    return {"type": "text", "text": words}

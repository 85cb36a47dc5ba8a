"""Anything at all, read whole and in pieces: python fuzz/parse_fuzz.py fuzz/corpus

An input is two bytes and a text. The first byte holds the options, the second the size of the
pieces. Whatever the text is, reading it must not raise, must give the same events both ways, and
arguments that are JSON objects.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["dsv4"]):
    import dsv4

    dsv4.StreamParser()  # the parser is loaded when it is first asked for

PROPERTIES = {
    "location": {"type": "string"},
    "command": {"type": "string"},
    "n": {"type": "integer"},
}
NAMES = ("get_weather", "bash", "f")
TOOLS = [{"name": name, "parameters": {"properties": PROPERTIES}} for name in NAMES]


def options(byte: int) -> dict[str, Any]:
    return {
        "thinking": bool(byte & 1),
        "tools": (TOOLS, TOOLS, None, [])[byte >> 1 & 3],
        "tool_choice": "none" if byte & 8 else "auto",
        "dialect": "v4.1" if byte & 16 else None,
    }


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    named, size = options(data[0]), data[1] % 32 + 1
    text = data[2:].decode("utf-8", "replace")
    whole = read([text], named)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert merged(read(pieces, named)) == merged(whole), f"not the same in pieces of {size}"
    message = dsv4.assemble(whole)
    for call in (*message.tool_calls, *message.incomplete):
        assert isinstance(json.loads(call.arguments), dict), call
    for diagnostic in message.diagnostics:
        assert text[diagnostic.start : diagnostic.end] == diagnostic.raw, diagnostic


def read(chunks: list[str], named: dict[str, Any]) -> list[Any]:
    parser = dsv4.StreamParser(**named)
    return [*(event for chunk in chunks for event in parser.feed(chunk)), *parser.finish()]


def merged(events: list[Any]) -> list[tuple[Any, ...]]:
    """The events with adjacent texts of one kind as one."""
    together: list[tuple[Any, ...]] = []
    for event in events:
        if not hasattr(event, "text"):
            together.append((event,))
            continue
        kind = (type(event), getattr(event, "index", None))
        if together and together[-1][:2] == kind:
            together[-1] = (*kind, together[-1][2] + event.text)
        else:
            together.append((*kind, event.text))
    return together


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()

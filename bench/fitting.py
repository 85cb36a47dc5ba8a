"""What it costs a call to be held against its schema, beside parsing it: python bench/fitting.py

Prints the CPU time of a call that fits, as nearly all do, of one that is made to fit, and of one
that cannot be, for a small call and for one with a 10 KB argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from parse import best

import dsv4
from dsv4._format.dialects import V4

ROUNDS = 200
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "content": {"type": "string"},
        "mode": {"enum": ["write", "append"]},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "options": {"anyOf": [{"type": "object"}, {"type": "null"}]},
    },
    "required": ["path", "content"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "write_file", "parameters": SCHEMA}}]


def arguments(content: str, **more: Any) -> str:
    values = {"path": "notes.txt", "content": content, "mode": "write", "lines": [1, 2, 3]}
    return json.dumps({**values, **more})


def completion(text: str) -> str:
    tags = V4.tags
    parameters = "".join(
        f'{tags.parameter_open}{key}" string="false">{json.dumps(value)}{tags.parameter_close}\n'
        for key, value in json.loads(text).items()
    )
    return (
        f'{tags.block_open}{tags.invoke_open}write_file">\n{parameters}'
        f"{tags.invoke_close[1:]}{tags.block_close}"
    )


def microseconds(run: Callable[[], object]) -> float:
    def many() -> None:
        for _ in range(ROUNDS):
            run()

    return best(many) / ROUNDS * 1e6


def compare(name: str, content: str) -> None:
    fits = arguments(content)
    text = completion(fits)
    assert [json.loads(call.arguments) for call in dsv4.parse(text, tools=TOOLS).tool_calls] == [
        json.loads(fits)
    ]
    parsing = microseconds(lambda: dsv4.parse(text, tools=TOOLS))
    print(f"{name}\n  parsing it        {parsing:8.1f} µs")
    rows = {
        "fits": fits,
        "is made to fit": arguments(content, lines="[1, 2]", options=None, mode="write"),
        "cannot be": arguments(content, lines=["x"]),
    }
    assert dsv4.fit_arguments(fits, SCHEMA).problem is None
    for row, given in rows.items():
        cost = microseconds(lambda given=given: dsv4.fit_arguments(given, SCHEMA))  # type: ignore[misc]
        print(f"  {row:17} {cost:8.1f} µs {cost / parsing:8.2f} x parsing")


def main() -> None:
    compare("a small call", "hello")
    compare("a call with 10 KB of text", "A line of text.\n" * 640)


if __name__ == "__main__":
    main()

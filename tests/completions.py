"""Short ways to write what a model writes, and to look at what was read of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import dsv4
from parts import ALL, part

__all__ = [
    "BASH",
    "BLOCK",
    "BLOCK_END",
    "COMMAND",
    "CORPUS",
    "DELTAS",
    "DSML",
    "INVOKE_END",
    "PARAMETER_END",
    "TIMEOUT",
    "TOOLS",
    "block",
    "calling",
    "calls_of",
    "corpus",
    "cuts",
    "declared",
    "events_of",
    "expectations",
    "incomplete_of",
    "invoke",
    "is_not_made",
    "kinds_of",
    "merged",
    "parameter",
    "read_everywhere",
    "tools_of",
]

DSML = "｜DSML｜"
BLOCK, BLOCK_END = f"<{DSML}tool_calls>", f"</{DSML}tool_calls>"
INVOKE_END = f"</{DSML}invoke>"
PARAMETER_END = f"</{DSML}parameter>"
BASH = f'<{DSML}invoke name="bash">'
COMMAND = f'<{DSML}parameter name="command" string="true">'
TIMEOUT = f'<{DSML}parameter name="timeout" string="false">'

CORPUS = Path(__file__).parent / "corpus"


def corpus(*names: str) -> list[dict[str, Any]]:
    """Malformed completions, with the reading that is wanted of each."""
    cases = []
    for name in names or ("malformed", "second"):
        with (CORPUS / f"{name}.jsonl").open(encoding="utf-8") as lines:
            cases += [json.loads(line) for line in lines]
    return cases


def expectations() -> list[dict[str, Any]]:
    """Completions that quote markup, and others, with what is expected of a reading of each."""
    return corpus("third", "fourth", "fifth")


def tools_of(case: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The tools of such a completion: by their parameters, or as a caller gives them."""
    tools: Any = case["options"]["tools"]
    return declared(**tools) if isinstance(tools, dict) and tools else tools


def invoke(name: str) -> str:
    """The tag that opens a call."""
    return f'<{DSML}invoke name="{name}">'


def parameter(key: str, string: str = "true") -> str:
    """The tag that opens a parameter."""
    return f'<{DSML}parameter name="{key}" string="{string}">'


def calling(name: str, /, **arguments: Any) -> str:
    """A call as it should be written. A value that is no text is written as JSON."""
    lines = [
        f"{parameter(key)}{value}{PARAMETER_END}\n"
        if isinstance(value, str)
        else f"{parameter(key, 'false')}{json.dumps(value)}{PARAMETER_END}\n"
        for key, value in arguments.items()
    ]
    return f"{invoke(name)}\n{''.join(lines)}{INVOKE_END}\n"


def block(*calls: str) -> str:
    """A block as it should be written, with the blank line before it."""
    return f"\n\n{BLOCK}\n{''.join(calls)}{BLOCK_END}"


def declared(**tools: dict[str, str]) -> list[dict[str, Any]]:
    """Tools by their parameters, and those by their types."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": type_} for key, type_ in properties.items()},
                },
            },
        }
        for name, properties in tools.items()
    ]


TOOLS = declared(
    bash={"command": "string", "timeout": "integer"},
    read={"path": "string", "lines": "array"},
    ping={},
)


def events_of(chunks: Iterable[str], *, reason: Any = None, **options: Any) -> list[Any]:
    """All events of a completion that comes in these chunks."""
    parser = dsv4.StreamParser(**options)
    return [*(event for chunk in chunks for event in parser.feed(chunk)), *parser.finish(reason)]


DELTAS = (dsv4.ReasoningDelta, dsv4.ContentDelta, dsv4.ArgumentsDelta)


def merged(events: Iterable[Any]) -> list[Any]:
    """The events with adjacent deltas of one kind as one."""
    together: list[Any] = []
    for event in events:
        last = together[-1] if together else None
        if (
            isinstance(event, DELTAS)
            and type(event) is type(last)
            and getattr(event, "index", None) == getattr(last, "index", None)
        ):
            place = () if isinstance(event, DELTAS[:2]) else (event.index,)
            together[-1] = type(event)(*place, last.text + event.text)
        else:
            together.append(event)
    return together


def cuts(text: str) -> Iterator[list[str]]:
    """A few ways of cutting a text: whole, into characters, and into pieces of one size."""
    for size in (len(text) or 1, *((1, 2, 3, 7) if ALL else (1, 3))):
        yield [text[at : at + size] for at in range(0, len(text), size)]


def read_everywhere(text: str, **options: Any) -> dsv4.Message:
    """The message, which is the same wherever the text is cut, and if it comes at once."""
    options = {"thinking": False, "tools": TOOLS, "new_id": str, **options}
    events = events_of([text], **options)
    whole = merged(events)
    for chunks in (*cuts(text), *([text[:at], text[at:]] for at in part(range(1, len(text)), 13))):
        assert merged(events_of(chunks, **options)) == whole, chunks
    message = dsv4.assemble(events)
    assert dsv4.parse(text, **options) == message
    return message


def calls_of(message: dsv4.Message) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


def incomplete_of(message: dsv4.Message) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for call in message.incomplete]


def is_not_made(message: dsv4.Message, name: str) -> bool:
    """Whether a call is incomplete instead of made, and none of its markup is content."""
    incomplete = [call for call, _ in incomplete_of(message)]
    return incomplete == [name] and not message.tool_calls and DSML not in message.content


def kinds_of(message: dsv4.Message) -> list[str]:
    return [diagnostic.kind for diagnostic in message.diagnostics]

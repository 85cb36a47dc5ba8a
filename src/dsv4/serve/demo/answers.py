"""The rules: what is asked -> what the demo model says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from dsv4.api.bodies import without_surrogates
from dsv4.serve.demo.reading import Asked
from dsv4.serve.demo.smallest import smallest

_RUN = re.compile(r"^[ \t>\"']*RUN: *(.+?)[ \t]*$", re.MULTILINE)
_CALL = re.compile(r"^[ \t>\"']*CALL: *(\S+) *(\{.*\})?[ \t]*$", re.MULTILINE)
_BREAK = re.compile(r"^[ \t>\"']*BREAK: *(\S+)[ \t]*$", re.MULTILINE)

# The names that agents give their shell, most particular first, and its parameter.
_SHELLS = ("Bash", "bash", "shell", "exec_command", "run_shell_command", "local_shell", "terminal")
_COMMANDS = ("command", "cmd")


@dataclass(frozen=True, slots=True)
class Answer:
    """A turn of the model. `broken` names the way in which it is to be malformed."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    broken: str | None = field(default=None)


def answer_to(asked: Asked, tokens: int | None) -> Answer:
    """What the demo model says. `tokens` is the length of the prompt, where it is known."""
    broken = _BREAK.search(asked.text)
    calls = _calls(asked)
    if asked.results:
        lines = (_first_line(result) for result in asked.results)
        return Answer("\n".join(f"DONE: {line}" for line in lines), "The tools have answered.")
    if broken:
        call = calls or _any_call(asked)
        return Answer("Here is one.", "A malformed answer is wanted.", call, broken[1])
    if calls:
        names = ", ".join(name for name, _ in calls)
        return Answer("", f"I have been asked to use {names}.", calls)
    if asked.response_format is not None:
        value = smallest(asked.response_format)
        return Answer(json.dumps(value, ensure_ascii=False), "The smallest value will do.")
    return Answer(_about(asked, tokens), "Nothing was asked that I have a rule for.")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else ""


def _calls(asked: Asked) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The calls that the user's lines ask for; the one that the prompt has begun where none do."""
    if not asked.tools:
        return ()
    found: list[tuple[int, str, dict[str, Any]]] = []
    for match in _RUN.finditer(asked.text):
        call = _shell_call(asked, match[1].rstrip("\"'"))
        if call:
            found.append((match.start(), *call))
    for match in _CALL.finditer(asked.text):
        found.append((match.start(), match[1], _object(match[2])))
    calls = tuple((name, arguments) for _, name, arguments in sorted(found, key=lambda c: c[0]))
    if asked.named is not None:
        of_name = tuple(call for call in calls if call[0] == asked.named)
        return of_name or ((asked.named, _required(_tool(asked, asked.named))),)
    return calls or (_any_call(asked) if asked.opened else ())


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = without_surrogates(json.loads(text or "{}"))
    except (ValueError, RecursionError):
        return {"arguments": text}
    return value if isinstance(value, dict) else {"arguments": value}


def _any_call(asked: Asked) -> tuple[tuple[str, dict[str, Any]], ...]:
    if not asked.tools:
        return ()
    tool = asked.tools[0]
    return ((str(tool.get("name")), _required(tool)),)


def _tool(asked: Asked, name: str) -> dict[str, Any]:
    return next((tool for tool in asked.tools if tool.get("name") == name), {})


def _required(tool: dict[str, Any]) -> dict[str, Any]:
    value = smallest(tool.get("parameters") or {"type": "object"})
    return value if isinstance(value, dict) else {}


def _properties(tool: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return properties if isinstance(properties, dict) else {}


def _shell_call(asked: Asked, command: str) -> tuple[str, dict[str, Any]] | None:
    tool = _shell(asked)
    if tool is None:
        return None
    properties = _properties(tool)
    key = next((key for key in _COMMANDS if key in properties), _COMMANDS[0])
    schema = properties.get(key)
    is_list = isinstance(schema, dict) and schema.get("type") == "array"
    given = ["bash", "-lc", command] if is_list else command
    return str(tool["name"]), {**_required(tool), key: given}


def _shell(asked: Asked) -> dict[str, Any] | None:
    by_name = {tool.get("name"): tool for tool in asked.tools}
    for name in _SHELLS:
        if name in by_name:
            return by_name[name]
    for tool in asked.tools:
        if any(key in _properties(tool) for key in _COMMANDS):
            return tool
    return None


def _about(asked: Asked, tokens: int | None) -> str:
    length = "" if tokens is None else f" {tokens:,} tokens,"
    mode = "thinking" if asked.thinking else "chat"
    return (
        f"This is the demo backend of dsv4, not a model. Your prompt has{length} "
        f"{asked.turns} messages and {len(asked.tools)} tools, in the dialect {asked.dialect}, "
        f"{mode} mode. Write a line `RUN: <command>` to see a tool call."
    )

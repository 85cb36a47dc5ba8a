"""What a prompt asks of the model: read back from the prompt itself, as the model sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dsv4._decode import decode
from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import Dialect, dialect_named

# What agents put into a turn beside what the user said.
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asked:
    """What comes last in a prompt, and what the model may do about it."""

    text: str  # of the user, reminders aside; empty if a result comes last
    results: tuple[str, ...]  # of tools, if they come last
    tools: tuple[dict[str, Any], ...]  # the function objects
    response_format: Any
    thinking: bool
    dialect: Dialect
    turns: int
    # The open turn's text, and the tool whose call it has begun.
    opened: str
    named: str | None


def read_prompt(prompt: Prompt) -> Asked:
    """What the prompt asks."""
    request = decode(prompt, dialect=prompt.dialect).request
    messages = list(request.messages)
    ending = request.encode().ending
    text, results = _last_said(messages)
    return Asked(
        text=text,
        results=results,
        tools=tuple(_functions(messages)),
        response_format=next(
            (m["response_format"] for m in messages if m.get("response_format")), None
        ),
        thinking=ending.thinking,
        dialect=dialect_named(prompt.dialect),
        turns=len(messages),
        opened=ending.open,
        named=_named(ending.open, dialect_named(prompt.dialect)),
    )


def _last_said(messages: list[dict[str, Any]]) -> tuple[str, tuple[str, ...]]:
    """The user's last text, or the results that came after it."""
    last: list[tuple[str, str]] = []
    for message in messages:
        role = message.get("role")
        if role == "assistant" and not message.get("wo_eos"):
            last = []
        elif role in ("user", "tool", "developer"):
            said = message.get("content") or ""
            said = said if role == "tool" else _REMINDER.sub("", said).strip()
            if said or role == "tool":
                last.append((role, said))
    results: list[str] = []
    for role, said in reversed(last):
        if role != "tool":
            break
        results.insert(0, said)
    if results:
        return "", tuple(results)
    texts: list[str] = []
    for role, said in reversed(last):
        if role == "tool":
            break
        texts.insert(0, said)
    return "\n".join(texts), ()


def _functions(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tools = [tool for message in messages for tool in message.get("tools") or ()]
    return [tool.get("function", tool) for tool in tools]


def _named(opened: str, dialect: Dialect) -> str | None:
    """The tool whose call an open turn has begun."""
    _, opening, rest = opened.rpartition(str(dialect.tags.invoke_open))
    return rest.partition('"')[0] if opening else None

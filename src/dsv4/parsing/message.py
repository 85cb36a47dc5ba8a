"""A read completion: an assistant's message."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dsv4.parsing.diagnostics import DUPLICATE_PARAMETER
from dsv4.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    Event,
    ReasoningDelta,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4.parsing.json_values import without_duplicates


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call: the tool's name, and its arguments as the text of a JSON object."""

    name: str
    arguments: str
    index: int


@dataclass(frozen=True, slots=True)
class Message:
    """What the model wrote."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    # Calls that were cut short.
    incomplete: tuple[ToolCall, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = field(default=())

    def to_dict(
        self, *, ids: str | None = None, reasoning_field: str = "reasoning_content"
    ) -> dict[str, Any]:
        """An OpenAI assistant message. Encoding takes it back.

        Calls get random ids; with `ids`, a name for this message, they are made from it and stay
        the same. Reasoning is left out where there is none, and so are calls.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message[reasoning_field] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [_call_dict(call, ids) for call in self.tool_calls]
        return message


def _call_dict(call: ToolCall, ids: str | None) -> dict[str, Any]:
    id = os.urandom(12).hex() if ids is None else f"{ids}_{call.index}"
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"call_{id}", "type": "function", "function": function}


def assemble(events: Iterable[Event]) -> Message:
    """The message that a parser's events, all of them, make."""
    content: list[str] = []
    reasoning: list[str] = []
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    ended: list[int] = []
    aborted: list[int] = []
    diagnostics: list[Diagnostic] = []
    finish = "length"
    for event in events:
        if isinstance(event, ContentDelta):
            content.append(event.text)
        elif isinstance(event, ReasoningDelta):
            reasoning.append(event.text)
        elif isinstance(event, ArgumentsDelta):
            arguments[event.index].append(event.text)
        elif isinstance(event, ToolCallStart):
            names[event.index] = event.name
            arguments[event.index] = []
        elif isinstance(event, ToolCallEnd):
            ended.append(event.index)
        elif isinstance(event, ToolCallAborted):
            aborted.append(event.index)
        elif isinstance(event, Diagnostic):
            diagnostics.append(event)
        elif isinstance(event, End):
            finish = event.finish
    doubled = any(d.kind == DUPLICATE_PARAMETER for d in diagnostics)

    def call(index: int) -> ToolCall:
        text = "".join(arguments[index])
        return ToolCall(names[index], without_duplicates(text) if doubled else text, index)

    return Message(
        content="".join(content),
        reasoning="".join(reasoning),
        tool_calls=tuple(map(call, ended)),
        finish=finish,
        incomplete=tuple(map(call, aborted)),
        diagnostics=tuple(diagnostics),
    )

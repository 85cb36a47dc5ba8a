"""An assistant's message, assembled from the events of a completion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dsv4._completion.events import (
    UNREAD_CALL_KINDS,
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    Event,
    Finish,
    ReasoningDelta,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._completion.json_text import without_duplicates


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call.

    `name` is the tool's, `arguments` the text of a JSON object, `index` the call's place among all
    calls of the turn. `id` was made when the call was read, and takes no part in comparisons.
    `namespace` is the tool's, in dialects that have namespaces, else None.
    """

    name: str
    arguments: str
    index: int
    id: str = field(default="", compare=False)
    namespace: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """An OpenAI tool call."""
        function = {"name": self.name, "arguments": self.arguments}
        call: dict[str, Any] = {"id": self.id, "type": "function", "function": function}
        if self.namespace is not None:
            call["namespace"] = self.namespace
        return call


@dataclass(frozen=True, slots=True)
class Message:
    """The message that the model wrote.

    `content` and `reasoning` are texts. `tool_calls` are the calls to be made, `incomplete` those
    that were cut short or could not be read, and must not be made. `finish` says why the text
    ended: "stop", "tool_calls", or "length" if it was cut. `diagnostics` are all deviations from
    the strict grammar.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    incomplete: tuple[ToolCall, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def dropped(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of calls that were meant and are not made: a reason to retry.

        They could not be read, were cut short, or are missing in a block that was opened for them.
        """
        kinds = UNREAD_CALL_KINDS | ({"cut_short"} if self.finish == "length" else set())
        return tuple(each for each in self.diagnostics if each.kind in kinds)

    def to_dict(self, *, reasoning_field: str = "reasoning_content") -> dict[str, Any]:
        """An OpenAI assistant message, which `dsv4.encode` takes back.

        `reasoning_field` is the key of the reasoning. Reasoning and calls are left out if there are
        none; calls have their ids.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message[reasoning_field] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return message


def reads_like_an_answer(message: Message) -> bool:
    """Whether a text that was read as beginning in reasoning looks like one without reasoning.

    It has whole calls, and no token that begins or ends reasoning: servers remove those from the
    answers in which they leave the calls. Read as an answer, "Let me look.<block>" needs no repair.
    """
    kinds = {each.kind for each in message.diagnostics}
    unended = {"call_in_reasoning", "unclosed_reasoning"} <= kinds
    return unended and "stray_think" not in kinds and bool(message.tool_calls)


def assemble(events: Iterable[Event]) -> Message:
    """The message that a parser's events add up to.

    `events` are all events of one completion, in order. Returns the same message as `dsv4.parse`
    does for the whole text.
    """
    content: list[str] = []
    reasoning: list[str] = []
    starts: dict[int, ToolCallStart] = {}
    arguments: dict[int, list[str]] = {}
    ended: list[int] = []
    aborted: list[int] = []
    diagnostics: list[Diagnostic] = []
    finish: Finish = "length"
    for event in events:
        if isinstance(event, ContentDelta):
            content.append(event.text)
        elif isinstance(event, ReasoningDelta):
            reasoning.append(event.text)
        elif isinstance(event, ArgumentsDelta):
            arguments[event.index].append(event.text)
        elif isinstance(event, ToolCallStart):
            starts[event.index] = event
            arguments[event.index] = []
        elif isinstance(event, ToolCallEnd):
            ended.append(event.index)
        elif isinstance(event, ToolCallAborted):
            aborted.append(event.index)
            arguments[event.index].append(event.closing)
        elif isinstance(event, Diagnostic):
            diagnostics.append(event)
        elif isinstance(event, End):
            finish = event.finish
    doubled = any(d.kind == "duplicate_parameter" for d in diagnostics)

    def call(index: int) -> ToolCall:
        text, start = "".join(arguments[index]), starts[index]
        text = without_duplicates(text) if doubled else text
        return ToolCall(start.name, text, index, start.id, start.namespace)

    return Message(
        content="".join(content),
        reasoning="".join(reasoning),
        tool_calls=tuple(map(call, ended)),
        finish=finish,
        incomplete=tuple(map(call, aborted)),
        diagnostics=tuple(diagnostics),
    )

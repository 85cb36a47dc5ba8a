"""A whole completion at once: the message in it, or the answer to a quick-instruction task
(format.md, section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dsv4._format import tokens
from dsv4._format.dialects import Dialect
from dsv4._format.endings import Ending
from dsv4._format.tokens import TASK_TOKENS
from dsv4._parse.call_arguments import without_duplicates
from dsv4._parse.events import (
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
from dsv4._parse.parser import StreamParser
from dsv4._parse.parser_options import (
    CallDelivery,
    GivenStops,
    GivenTools,
    StopIn,
    checked_reason,
)
from dsv4._parse.random_ids import new_call_id
from dsv4._parse.reasons import Ended, Reason
from dsv4._parse.strict import StrictMessage
from dsv4.errors import OptionError, ParseError, short_repr
from dsv4.types import DialectName

# What the model answers to a quick-instruction task (format.md, section 7).


# Tasks that are answered with one of a few words, as the model writes them.
_LABELS: dict[str, tuple[str, ...]] = {
    "action": ("Search", "Answer"),
    "read_url": ("yes", "no"),
}


def parse_task(text: str, task: str) -> str:
    """The answer to a quick-instruction task.

    `text` is what the model wrote, `task` the task's name. Returns the task's label in the format's
    spelling, where the task is answered with one of a few labels, else the text without the tokens
    and white space around it. Raises an `OptionError` for an unknown task, and a `ParseError` where
    a task with labels is answered with none of them.
    """
    if task not in TASK_TOKENS:
        raise OptionError(
            "task", f"found {short_repr(task)}, expected one of {', '.join(TASK_TOKENS)}"
        )
    answer = _bare(text)
    labels = _LABELS.get(task)
    if labels is None:
        return answer
    word = answer.strip(" \t\n\"'`.!*").lower()
    for label in labels:
        if word == label.lower():
            return label
    raise ParseError(0, f"found {short_repr(answer)}, expected {' or '.join(labels)}")


def _bare(text: str) -> str:
    """An answer without the tokens that servers leave around it, and outer white space."""
    text = text.strip()
    for token in (tokens.BOS, tokens.THINK_START, tokens.THINK_END, *TASK_TOKENS.values()):
        text = text.removeprefix(token)
    return text.strip().removesuffix(tokens.EOS).strip()


# A read completion: an assistant's message.


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
    """What the model wrote.

    `content` and `reasoning` are texts. `tool_calls` are the calls to be made, `incomplete` those
    that were cut short or could not be read, and must not be made. `finish` says why the text
    ended: "stop", "tool_calls", or "length" where it was cut. `diagnostics` are all deviations from
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

        `reasoning_field` is the name under which the reasoning stands. Reasoning and calls are left
        out where there are none; calls have their ids.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message[reasoning_field] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return message


def reads_like_an_answer(message: Message) -> bool:
    """Whether a text that was read as beginning in reasoning looks like one without any.

    It has whole calls, and nothing that begins or ends reasoning: servers take that out of the
    answers in which they leave the calls. Read as an answer, "Let me look.<block>" needs no repair.
    """
    kinds = {each.kind for each in message.diagnostics}
    unended = {"call_in_reasoning", "unclosed_reasoning"} <= kinds
    return unended and "stray_think" not in kinds and bool(message.tool_calls)


def assemble(events: Iterable[Event]) -> Message:
    """The message that a parser's events make.

    `events` are all events of one completion, in order. Returns what `dsv4.parse` gives for the
    whole text.
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


# A completion read at once.


def parse(
    text: str,
    *,
    ending: Ending | None = None,
    thinking: bool = True,
    tools: GivenTools = None,
    tool_choice: object = "auto",
    dialect: DialectName | Dialect | None = None,
    strict: bool = False,
    stop: GivenStops = (),
    stop_in: StopIn = "content",
    calls: CallDelivery = "streamed",
    new_id: Callable[[], str] = new_call_id,
    prefix: str = "",
    reason: Reason | None = None,
) -> Message:
    """The message in a completion: `StreamParser` with one chunk.

    `text` is all that the model wrote after the prompt. `reason` is why generation ended, if you
    know, as for `StreamParser.finish`. The other options are those of `StreamParser`. Returns a
    `Message`; raises an `OptionError` for an option that is not what it should be, and with
    `strict` a `ParseError` where the text leaves the grammar. Without `strict` no text raises
    anything.
    """
    parser = StreamParser(
        ending=ending,
        thinking=thinking,
        tools=tools,
        tool_choice=tool_choice,
        dialect=dialect,
        strict=strict,
        stop=stop,
        stop_in=stop_in,
        calls=calls,
        new_id=new_id,
        prefix=prefix,
    )
    if isinstance(text, str) and not (strict or stop or parser._continues):
        message = parser._read_plainly(text)
        if message is not None:
            return _well_formed(message, checked_reason(reason), new_id)
    return assemble([*parser.feed(text), *parser.finish(reason)])


def _well_formed(message: StrictMessage, ended: Ended | None, new_id: Callable[[], str]) -> Message:
    """The message of a completion that is read in one way only."""
    calls = tuple(
        ToolCall(name, arguments, index, new_id())
        for index, (name, arguments) in enumerate(message.calls)
    )
    finish: Finish = "tool_calls" if calls else "stop"
    if ended is not None and ended.is_cut and not message.has_eos:
        finish = "length"
    return Message(message.content, message.reasoning, calls, finish)

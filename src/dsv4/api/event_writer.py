"""The writer that all protocols share: the parser's events in, protocol events or bytes of
server-sent events out.

A protocol defines how it writes text and calls. This module decides when they are written, so that
no protocol ever sends an incomplete call.
"""

from __future__ import annotations

import json
import json.encoder
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from dsv4._completion.events import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    Event,
    ReasoningDelta,
    StopHit,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._completion.json_text import without_duplicates
from dsv4._completion.message import ToolCall
from dsv4._completion.random_ids import new_id
from dsv4._completion.reasons import Ended, Reason, ended_by
from dsv4.api.api_request import ApiRequest, protocol_call_id
from dsv4.api.neutral_request import NAMESPACE_SEPARATOR, ToolName

# Server-sent events.


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
# JSON allows these characters unescaped, and the standard for events gives them no meaning. But
# some readers end a line at them, because Python's own `splitlines` does.
_UNSAFE_CHARACTERS = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
# A text as JSON.
_quoted: Callable[[str], str] = json.encoder.encode_basestring


def is_line_safe(text: str) -> bool:
    """Whether a text certainly has no unsafe character: these are not printable in Unicode."""
    return text.isascii() or text.isprintable()


def in_quotes(text: str) -> bytes:
    """A text as JSON writes it between quotes, without line ends of any kind."""
    inside = _quoted(text)[1:-1]
    return (inside if is_line_safe(text) else _line_safe(inside)).encode()


def one_line_json(value: object) -> str:
    """A value as JSON on one line, in as few characters as possible."""
    text = _encoder.encode(value)
    return text if is_line_safe(text) else _line_safe(text)


def _line_safe(text: str) -> str:
    return _UNSAFE_CHARACTERS.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return "\ufffd" if character >= "\ud800" else f"\\u{ord(character):04x}"


def named_frame(event: dict[str, Any]) -> bytes:
    """A frame of `event` with its type as the name, as the newer protocols have them."""
    return f"event: {event['type']}\ndata: {one_line_json(event)}\n\n".encode()


def unnamed_frame(event: dict[str, Any]) -> bytes:
    """A frame of `event` without a name."""
    return f"data: {one_line_json(event)}\n\n".encode()


KEEP_ALIVE_FRAME = b": keep-alive\n\n"
DONE_FRAME = b"data: [DONE]\n\n"


# The number of tokens of a request.


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the prompt (`cached` of them were in a cache, None if that is unknown) and of the
    completion (`reasoning` of them were thinking)."""

    prompt: int = 0
    cached: int | None = None
    completion: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """The tokens of prompt and completion."""
        return self.prompt + self.completion


# The state of a completion, which a writer of any protocol keeps.


@dataclass(slots=True)
class HeldCall:
    """A call that has not ended yet."""

    id: str
    tool: ToolName
    parts: list[str] = field(default_factory=list)
    # Its index among the calls that were sent, None until a part of it is sent.
    position: int | None = None
    # The bytes before and after a piece of its arguments, if these are sent as they come.
    around: tuple[bytes, bytes] | None = None
    # Text that came after it and waits for its end, because only one part may be open at a time.
    behind: list[tuple[ReasoningDelta | ContentDelta, Logprobs]] = field(default_factory=list)


@dataclass(slots=True)
class FittedCallEnd(ToolCallEnd):
    """The end of a call that is sent with other `arguments` than the model wrote."""

    arguments: str = "{}"


@dataclass(slots=True)
class Outcome:
    """One choice so far: its calls, and how it ended."""

    open: dict[int, HeldCall] = field(default_factory=dict)
    call_count: int = 0
    complete: int = 0
    cut: list[HeldCall] = field(default_factory=list)
    repeats_keys: bool = False
    finish: str = "stop"
    stop: str | None = None

    def reason(self, engine_reason: str | None) -> str:
        """The reason it ended: "tool_calls", "content_filter", "length", "stop_string" or "stop".

        The first of these that applies decides. A client that was sent a part of a cut call must
        run no call. Complete calls: clients would run none of them after "length". A stop string
        that was hit. A cut that the engine (`engine_reason`) or the parser reports.
        """
        ended = ended_by(engine_reason)
        if any(call.position is not None for call in self.cut):
            return "content_filter" if ended is Ended.FILTER else "length"
        if self.complete:
            return "tool_calls"
        if self.stop is not None:
            return "stop_string"
        if ended is Ended.FILTER:
            return "content_filter"
        return "length" if ended is Ended.LENGTH or self.finish == "length" else "stop"


_TEXTS = ReasoningDelta, ContentDelta
ProtocolEvent: TypeAlias = dict[str, Any]
Events: TypeAlias = list[ProtocolEvent]
# The log probabilities of tokens: one object for each, as Chat Completions has them.
Logprobs: TypeAlias = Sequence[dict[str, Any]] | None
# An event of the parser, by itself or with the log probabilities of its tokens.
LoggedEvent: TypeAlias = Event | tuple[Event, Logprobs]
# The events of one choice; where a request wants several choices, those of each.
ChoiceEvents: TypeAlias = Iterable[LoggedEvent] | Iterable[Iterable[LoggedEvent]]
# The reason why the engine stopped: one for all choices, or one for each.
FinishReason: TypeAlias = Reason | Sequence[Reason | None] | None
# Returns the mark that a client is to give back with reasoning; None leaves that to the protocol.
Seal: TypeAlias = Callable[[], str | None]


class EventWriter:
    """Turns the parser's events, one at a time, into the protocol's events.

    Call `start`, any number of `write` and `keep_alive`, then `finish`, or `fail` at any time.
    Each returns a list of events, which may be empty.
    """

    id_prefix = ""
    # Whether text may be sent while a call is open.
    interleaves = False
    # Turns an event into bytes.
    frame: Callable[[ProtocolEvent], bytes]

    def __init__(
        self,
        call: ApiRequest,
        *,
        id: str | None = None,
        created: int | None = None,
        model: str | None = None,
        seal: Seal | None = None,
    ) -> None:
        """`call` is the request that is answered. `id` (made if not given), `created` (a time in
        seconds) and `model` (the request's if not given) are written into the response. `seal`
        is called when reasoning ends and returns the mark that the client is to give back with it.
        If it returns None, or is None itself, that is left to the protocol."""
        self.call = call
        self.id: str = id or new_id(self.id_prefix)
        self.created: int = int(time.time()) if created is None else created
        self.model: str = model or call.model
        self.outcomes: list[Outcome] = [Outcome() for _ in range(call.n)]
        # The template for the next piece of the open text: the type and the choice of the event
        # that brings it, and the bytes before and after its text.
        self.template_event: type | None = None
        self.template_choice = 0
        self.before = self.after = b""
        self._streamed = call.settings.calls == "streamed"
        self._seal = seal
        self._input = Usage()
        self._set_up()

    def _set_up(self) -> None:
        """Initialises the state that only one protocol needs."""

    @property
    def done(self) -> bool:
        """Whether no later event would be written: one call was wanted, and it is complete."""
        return not self.call.parallel and all(outcome.complete for outcome in self.outcomes)

    def hold_calls(self) -> None:
        """Makes the writer send only complete calls, whatever the settings say: a whole answer
        does not need pieces, and must not have a part of a call that was cut."""
        self._streamed = False

    def _sealed(self) -> str | None:
        return None if self._seal is None else self._seal()

    def write(self, event: Event, choice: int = 0, logprobs: Logprobs = None) -> Events:
        """The protocol events for an `event` of the parser. `choice` is the index of the choice it
        belongs to, `logprobs` has the log probabilities of its tokens, if the backend gives any."""
        handler = HANDLERS.get(event.__class__)
        if handler is None:
            return []
        outcome = self.outcomes[choice]
        if outcome.complete and not self.call.parallel and handler in CONTENT_HANDLERS:
            return []
        if isinstance(event, _TEXTS) and (call := self._call_sent(outcome)) is not None:
            call.behind.append((event, logprobs))
            return []
        return handler(self, event, choice, outcome, logprobs)

    def _call_sent(self, outcome: Outcome) -> HeldCall | None:
        """The open call, if its beginning was sent and no text may be sent before its end."""
        sent = () if self.interleaves or not self._streamed else outcome.open.values()
        return next((call for call in sent if call.position is not None), None)

    def _write_behind(self, call: HeldCall, choice: int) -> Events:
        """Writes the text that came after a call, pieces of the same kind joined."""
        events: Events = []
        for kind, pieces in groupby(call.behind, lambda piece: piece[0].__class__):
            texts = [*pieces]
            text = kind("".join(event.text for event, _ in texts))
            probabilities = [one for _, of_piece in texts for one in of_piece or ()]
            events += self.write(text, choice, probabilities or None)
        return events

    def frames(self, events: Sequence[Event], choice: int = 0, logprobs: Logprobs = None) -> bytes:
        """The protocol events for `events` of the parser, as bytes of server-sent events.

        `choice` and `logprobs` are as for `write`. The most common event, a further piece of the
        open text, takes a shorter way: the bytes before and after its text are ready.
        """
        if len(events) == 1 and logprobs is None:
            event = events[0]
            kind = event.__class__
            if kind is self.template_event and choice == self.template_choice:
                if event.text:  # type: ignore[union-attr]
                    return self.text_frame(event.text)  # type: ignore[union-attr]
            elif kind is ArgumentsDelta:
                return self._arguments_frame(event, choice)  # type: ignore[arg-type]
        return self._all_frames(events, choice, logprobs)

    def text_frame(self, text: str, written: bytes = b"") -> bytes:
        """The frame of `text` as a further piece of the open text, the `template_event` of
        `template_choice`. `written` is `text` as JSON writes it between quotes, where known."""
        return b"".join((self.before, written or in_quotes(text), self.after))

    def _arguments_frame(self, event: ArgumentsDelta, choice: int) -> bytes:
        call = self.outcomes[choice].open.get(event.index)
        if call is None:
            return b""
        if self._streamed and (call.around is None or not event.text):
            return self._all_frames([event], choice, None)
        call.parts.append(event.text)
        if call.around is None:
            return b""
        before, after = call.around
        return b"".join((before, in_quotes(event.text), after))

    def _all_frames(self, events: Sequence[Event], choice: int, logprobs: Logprobs) -> bytes:
        protocol_events = [e for event in events for e in self.write(event, choice, logprobs)]
        return b"".join(map(self.frame, protocol_events)) if protocol_events else b""

    def drop_template(self) -> None:
        """Forgets the template: no text is open any more."""
        self.template_event = None

    def set_template(self, event: type, choice: int, delta: ProtocolEvent) -> None:
        """Sets the template for pieces of the open text. `event` is their type, `choice` their
        choice, `delta` the protocol event for a piece, with a zero byte for its text."""
        self.template_event, self.template_choice = event, choice
        self.before, self.after = self._around(delta)

    def _around(self, delta: ProtocolEvent) -> tuple[bytes, bytes]:
        """The bytes of a frame before and after its text, which is a zero byte in `delta`."""
        before, _, after = self.frame(delta).rpartition(in_quotes("\0"))
        return before, after

    def start(self, input_tokens: int = 0, cached: int | None = None) -> Events:
        """The events that open a response. The prompt has `input_tokens` tokens, `cached` of them
        in a cache."""
        raise NotImplementedError

    def keep_alive(self) -> Events:
        """The events that keep an idle connection alive."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> Events:
        """The events that tell the client that the response has failed with `error`."""
        raise NotImplementedError

    def finish(self, usage: Usage | None = None, reason: FinishReason = None) -> Events:
        """The events that close a response. `usage` are the counted tokens, `reason` is the
        engine's reason to stop."""
        raise NotImplementedError

    def _reason(self, choice: int, reason: FinishReason) -> str:
        """The reason why a choice ended, as `Outcome.reason` names it."""
        own = reason if reason is None or isinstance(reason, str) else reason[choice]
        return self.outcomes[choice].reason(own)

    # Methods that a protocol defines. `position` counts the calls of a choice that are sent.

    def reasoning(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        """More of the thinking of a `choice`: `text`, with the `logprobs` of its tokens."""
        raise NotImplementedError

    def content(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        """More of the answer of a `choice`: `text`, with the `logprobs` of its tokens."""
        raise NotImplementedError

    def call_start(self, call: HeldCall, choice: int) -> Events:
        """The start of a `call` of a `choice`: its id and its name."""
        raise NotImplementedError

    def call_arguments(self, call: HeldCall, text: str, choice: int) -> Events:
        """More of the arguments of a `call` of a `choice`: `text`."""
        raise NotImplementedError

    def call_delta(self, call: HeldCall, choice: int) -> ProtocolEvent | None:
        """The event for a further piece of the arguments of a `call` of a `choice`, with a zero
        byte for its text. None if more than the text changes from piece to piece."""
        return None

    def call_end(self, call: HeldCall, choice: int) -> Events:
        """The end of a `call` of a `choice`."""
        raise NotImplementedError

    def call_cut(self, call: HeldCall, choice: int) -> Events:
        """The end of a `call` of a `choice` that was sent while it was written, and was cut."""
        return []

    # Handlers of the parser's events, which decide when something is written.

    def _reasoning(
        self, event: ReasoningDelta, choice: int, outcome: Outcome, logprobs: Logprobs
    ) -> Events:
        return self.reasoning(event.text, choice, logprobs) if event.text else []

    def _content(
        self, event: ContentDelta, choice: int, outcome: Outcome, logprobs: Logprobs
    ) -> Events:
        return self.content(event.text, choice, logprobs) if event.text else []

    def _start(self, event: ToolCallStart, choice: int, outcome: Outcome, _: Logprobs) -> Events:
        call = HeldCall(protocol_call_id(self.call.protocol, event.id), self._tool(event))
        outcome.open[event.index] = call
        return self._begin(call, choice, outcome) if self._streamed else []

    def _arguments(
        self, event: ArgumentsDelta, choice: int, outcome: Outcome, _: Logprobs
    ) -> Events:
        call = outcome.open.get(event.index)
        if call is None:
            return []
        call.parts.append(event.text)
        return self.call_arguments(call, event.text, choice) if self._streamed else []

    def _end_call(self, event: ToolCallEnd, choice: int, outcome: Outcome, _: Logprobs) -> Events:
        call = outcome.open.pop(event.index, None)
        if call is None:
            return []
        outcome.complete += 1
        if self._streamed:
            return [*self.call_end(call, choice), *self._write_behind(call, choice)]
        arguments = "".join(call.parts)
        if outcome.repeats_keys:
            arguments = without_duplicates(arguments)
            call.parts = [arguments]
        return [
            *self._begin(call, choice, outcome),
            *self.call_arguments(call, arguments, choice),
            *self.call_end(call, choice),
        ]

    def _end_fitted(
        self, event: FittedCallEnd, choice: int, outcome: Outcome, logprobs: Logprobs
    ) -> Events:
        if event.index in outcome.open:
            outcome.open[event.index].parts = [event.arguments]
        return self._end_call(event, choice, outcome, logprobs)

    def _begin(self, call: HeldCall, choice: int, outcome: Outcome) -> Events:
        call.position = outcome.call_count
        outcome.call_count += 1
        events = self.call_start(call, choice)
        delta = self.call_delta(call, choice) if self._streamed else None
        call.around = None if delta is None else self._around(delta)
        return events

    def _abort(self, event: ToolCallAborted, choice: int, outcome: Outcome, _: Logprobs) -> Events:
        call = outcome.open.pop(event.index, None)
        if call is None:
            return []
        outcome.cut.append(call)
        if call.position is not None:
            return [*self.call_cut(call, choice), *self._write_behind(call, choice)]
        call.parts.append(event.closing)
        return []

    def _diagnose(self, event: Diagnostic, choice: int, outcome: Outcome, _: Logprobs) -> Events:
        outcome.repeats_keys |= event.kind == "duplicate_parameter"
        return []

    def _stop(self, event: StopHit, choice: int, outcome: Outcome, _: Logprobs) -> Events:
        outcome.stop = event.string
        return []

    def _end(self, event: End, choice: int, outcome: Outcome, _: Logprobs) -> Events:
        outcome.finish = event.finish
        return []

    def _tool(self, event: ToolCallStart) -> ToolName:
        """The client's name of the tool. An undeclared tool keeps the model's name."""
        if event.namespace is None:
            return self.call.names.get(event.name) or ToolName(event.name)
        name = f"{event.namespace}{NAMESPACE_SEPARATOR}{event.name}"
        return self.call.names.get(name) or ToolName(event.name, event.namespace)


def full_tool_name(tool: ToolName | ToolCall) -> str:
    """The name of a tool in one string, for protocols without namespaces."""
    return (
        tool.name if tool.namespace is None else f"{tool.namespace}{NAMESPACE_SEPARATOR}{tool.name}"
    )


def protocol_events(
    writer: EventWriter, events: ChoiceEvents, usage: Usage | None, reason: FinishReason
) -> Iterator[ProtocolEvent]:
    """All protocol events for the parser's events: those of one choice, or of each.

    An event may also be a pair: the event itself, and the log probabilities of its tokens.
    """
    writer.hold_calls()
    counted = usage or Usage()
    yield from writer.start(input_tokens=counted.prompt, cached=counted.cached)
    of_each: Any = [events] if writer.call.n == 1 else events  # `n` tells the two forms apart
    for choice, choice_events in enumerate(of_each):
        for event in choice_events:
            parser_event, logprobs = event if isinstance(event, tuple) else (event, None)
            yield from writer.write(parser_event, choice, logprobs)
    yield from writer.finish(usage=usage, reason=reason)


@dataclass(frozen=True)
class WholeResponse:
    """A protocol's function `whole`: the events of a `writer_class`, folded by `fold`."""

    writer_class: type[EventWriter]
    fold: Callable[[Iterable[ProtocolEvent]], dict[str, Any]]

    def __call__(
        self,
        call: ApiRequest,
        events: ChoiceEvents,
        *,
        usage: Usage | None = None,
        reason: FinishReason = None,
        id: str | None = None,
        created: int | None = None,
        model: str | None = None,
        seal: Seal | None = None,
    ) -> dict[str, Any]:
        """The response of `call`, a request that does not stream.

        `events` are the parser's; where the request wants several choices, a list of them for each.
        `usage` and `reason` are what `Writer.finish` takes; `id`, `created`, `model` and `seal` are
        what `Writer` takes.
        """
        writer = self.writer_class(call, id=id, created=created, model=model, seal=seal)
        return self.fold(protocol_events(writer, events, usage, reason))


# The handlers of the parser's events: the handler of a class takes only events of that class.
Handler: TypeAlias = Callable[[EventWriter, Any, int, Outcome, Logprobs], Events]
HANDLERS: dict[type, Handler] = {
    ReasoningDelta: EventWriter._reasoning,
    ContentDelta: EventWriter._content,
    ToolCallStart: EventWriter._start,
    ArgumentsDelta: EventWriter._arguments,
    ToolCallEnd: EventWriter._end_call,
    FittedCallEnd: EventWriter._end_fitted,
    ToolCallAborted: EventWriter._abort,
    Diagnostic: EventWriter._diagnose,
    StopHit: EventWriter._stop,
    End: EventWriter._end,
}
# Handlers that write nothing any more after the one call that was wanted.
CONTENT_HANDLERS = {
    HANDLERS[kind]
    for kind in (
        *(ReasoningDelta, ContentDelta),
        *(ToolCallStart, ArgumentsDelta, ToolCallEnd, FittedCallEnd),
    )
}

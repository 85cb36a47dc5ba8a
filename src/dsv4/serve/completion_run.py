"""One request being answered: its completions are generated, passed on as they come, and
stored.

A task for each choice reads the backend's pieces and passes them on itself: a piece wakes nothing
else. While the client takes nothing, nothing is read; pieces that have gathered meanwhile are sent
in one write.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar

from dsv4._completion.events import Diagnostic, End, Event, ReasoningDelta
from dsv4._completion.message import assemble
from dsv4._completion.reasons import Reason
from dsv4.api import ApiError, ContextOverflow, Usage
from dsv4.api.event_writer import (
    Events,
    EventWriter,
    FinishReason,
    FittedCallEnd,
    LoggedEvent,
    full_tool_name,
)
from dsv4.api.neutral_request import mark_id
from dsv4.api.protocols import ApiProtocol
from dsv4.api.request_fields import JsonObject
from dsv4.serve import asgi
from dsv4.serve.access.api_keys import Key
from dsv4.serve.backend import AnyBackend, BackendError, BackendOverflow, Chunks, TakeText
from dsv4.serve.choice_reader import ChoiceReader, total_usage
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.generation import FindTextWay, Generation, PassEvents
from dsv4.serve.images.sent_images import picture_ids
from dsv4.serve.observe.logs import by_itself, log_healed
from dsv4.serve.observe.records import Exchange
from dsv4.serve.prepared_request import PreparedRequest
from dsv4.serve.reported_route import BrokenOff, client_error, is_expected
from dsv4.serve.sessions.session_calls import SessionEntry
from dsv4.serve.storage.stored_turns import SampledCall, SampledTurn
from dsv4.serve.text_way import TextWay
from dsv4.serve.upstreams.engine_pool import EngineLease, PromptPrefix
from dsv4.trajectories.recorded_calls import CallState

# The number of last pieces of a completion that are shown while it runs.
_TAIL_PIECES = 40

PreparedT = TypeVar("PreparedT", bound=PreparedRequest)


class CompletionClient(NamedTuple):
    """A client: its key, its connection, the event that its turn has come, its own id of the
    request, if any, and the session that it is in, if any."""

    key: Key
    headers: Mapping[str, str]
    receive: asgi.Receive
    send: asgi.Send
    send_piece: asgi.Send
    write_now: asgi.WriteNow
    turn: asyncio.Event
    request_id: str | None
    session: SessionEntry | None


@dataclass(eq=False, repr=False)
class CompletionRun(ABC, Generic[PreparedT]):
    """One generation, streamed or whole, and the records of it. A subclass defines how it is
    generated."""

    _server: GatewayState
    _api: ApiProtocol
    _prepared: PreparedT
    _client: CompletionClient
    _debug: bool
    _leases: dict[int, EngineLease] = field(default_factory=dict)  # by choice

    def __post_init__(self) -> None:
        self.readers: list[ChoiceReader] = [
            self._new_reader() for _ in range(self._prepared.call.n)
        ]
        settings, turn = self._server.settings, self._client.turn
        self._generation = Generation(
            settings, self.readers, self._open, turn, self._takes_over, self._renew
        )

    # Methods of the two kinds.

    @abstractmethod
    def _new_reader(self) -> ChoiceReader:
        """A reader for a completion."""

    @abstractmethod
    def _stream_of(self, backend: AnyBackend, choice: int) -> Chunks:
        """The completion of a choice while it comes."""

    @abstractmethod
    def _new_prefix(self) -> PromptPrefix:
        """The prefix that shows which engine has the beginning of the conversation in its cache."""

    def _as_client_knows(self, turn: SampledTurn) -> SampledTurn:
        """A turn with the client's own names in it."""
        return turn

    @abstractmethod
    async def _remember(self, turn: SampledTurn) -> None:
        """Keeps a turn for when it is sent back."""

    # The run.

    def _open(self, choice: int) -> Chunks:
        session = self._client.session
        if session is not None and session.tokens_left == 0:
            return session.ended_stream()
        if choice not in self._leases:
            self._leases[choice] = EngineLease(self._server.engines, self._prefix)
        return self._stream_of(self._leases[choice].engine.backend, choice)

    @cached_property
    def _prefix(self) -> PromptPrefix | None:
        """None where there is only one engine."""
        return self._new_prefix() if self._server.engines.chooses else None

    def _takes_over(self, choice: int, error: BackendError) -> bool:
        return choice in self._leases and self._leases[choice].moved_on(error)

    def _renew(self, choice: int) -> bool:
        """Makes a new reader for an answer without content, except in a session: that keeps every
        token that was sampled."""
        if self._client.session is not None:
            return False
        self.readers[choice] = self._new_reader()
        return True

    @property
    def engine(self) -> str | None:
        """The engine that answers the first choice; None before it is asked."""
        return self._leases[0].engine.url if 0 in self._leases else None

    async def run(self) -> ApiError | None:
        """Answers the client. Returns the error that a stream ended with, if any; raises an error
        that the client has not been told."""
        watch = asgi.DisconnectWatch(self._client.receive, self._generation.client_gone)
        session = self._client.session
        if session is not None:
            session.begin(self.readers)
        try:
            if self._prepared.call.stream:
                return await self._stream()
            await self._whole()
            return None
        finally:
            self._generation.timer.close()
            await watch.close()
            for choice, lease in self._leases.items():
                has_answered = self.readers[choice].first_at is not None
                lease.close(has_answered, self._generation.failure)
            if session is not None and not session.has_ended:
                state: CallState = "left" if self._generation.has_left else "failed"
                session.broke_off(self._prepared, self.readers, state)
            self._count_and_record()

    # For observers.

    @property
    def usage(self) -> Usage:
        return total_usage(self.readers, self._prepared.encoded.tokens)

    @property
    def timer(self) -> asgi.StreamTimer:
        return self._generation.timer

    @property
    def tail(self) -> str:
        """The end of the raw text of the first choice."""
        reader, tokenizer = self.readers[0], self._server.tokenizer
        if reader.has_ids and tokenizer is not None:
            return tokenizer.decode(reader.sampled_ids[-_TAIL_PIECES:])
        return "".join(reader.sampled_text[-_TAIL_PIECES:])

    # For streamed and whole answers.

    @property
    def _headers(self) -> dict[str, str]:
        prepared = self._prepared
        facts = self._server.model.facts_of(prepared.encoded.prompt.dialect)
        replaced_count = prepared.images.replaced_count
        headers = {
            "x-request-id": self._client.request_id or prepared.turn_ids[0],
            "x-dsv4-dialect": facts.in_short,
            "x-dsv4-prefix": "" if prepared.shared is None else str(prepared.shared),
            "x-dsv4-adapted": ",".join(prepared.adapted),
            "x-dsv4-images": f"replaced={replaced_count}" if replaced_count else "",
            "x-dsv4-ignored": prepared.received.ignored,
        }
        return {name: value for name, value in headers.items() if value}

    def _reason(self) -> FinishReason:
        """The reason why the engine stopped: of each choice, where there are several."""
        reasons = [_engine_reason(reader) for reader in self.readers]
        return reasons if len(reasons) > 1 else reasons[0]

    def _debugged(self) -> dict[str, Any]:
        messages = [assemble(reader.events) for reader in self.readers]
        return {
            "prompt": self._prepared.encoded.prompt.text,
            "completion": [reader.sampled for reader in self.readers],
            "diagnostics": [asdict(each) for message in messages for each in message.diagnostics],
            "adapted": list(self._prepared.adapted),
        }

    async def _generate(
        self,
        deliver: PassEvents,
        alive: Callable[[], Awaitable[None]] | None,
        text_way: FindTextWay | None = None,
    ) -> None:
        try:
            await self._generation.run(deliver, alive, text_way)
        except BackendOverflow as error:
            # Only the backend could find that the prompt is too long. Clients read both numbers.
            limit = error.limit or self._server.model.context
            tokens = error.tokens or max(self._prepared.encoded.tokens, limit + 1)
            raise ContextOverflow(tokens, limit) from error

    # Whole.

    async def _whole(self) -> None:
        await self._generate(lambda choice, events: None, None)
        done = self._generation.done
        body = await done(self._folded, self._upstream_id)
        if self._debug:
            body["dsv4"] = self._debugged()
        await self._store(body)
        data = await done(asgi.json_bytes, body)
        self._tell_whether_delivered()
        await asgi.send_bytes(self._client.send, 200, data, "application/json", self._headers)

    def _tell_whether_delivered(self) -> None:
        """Called before the very end: after it, every client disconnects."""
        session = self._client.session
        if session is not None and self._generation.has_left:
            session.undelivered()

    def _folded(self, id: str | None) -> dict[str, Any]:
        """The whole response, under the given id if there is one already."""
        call = self._prepared.call
        events: list[list[LoggedEvent]] = [
            [(event, reader.logprobs_of(event)) for event in reader.events]
            for reader in self.readers
        ]
        return self._api.whole(
            call,
            events if call.n > 1 else events[0],
            usage=self.usage,
            reason=self._reason(),
            id=id,
            seal=self._seal,
        )

    # Streamed.

    async def _stream(self) -> ApiError | None:
        generation = self._generation
        writer = self._api.Writer(self._prepared.call, seal=self._seal)
        client, timer = self._client, generation.timer
        stream = asgi.EventStream(
            client.send, client.send_piece, self._headers, timer, client.write_now
        )
        frames = self._api.frames
        # Events with their own log probabilities are not joined.
        framed = (
            partial(self._framed_alone, writer) if self._prepared.call.logprobs else writer.frames
        )
        # A sealed turn is sent where the reasoning ends: everything after it must wait for the
        # turn's end.
        seals = self._server.storage.turns.seal is not None
        later: list[tuple[int, list[Event]]] | None = [] if seals else None
        is_plain = not (seals or self._prepared.call.logprobs)

        def deliver(choice: int, events: list[Event]) -> Awaitable[None] | None:
            if later is not None:
                events = _held_back(later, choice, events)
            start = b"" if stream.has_begun else frames(self._first_events(writer))
            data = framed(events, choice)
            if start:
                data = start + data
            return stream.push(data) if data else None

        def text_way(choice: int, reader: ChoiceReader) -> TakeText:
            return TextWay(reader, choice, writer, stream, timer).take

        async def alive() -> None:
            start = None if stream.has_begun else self._first_events(writer)
            await stream.write(frames(start or writer.keep_alive()))

        try:
            await self._generate(deliver, alive, text_way if is_plain else None)
            for choice, events in later or ():
                await stream.write(framed(events, choice))
            last = writer.finish(usage=self.usage, reason=self._reason())
            if self._debug:
                last[-1]["dsv4"] = self._debugged()
            await self._store(last[-1].get("response"))
            await stream.write(frames(last))
            self._tell_whether_delivered()
        except asgi.ClientGone:
            self._tell_whether_delivered()
            raise
        except Exception as error:
            if not stream.has_begun:
                raise
            # The protocol's own error, and then no clean end, which clients would take for the
            # answer's.
            api_error = client_error(error)
            await stream.write(frames(writer.fail(api_error)))
            if not is_expected(error):
                raise BrokenOff(api_error.message) from error
            self._server.metrics.count_failure(error)
            return api_error
        await stream.end()
        return None

    def _first_events(self, writer: EventWriter) -> Events:
        """The events that open the response, under the upstream's id for it if that is known."""
        writer.id = self._upstream_id or writer.id
        return writer.start(input_tokens=self._prepared.encoded.tokens)

    @property
    def _upstream_id(self) -> str | None:
        return self.readers[0].id if self._prepared.call.protocol == "chat" else None

    def _framed_alone(self, writer: EventWriter, events: list[Event], choice: int) -> bytes:
        """Events of a choice as bytes, each with the log probabilities of its tokens."""
        logprobs_of = self.readers[choice].logprobs_of
        return b"".join(writer.frames([e], choice, logprobs_of(e)) for e in events)

    # Records.

    def _seal(self) -> str | None:
        """The mark that the client is to send back with its reasoning: the sealed turn, or its
        name. None where clients may send back nothing but the reasoning itself."""
        server, prepared = self._server, self._prepared
        turns, mark = server.storage.turns, None
        if turns.seal is not None:
            turn = self._turn_to_keep(prepared.turn_ids[0], self.readers[0])
            mark = None if turn is None else turns.sealed(self._client.key.name, turn)
        if mark is None and prepared.call.protocol != "responses":
            return mark_id(prepared.turn_ids[0])
        return mark

    def _turn_to_keep(self, turn_id: str, reader: ChoiceReader) -> SampledTurn | None:
        turn = _sampled_turn(turn_id, reader, self._prepared)
        if turn is None:
            return None
        engine = self.engine if self._server.engines.chooses else None
        return replace(self._as_client_knows(turn), engine=engine)

    async def _store(self, response: JsonObject | None) -> None:
        """Keeps the turn before the client has all of it: it may be sent back immediately."""
        storage, prepared = self._server.storage, self._prepared
        for turn_id, reader in zip(prepared.turn_ids, self.readers, strict=True):
            turn = self._turn_to_keep(turn_id, reader)
            if turn is not None:
                await self._remember(turn)
        session = self._client.session
        if session is not None:
            await session.finish(prepared, self.readers)
        if response is not None and prepared.call.protocol == "responses":
            await storage.responses.keep(self._client.key.name, prepared.received.body, response)

    def _count_and_record(self) -> None:
        with by_itself("remembering the prefix"):
            self._note_prefix()
        with by_itself("counting the answer"):
            self._count()
        with by_itself("recording the answer"):
            if self._server.recorder is not None:
                self._record()

    def _note_prefix(self) -> None:
        prompt, ids, *_ = self._prepared.encoded
        reader = self.readers[0]
        if ids is not None and reader.has_ids:
            whole = [*picture_ids(prompt, ids), *reader.sampled_ids]
            self._server.prefixes.note(self._client.key.name, whole)

    def _count(self) -> None:
        server, prepared = self._server, self._prepared
        began = prepared.received.began
        server.metrics.count_usage(self.usage)
        if prepared.images.sent_count or prepared.images.replaced_count:
            server.metrics.count_images(prepared.images)
        server.metrics.observe("request_seconds", time.monotonic() - began)
        for turn_id, reader in zip(prepared.turn_ids, self.readers, strict=True):
            server.metrics.count_events(reader.events, is_whole=self._generation.is_whole)
            log_healed(turn_id, reader.events)
            if reader.first_at is not None:
                server.metrics.observe("first_token_seconds", reader.first_at - began)

    def _record(self) -> None:
        recorder, prepared = self._server.recorder, self._prepared
        assert recorder is not None
        for reader in self.readers:
            message = assemble(reader.events)
            recorder.write(
                Exchange(
                    protocol=prepared.call.protocol,
                    request=prepared.received.body,
                    dialect=str(prepared.call.request.dialect),
                    settings=asdict(self._server.model.api_settings),
                    prompt=prepared.encoded.prompt.text,
                    recalled=prepared.recalled,
                    adapted=list(prepared.adapted),
                    completion=reader.sampled,
                    ids=list(reader.sampled_ids) if reader.has_ids else None,
                    deltas=reader.deltas,
                    stopped=reader.finish,
                    finish=message.finish,
                    message=message.to_dict(),
                    diagnostics=[asdict(diagnostic) for diagnostic in message.diagnostics],
                    seconds=round(time.monotonic() - prepared.received.began, 3),
                )
            )


def _engine_reason(reader: ChoiceReader) -> Reason | None:
    """The reason why the engine stopped, unless the gateway ended the text, or the model's own EOS
    takes precedence."""
    is_cut = reader.events[-1] == End("length")
    return reader.finish if is_cut and not reader.is_done else None


def _held_back(
    later: list[tuple[int, list[Event]]], choice: int, events: list[Event]
) -> list[Event]:
    """The reasoning at the start of a turn; everything from its end on is added to `later`."""
    kinds = (ReasoningDelta, Diagnostic)
    after = next((n for n, event in enumerate(events) if not isinstance(event, kinds)), len(events))
    after = 0 if later else after
    if events[after:]:
        later.append((choice, events[after:]))
    return events[:after]


def _sampled_turn(
    turn_id: str, reader: ChoiceReader, prepared: PreparedRequest
) -> SampledTurn | None:
    message = assemble(reader.events)
    if message.incomplete:
        return None  # the client's version is not the sampled one
    fitted = {e.index: e.arguments for e in reader.events if isinstance(e, FittedCallEnd)}
    # The opening of a call that was asked for was not sampled, but belongs to the turn.
    is_opened = prepared.call.request.tool_choice not in ("auto", "none")
    prompt, ids, *_ = prepared.encoded
    opening = prompt.ending.open if is_opened else ""
    opening_ids = ids[-prepared.opening_size :] if ids and prepared.opening_size else []
    has_ids = reader.has_ids and bool(opening_ids) == bool(opening)
    return SampledTurn(
        id=turn_id,
        text=opening + reader.sampled,
        ids=(*opening_ids, *reader.sampled_ids) if has_ids else None,
        content=message.content,
        reasoning=message.reasoning,
        calls=tuple(
            SampledCall(call.id, full_tool_name(call), call.arguments, fitted.get(call.index))
            for call in message.tool_calls
        ),
    )

"""One request being answered: its completions are generated, passed on as they come, and
stored.

A task for each choice reads what the backend sends and passes it on itself: a piece wakes nothing
else. While the client takes nothing, nothing is read; what has gathered meanwhile goes out in one
write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import quote

from dsv4._encode.prompt import Prompt
from dsv4._parse.events import Diagnostic, End, Event, ReasoningDelta
from dsv4._parse.parse import ToolCall, assemble
from dsv4._parse.parser_options import Reason
from dsv4.api import ApiError, ApiRequest, ContextOverflow, Usage
from dsv4.api.errors import as_api_error
from dsv4.api.event_writer import Events, EventWriter, FinishReason, LoggedEvent
from dsv4.api.neutral_request import mark_id
from dsv4.api.protocols import ApiProtocol
from dsv4.api.request_fields import JsonObject
from dsv4.serve.access import Busy, Key
from dsv4.serve.asgi import (
    ClientGone,
    DisconnectWatch,
    EventStream,
    Receive,
    Send,
    StreamTimer,
    send_json,
)
from dsv4.serve.backend import (
    Backend,
    BackendError,
    BackendOverflow,
    Chunks,
    Options,
    is_chat,
)
from dsv4.serve.choice_reader import ChoiceReader, CompletionReader, joined_events, total_usage
from dsv4.serve.forced_generation import ForcedGeneration
from dsv4.serve.healing_reader import HealingReader
from dsv4.serve.observe.healing_report import log_healed
from dsv4.serve.observe.records import Exchange
from dsv4.serve.request_adapter import SentRequest
from dsv4.serve.server import GatewayState
from dsv4.serve.session_calls import SessionEntry
from dsv4.serve.settings import Settings
from dsv4.serve.storage.stored_turns import SampledCall, SampledTurn
from dsv4.trajectories.recorded_calls import CallState

_log = logging.getLogger("dsv4.serve")

# How many pieces of a completion are shown while it comes.
_TAIL_PIECES = 40
# Of the fields that were not read, so many are named, each with so many characters.
_MOST_NAMES, _LONGEST_NAME = 20, 64


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that was read: its body with all that it refers to, about how many bytes that is,
    and the fields that were not read."""

    body: JsonObject
    call: ApiRequest
    size: int
    unread: tuple[str, ...] = ()
    in_thread: bool = False
    session: SessionEntry | None = None


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request with its prompt and the options for the backend.

    `shared` is how many tokens of the prompt an earlier one of the same client had; `recalled` is
    how many of its turns stand as they were sampled; `began` is when preparing it began; `written`
    is how many of its last tokens open the call that the model must write; `sent` is what a chat
    server gets in place of the prompt; `opening` begins a call that must follow the reasoning.
    """

    key: Key
    received: ReceivedRequest
    call: ApiRequest
    prompt: Prompt
    ids: list[int] | None
    prompt_tokens: int
    options: Options
    turn_ids: tuple[str, ...]
    shared: int | None
    recalled: int
    began: float
    written: int = 0
    sent: SentRequest | None = None
    opening: str = ""

    @property
    def body(self) -> JsonObject:
        return self.received.body

    @property
    def adapted(self) -> tuple[str, ...]:
        """The ids of what was changed for a chat server."""
        return () if self.sent is None else self.sent.adapted


class CompletionClient(NamedTuple):
    """A client: its key, how it is reached, and the event that its turn has come."""

    key: Key
    headers: Mapping[str, str]
    receive: Receive
    send: Send
    send_piece: Send
    turn: asyncio.Event


class BrokenOff(Exception):
    """A fault of ours in the middle of a stream: the client got an error, and no end."""


def client_error(error: Exception) -> ApiError:
    """Any failure of a request as an error that a protocol can write."""
    if isinstance(error, BackendError):
        status = error.status
        return ApiError(error.message, status=status if status in (400, 429, 503, 504) else 502)
    if isinstance(error, Busy):
        return ApiError("The server is busy: all streams are taken.", status=429)
    return as_api_error(error)


def is_expected(error: Exception) -> bool:
    """Whether a failure is the client's or the backend's, and no fault of ours."""
    return isinstance(error, (ValueError, BackendError, Busy))


OpenStream: TypeAlias = Callable[[], Chunks]
# Gets the index of a choice, and events of it.
PassEvents: TypeAlias = Callable[[int, list[Event]], Awaitable[None]]


class Generation:
    """The completions of one request."""

    def __init__(
        self,
        settings: Settings,
        readers: Sequence[ChoiceReader],
        open: OpenStream,
        turn: asyncio.Event,
    ) -> None:
        """`open` asks the backend, for each of the `readers`, once its `turn` has come."""
        self._settings = settings
        self._readers = readers
        self._turn = turn
        self._open = open
        self._tasks: list[asyncio.Task[None]] = []
        self._running = len(readers)
        self._failure: Exception | None = None
        self._over = asyncio.get_running_loop().create_future()
        self._alive: Callable[[], Awaitable[None]] | None = None
        self._has_begun = False  # something has gone to the client: it is too late to try again
        self.timer = StreamTimer(settings, self._quiet, self._late)

    # Called by the timer, and when the client disconnects.

    def client_gone(self) -> None:
        """Frees the backend immediately."""
        self._fail(ClientGone())

    @property
    def has_left(self) -> bool:
        """Whether the client is gone."""
        return isinstance(self._failure, ClientGone)

    def _late(self, setting: str) -> None:
        if setting == "send_timeout":
            self.client_gone()
        else:
            seconds = getattr(self._settings, setting)
            self._fail(BackendError(f"the backend took longer than {seconds:g} s ({setting})", 504))

    def _quiet(self) -> None:
        if self._alive is not None and not self._over.done():
            self._has_begun = True
            self._tasks.append(asyncio.get_running_loop().create_task(self._tell()))

    async def _tell(self) -> None:
        """Sends a keep-alive."""
        assert self._alive is not None
        try:
            await self._alive()
        except Exception as error:
            self._fail(error)
        finally:
            task = asyncio.current_task()
            self._tasks = [other for other in self._tasks if other is not task]

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._end()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    # The run.

    async def run(self, passed: PassEvents, alive: Callable[[], Awaitable[None]] | None) -> None:
        """Generates to the end.

        `passed` gets the events that have come; `alive` is called when nothing has been passed for
        a while. Raises `BackendError` or `ClientGone`.
        """
        self._alive = alive
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._pump(n, passed)) for n in range(len(self._readers))]
        try:
            await self._over
        finally:
            self.timer.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        for n, reader in enumerate(self._readers):
            await passed(n, reader.end())

    async def _pump(self, choice: int, passed: PassEvents) -> None:
        """Reads what the backend sends for one choice, and passes it on."""
        try:
            await self._turn.wait()
            self.timer.backend_asked()
            await self._pass_on_with_retries(choice, passed)
        except asyncio.CancelledError:
            return  # nobody reads on
        except Exception as error:
            self._fail(error)
            return
        self._running -= 1
        if not self._running:
            self._end()

    async def _pass_on_with_retries(self, choice: int, passed: PassEvents) -> None:
        """Passes on what comes; tries again, with growing pauses, as long as nothing came."""
        for tries_left in range(self._settings.retries, -1, -1):
            try:
                await self._pass_on(choice, passed)
                return
            except BackendError as error:
                came = self._has_begun or self._readers[choice].first_at is not None
                if came or not (tries_left and error.is_temporary):
                    raise
            await asyncio.sleep(0.1 * 2 ** (self._settings.retries - tries_left))

    async def _pass_on(self, choice: int, passed: PassEvents) -> None:
        """Passes on what the backend sends, to its end.

        Every token of every stream goes through this loop, and all streams of a worker share its
        time. So nothing stands around it that would be woken for each token: no iterator over
        another one, no time-out, no task.
        """
        reader, heard = self._readers[choice], self.timer.heard
        gathered: list[Event] = []
        async with aclosing(self._opened()) as chunks:
            following = chunks.__anext__
            while True:
                try:
                    chunk = await following()
                    heard()
                    events = reader.feed(chunk)
                except StopAsyncIteration:
                    return
                except BackendError:
                    raise
                except Exception as error:  # ids that are none, or whatever an engine raises
                    raise _backend_fault(error) from error
                if chunk.more and not reader.is_done:  # what comes then does not count
                    gathered += events
                    continue
                if gathered:
                    events, gathered = [*gathered, *events], []
                    events = joined_events(events) if reader.joins else events
                if events:
                    self._has_begun = True
                    try:
                        await passed(choice, events)
                    except UnicodeEncodeError as error:  # half of a pair, from an engine
                        raise _backend_fault(error) from error
                if reader.is_done:
                    return

    def _opened(self) -> Chunks:
        try:
            return self._open()
        except Exception as error:
            raise _backend_fault(error) from error


def _backend_fault(error: Exception) -> BackendError:
    """The error for whatever an engine raised. Only the log says what that was."""
    _log.warning("the backend raised %s", type(error).__name__, exc_info=error)
    return BackendError("the backend failed, or sent what cannot be read")


class CompletionRun:
    """One generation, streamed or whole, and what is kept of it."""

    def __init__(
        self,
        server: GatewayState,
        api: ApiProtocol,
        prepared: PreparedRequest,
        client: CompletionClient,
        debug: bool,
    ) -> None:
        self._server = server
        self._api = api
        self._prepared = prepared
        self._receive = client.receive
        self._send = client.send
        self._send_piece = client.send_piece
        self._debug = debug
        call = prepared.call
        healed = is_chat(server.backend)
        self._readers: Sequence[ChoiceReader] = [
            HealingReader(call, server.tokenizer)
            if healed
            else CompletionReader(call, prepared.prompt, server.tokenizer, prepared.options.grammar)
            for _ in range(call.n)
        ]
        self._generation = Generation(server.settings, self._readers, self._open, client.turn)

    def _open(self) -> Chunks:
        backend, prepared = self._server.backend, self._prepared
        session = prepared.received.session
        if session is not None and session.tokens_left == 0:
            return session.ended_stream()
        if is_chat(backend):
            assert prepared.sent is not None
            return backend.stream_request(prepared.sent.body)
        generating = cast(Backend, backend)  # as what is no chat server must be
        prompt, ids, options = prepared.prompt, prepared.ids, prepared.options
        if not prepared.opening:
            return generating.stream(prompt, ids, options)
        tokenizer, opening = self._server.tokenizer, prepared.opening
        return ForcedGeneration(generating, prompt, ids, options, opening, tokenizer).chunks()

    async def run(self) -> None:
        """Answers the client. Raises what could not be told to it."""
        watch = DisconnectWatch(self._receive, self._generation.client_gone)
        session = self._prepared.received.session
        if session is not None:
            session.has_begun = True
        try:
            if self._prepared.call.stream:
                await self._stream()
            else:
                await self._whole()
        finally:
            self._generation.timer.close()
            await watch.close()
            if session is not None and not session.has_ended:
                state: CallState = "left" if self._generation.has_left else "failed"
                session.broke_off(self._prepared, self._readers, state)
            self._count_and_record()

    # For the inspector.

    @property
    def readers(self) -> Sequence[ChoiceReader]:
        return self._readers

    @property
    def usage(self) -> Usage:
        return total_usage(self._readers, self._prepared.prompt_tokens)

    @property
    def began(self) -> float | None:
        """When the backend was asked."""
        return self._generation.timer.began

    @property
    def first_heard(self) -> float | None:
        """When the backend sent something first."""
        return self._generation.timer.first_heard

    @property
    def tail(self) -> str:
        """The end of the raw text of the first choice."""
        reader, tokenizer = self._readers[0], self._server.tokenizer
        if reader.has_ids and tokenizer is not None:
            return tokenizer.decode(reader.sampled_ids[-_TAIL_PIECES:])
        return "".join(reader.sampled_text[-_TAIL_PIECES:])

    # Both ways.

    @property
    def _headers(self) -> dict[str, str]:
        prepared = self._prepared
        headers = {
            "x-request-id": prepared.turn_ids[0],
            "x-dsv4-dialect": self._server.prompt_facts.in_short,
        }
        if prepared.shared is not None:
            headers["x-dsv4-prefix"] = str(prepared.shared)
        if prepared.adapted:
            headers["x-dsv4-adapted"] = ",".join(prepared.adapted)
        if prepared.received.unread:
            headers["x-dsv4-ignored"] = _ignored_header(prepared.received.unread)
        return headers

    def _reason(self) -> FinishReason:
        """Why the engine stopped: of each choice, where there are several."""
        reasons = [_engine_reason(reader) for reader in self._readers]
        return reasons if len(reasons) > 1 else reasons[0]

    def _debugged(self) -> dict[str, Any]:
        diagnostics = [
            asdict(event)
            for reader in self._readers
            for event in reader.events
            if isinstance(event, Diagnostic)
        ]
        return {
            "prompt": self._prepared.prompt.text,
            "completion": [reader.sampled for reader in self._readers],
            "diagnostics": diagnostics,
            "adapted": list(self._prepared.adapted),
        }

    async def _generate(
        self, passed: PassEvents, alive: Callable[[], Awaitable[None]] | None
    ) -> None:
        try:
            await self._generation.run(passed, alive)
        except BackendOverflow as error:
            raise self._overflow(error) from error

    def _overflow(self, error: BackendOverflow) -> ContextOverflow:
        """A prompt that only the backend knows to be too long. Clients look for both numbers."""
        limit = error.limit or self._server.context
        return ContextOverflow(error.tokens or max(self._prepared.prompt_tokens, limit + 1), limit)

    # Whole.

    async def _whole(self) -> None:
        async def ignored(choice: int, events: list[Event]) -> None:
            return None

        await self._generate(ignored, None)
        body = self._folded(self._upstream_id)
        if self._debug:
            body["dsv4"] = self._debugged()
        await self._store(body)
        self._tell_whether_delivered()
        await send_json(self._send, 200, body, self._headers)

    def _tell_whether_delivered(self) -> None:
        """Asked before the very end: after it every client is gone."""
        session = self._prepared.received.session
        if session is not None and self._generation.has_left:
            session.undelivered()

    def _folded(self, id: str | None) -> dict[str, Any]:
        """The whole response, under an id if there is one already."""
        call = self._prepared.call
        events: list[list[LoggedEvent]] = [
            [(event, reader.logprobs_of(event)) for event in reader.events]
            for reader in self._readers
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

    async def _stream(self) -> None:
        generation = self._generation
        writer = self._api.Writer(self._prepared.call, seal=self._seal)
        stream = EventStream(self._send, self._headers, generation.timer, self._send_piece)
        frames = self._api.frames
        # A sealed turn goes out where the reasoning ends: what follows must wait for its own end.
        held: list[tuple[int, list[Event]]] | None = (
            [] if self._server.sampled_turns.seals else None
        )

        async def passed(choice: int, events: list[Event]) -> None:
            if held is not None:
                events = _held_back(held, choice, events)
            start = b"" if stream.has_begun else frames(self._first_events(writer))
            if data := start + self._framed(writer, events, choice):
                await stream.write(data)

        async def alive() -> None:
            start = None if stream.has_begun else self._first_events(writer)
            await stream.write(frames(start or writer.keep_alive()))

        try:
            await self._generate(passed, alive)
            for choice, events in held or ():
                await stream.write(self._framed(writer, events, choice))
            last = writer.finish(usage=self.usage, reason=self._reason())
            if self._debug:
                last[-1]["dsv4"] = self._debugged()
            await self._store(last[-1].get("response") or self._message(writer.id))
            await stream.write(frames(last))
            self._tell_whether_delivered()
        except ClientGone:
            self._tell_whether_delivered()
            raise
        except Exception as error:
            if not stream.has_begun:
                raise
            # The protocol's own error, and then no clean end: clients take that for the answer.
            await stream.write(frames(writer.fail(client_error(error))))
            if not is_expected(error):
                raise BrokenOff from error
            self._server.metrics.count_failure(error)
            return
        await stream.end()

    def _first_events(self, writer: EventWriter) -> Events:
        """What opens the response, under the upstream's name for it if that is known."""
        writer.id = self._upstream_id or writer.id
        return writer.start(input_tokens=self._prepared.prompt_tokens)

    @property
    def _upstream_id(self) -> str | None:
        return self._readers[0].id if self._prepared.call.protocol == "chat" else None

    def _framed(self, writer: EventWriter, events: list[Event], choice: int) -> bytes:
        """Events of a choice as bytes."""
        reader = self._readers[choice]
        if reader.joins:
            return writer.frames(events, choice)
        return b"".join(writer.frames([e], choice, reader.logprobs_of(e)) for e in events)

    # What is kept.

    def _message(self, id: str) -> dict[str, Any] | None:
        """What a stream was, whole, where that must be kept."""
        return self._folded(id) if self._prepared.received.in_thread else None

    def _seal(self) -> str | None:
        """What the client is to give back with its reasoning: the turn, or its name. None is the
        reasoning itself, where clients may give back nothing else of it."""
        server, prepared = self._server, self._prepared
        turns, sealed = server.sampled_turns, None
        if turns.seals:
            turn = self._turn_to_keep(prepared.turn_ids[0], self._readers[0])
            sealed = None if turn is None else turns.sealed(prepared.key.name, turn)
        if sealed is None and prepared.call.protocol != "responses":
            return mark_id(prepared.turn_ids[0])
        return sealed

    def _turn_to_keep(self, turn_id: str, reader: ChoiceReader) -> SampledTurn | None:
        turn, sent = _sampled_turn(turn_id, reader, self._prepared), self._prepared.sent
        return turn if turn is None or sent is None else sent.kept(turn)

    async def _store(self, response: JsonObject | None) -> None:
        """Keeps the turn before the client has all of it: it may come back immediately."""
        server, prepared = self._server, self._prepared
        before = [_plain_message(message) for message in prepared.call.request.messages]
        for turn_id, reader in zip(prepared.turn_ids, self._readers, strict=True):
            turn = self._turn_to_keep(turn_id, reader)
            if turn is None:
                continue
            if prepared.sent is None:
                await server.sampled_turns.remember(prepared.key.name, before, turn)
            elif server.adapter is not None:
                await server.adapter.remember(prepared.key.name, prepared.sent, turn)
        session = prepared.received.session
        if session is not None:
            await session.finish(prepared, self._readers)
        if response is not None and prepared.call.protocol == "responses":
            await server.stored_responses.keep(prepared.key.name, prepared.body, response)
        if response is not None and prepared.received.in_thread:
            await server.threads.keep(prepared.key.name, prepared.body, response)

    def _count_and_record(self) -> None:
        server, prepared = self._server, self._prepared
        reader = self._readers[0]
        if prepared.ids is not None and reader.has_ids:
            server.prefixes.note(prepared.key.name, [*prepared.ids, *reader.sampled_ids])
        usage = self.usage
        for kind in ("prompt", "cached", "completion", "reasoning"):
            server.metrics.tokens.labels(kind).inc(getattr(usage, kind) or 0)
        server.metrics.duration.observe(time.monotonic() - prepared.began)
        for turn_id, reader in zip(prepared.turn_ids, self._readers, strict=True):
            server.metrics.count_events(reader.events)
            log_healed(turn_id, reader.events)
            if reader.first_at is not None:
                server.metrics.first_token.observe(reader.first_at - prepared.began)
        if server.recorder is not None:
            self._record()

    def _record(self) -> None:
        recorder, prepared = self._server.recorder, self._prepared
        assert recorder is not None
        for reader in self._readers:
            message = assemble(reader.events)
            recorder.write(
                Exchange(
                    protocol=prepared.call.protocol,
                    request=prepared.body,
                    dialect=str(prepared.call.request.dialect),
                    settings=asdict(self._server.api_settings),
                    prompt=prepared.prompt.text,
                    recalled=prepared.recalled,
                    adapted=list(prepared.adapted),
                    completion=reader.sampled,
                    ids=list(reader.sampled_ids) if reader.has_ids else None,
                    deltas=reader.deltas,
                    stopped=reader.finish,
                    finish=message.finish,
                    message=message.to_dict(),
                    diagnostics=[asdict(diagnostic) for diagnostic in message.diagnostics],
                    seconds=round(time.monotonic() - prepared.began, 3),
                )
            )


def _ignored_header(names: Sequence[str]) -> str:
    """Names that a client made up, as a header that it may get back: in ASCII, and not too long."""
    listed = [quote(name, errors="replace")[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
    more = len(names) - len(listed)
    return ", ".join([*listed, f"+{more}"] if more else listed)


def _engine_reason(reader: ChoiceReader) -> Reason | None:
    """Why the engine stopped, unless we ended the text, or the model's own EOS says more."""
    is_cut = reader.events[-1] == End("length")
    return reader.finish if is_cut and not reader.is_done else None


def _held_back(
    held: list[tuple[int, list[Event]]], choice: int, events: list[Event]
) -> list[Event]:
    """The reasoning at the start of a turn; everything from its end on is added to `held`."""
    after = next((n for n, event in enumerate(events) if not _is_reasoning(event)), len(events))
    if held:
        after = 0
    if events[after:]:
        held.append((choice, events[after:]))
    return events[:after]


def _is_reasoning(event: Event) -> bool:
    return isinstance(event, (ReasoningDelta, Diagnostic))


def _plain_message(message: object) -> Mapping[str, Any]:
    found = getattr(message, "message", message)
    return found if isinstance(found, Mapping) else {}


def _sampled_turn(
    turn_id: str, reader: ChoiceReader, prepared: PreparedRequest
) -> SampledTurn | None:
    message = assemble(reader.events)
    if message.incomplete:
        return None  # what the client got is not what was sampled
    # The opening of a call that was asked for is no part of what was sampled, but of the turn.
    is_opened = prepared.call.request.tool_choice not in ("auto", "none")
    opening = prepared.prompt.ending.open if is_opened else ""
    opened = prepared.ids[-prepared.written :] if prepared.ids and prepared.written else []
    has_ids = reader.has_ids and bool(opened) == bool(opening)
    return SampledTurn(
        id=turn_id,
        text=opening + reader.sampled,
        ids=(*opened, *reader.sampled_ids) if has_ids else None,
        content=message.content,
        reasoning=message.reasoning,
        calls=tuple(SampledCall(c.id, _full_name(c), c.arguments) for c in message.tool_calls),
    )


def _full_name(call: ToolCall) -> str:
    return call.name if call.namespace is None else f"{call.namespace}::{call.name}"

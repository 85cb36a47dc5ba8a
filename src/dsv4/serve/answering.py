"""A request of any protocol, from its bytes to the last byte of its answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import quote

from dsv4._encode.prompt import Prompt
from dsv4._parse.events import Diagnostic, Event, ReasoningDelta
from dsv4._parse.parse import assemble
from dsv4._parse.parser_options import new_id
from dsv4.api import ApiError, ApiRequest, ContextOverflow, chat, messages, responses
from dsv4.api.converting import for_chat_server
from dsv4.api.flattening import with_flat_names
from dsv4.api.ids import mark_id
from dsv4.api.places import client_path
from dsv4.api.unread import unread_fields
from dsv4.api.unsupported import UNSUPPORTED
from dsv4.errors import EncodeError, OptionError
from dsv4.grammar import Grammar, for_request
from dsv4.serve.asgi import (
    SEND_PIECE,
    DisconnectWatch,
    EventStream,
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    send_json,
)
from dsv4.serve.backend import BackendError, Chunks, Options, is_chat
from dsv4.serve.generation import ClientGone, Generation
from dsv4.serve.healing import Healer
from dsv4.serve.inspector import Begins
from dsv4.serve.keys import Key
from dsv4.serve.limits import Busy
from dsv4.serve.reading import Reader, usage_of
from dsv4.serve.recorder import Exchange
from dsv4.serve.replay.turns import Call, Turn
from dsv4.serve.server import Server
from dsv4.tokens import VocabularyError

PROTOCOLS: dict[str, ModuleType] = {"chat": chat, "responses": responses, "messages": messages}
# Encoding a prompt of this many bytes takes longer than other streams should wait.
_LARGE = 200_000
# How many pieces of a completion are shown while it comes.
_TAIL = 40
# Of the fields that were not read, so many are named, each with so many characters.
_MOST_NAMES, _LONGEST_NAME = 20, 64


@dataclass(frozen=True, slots=True)
class Received:
    """A request that was read: its body with all that it refers to, about how many bytes that is,
    and the fields that were not read."""

    body: dict[str, Any]
    call: ApiRequest
    size: int
    unread: tuple[str, ...] = ()
    in_thread: bool = False


@dataclass(slots=True)
class Prepared:
    """A request that is ready to be generated."""

    key: Key
    received: Received
    call: ApiRequest
    prompt: Prompt
    ids: list[int] | None
    options: Options
    turn_ids: list[str]
    shared: int | None
    recalled: int
    began: float

    @property
    def body(self) -> dict[str, Any]:
        return self.received.body

    @property
    def prompt_tokens(self) -> int:
        # Without a vocabulary: about four characters make a token.
        return len(self.ids) if self.ids is not None else len(self.prompt.text) // 4


class BrokenOff(Exception):
    """A fault of ours in the middle of a stream: the client got an error, and no end."""


class _Client(NamedTuple):
    """Who asks, how it is reached, and when it is its turn."""

    key: Key
    headers: Mapping[str, str]
    receive: Receive
    send: Send
    send_piece: Send
    turn: asyncio.Event


class Answering:
    """The route of one protocol."""

    def __init__(self, server: Server, protocol: str) -> None:
        self._server = server
        self._protocol = protocol
        self._module = PROTOCOLS[protocol]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500
        try:
            status = await self._answer(scope, receive, send)
        except ClientGone:
            status = 499
            self._server.metrics.gone.inc()
        except BrokenOff:
            raise  # the client knows
        except Exception as error:
            status = await self._refuse(send, error)
            if not _is_expected(error):
                raise
        finally:
            self._server.metrics.requests.labels(self._protocol, str(status)).inc()

    async def _refuse(self, send: Send, error: Exception) -> int:
        """An error before the first byte, in the protocol's own form."""
        self._server.metrics.count_failure(error)
        status, body = self._module.error(api_error(error))
        headers = {"x-should-retry": "true" if status in (429, 502, 503, 504) else "false"}
        if status in (429, 503):
            # Some clients give up at once without it, and others when it is long.
            headers["retry-after"] = str(math.ceil(getattr(error, "retry_after", None) or 1))
        await send_json(send, status, body, headers)
        return int(status)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> int:
        server = self._server
        headers = headers_of(scope)
        key = server.keys.owner(headers)
        if key is None:
            raise ApiError("The API key is missing or not known here.", status=401)
        data = await read_body(scope, receive, server.settings)
        with server.inspected(key.name, self._protocol, data) as seen:
            received = await self._read(data, key)
            with server.gate.place() as turn:
                send_piece = scope.get(SEND_PIECE, send)
                client = _Client(key, headers, receive, send, send_piece, turn)
                return await self._run(received, client, seen)

    async def _run(
        self,
        received: Received,
        client: _Client,
        seen: Begins | None,
    ) -> int:
        server, headers, call = self._server, client.headers, received.call
        try:
            prepared = await self._prepare(received, client.key)
        except ContextOverflow as error:
            if not (call.stream and reads_failures_in_streams(headers)):
                raise
            return await self._fail_in_stream(client.send, call, error)
        debug = server.settings.debug and headers.get("x-dsv4-debug") == "1"
        run = _Run(server, self._module, prepared, client, debug)
        if seen is not None:
            seen(prepared, run)
        await run.go()
        return 200

    async def _fail_in_stream(self, send: Send, call: ApiRequest, error: ApiError) -> int:
        """An error in a stream that has nothing else in it."""
        writer = self._module.Writer(call)
        stream = EventStream(send, {})
        await stream.write(self._module.frames([*writer.start(), *writer.fail(error)]))
        await stream.end()
        return 200

    async def _read(self, data: bytes, key: Key) -> Received:
        server = self._server
        body = given = read_json(data, server.settings.max_depth)
        unread = self._unread(body)
        in_thread = self._protocol == "messages" and server.threads.holds(body)
        if in_thread:
            body = await server.threads.continued(key.name, body)
        stored = server.conversations.echo(body) if self._protocol == "responses" else {}
        if self._protocol == "responses" and server.memory.store is not None:
            body = await server.conversations.continued(key.name, body)
        # It is asked again when it is needed, and what it lacks is said then.
        with suppress(BackendError):
            await server.meet_backend()
        own = without_unsupported(body) if self._passes_on else body
        call = self._module.read(own, dialect=server.dialect, settings=server.api_settings)
        self._check(body, call)
        if stored:
            call = replace(call, echo={**call.echo, **stored})
        if is_chat(server.backend):
            call = replace(call, names=with_flat_names(call.names))
        server.metrics.count_ignored(self._protocol, unread)
        # What was kept may be long however short the rest is.
        size = len(data) if body is given else len(data) + _LARGE
        return Received(body, call, size, tuple(unread), in_thread)

    @property
    def _passes_on(self) -> bool:
        """Whether the backend gets bodies as they are, with all their fields."""
        return self._protocol == "chat" and is_chat(self._server.backend)

    def _unread(self, body: dict[str, Any]) -> list[str]:
        return [] if self._passes_on else unread_fields(self._protocol, body)

    def _check(self, body: dict[str, Any], call: ApiRequest) -> None:
        settings = self._server.settings
        if settings.strict_models and call.model != self._server.model.name:
            message = f"found {call.model!r}, expected {self._server.model.name!r}"
            raise ApiError(message, path="model", status=404, code="model_not_found")
        listed = "input" if self._protocol == "responses" else "messages"
        for name, most in ((listed, settings.max_messages), ("tools", settings.max_tools)):
            given = body.get(name)
            if isinstance(given, list) and len(given) > most:
                raise ApiError(f"found {len(given)} {name}, expected at most {most}", path=name)

    async def _prepare(self, received: Received, key: Key) -> Prepared:
        server = self._server
        began = time.monotonic()
        call, recalled = await server.memory.recalled(key.name, received.call)
        server.metrics.replayed.labels("used").inc(recalled)
        prompt, ids = await encoded(call, server, received.size)
        prepared = Prepared(key, received, call, prompt, ids, Options(1), [], None, recalled, began)
        if ids is not None:
            prepared.shared = server.prefixes.shared(key.name, ids)
        prepared.options = self._options(prepared, await self._grammar(call))
        prepared.turn_ids = [new_id("turn_") for _ in range(call.n)]
        return prepared

    def _options(self, prepared: Prepared, grammar: Grammar | None) -> Options:
        server, call = self._server, prepared.call
        tokens, context = prepared.prompt_tokens, server.context
        if tokens >= context and not is_chat(server.backend):
            raise ContextOverflow(tokens, context)
        sampling = call.sampling
        return Options(
            max_tokens=max(min(call.max_tokens, context - tokens), 1),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            seed=sampling.seed,
            logprobs=call.top_logprobs if call.logprobs else None,
            grammar=grammar,
        )

    async def _grammar(self, call: ApiRequest) -> Grammar | None:
        """What holds the model to a call that must be made, or to the form of its answer."""
        form = self._server.backend.grammar_form
        request = call.request
        forced = request.tool_choice not in ("auto", "none")
        if form is None or not (forced or request.response_format):
            return None
        try:
            # A hundred tools take a quarter of a second, in which other streams must go on.
            make = partial(for_request, request, form=form, parallel=call.parallel)
            return await asyncio.to_thread(make)
        except ApiError:
            raise
        except ValueError as error:
            raise _unenforceable(call, error) from None


def _unenforceable(call: ApiRequest, error: ValueError) -> ApiError:
    """What the client asked for cannot be written as a grammar: another try would not help."""
    if not isinstance(error, (OptionError, EncodeError)):
        return ApiError(f"this cannot be enforced: {error}")
    path = client_path(call, error.location)
    return ApiError(f"this cannot be enforced: {error.problem}", path=path)


def without_unsupported(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a chat request without what only another server can do."""
    unsupported = UNSUPPORTED["chat"]
    return {name: value for name, value in body.items() if name not in unsupported}


def _header(names: Sequence[str]) -> str:
    """Names that a client made up, as a header that it may get back: in ASCII, and not too long."""
    listed = [quote(name, errors="replace")[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
    more = len(names) - len(listed)
    return ", ".join([*listed, f"+{more}"] if more else listed)


def reads_failures_in_streams(headers: Mapping[str, str]) -> bool:
    """Whether a client is Codex, which only prints an error that comes as a status, but knows what
    to do about one that comes in a stream."""
    return headers.get("originator", "").startswith("codex")


async def encoded(call: ApiRequest, server: Server, size: int) -> tuple[Prompt, list[int] | None]:
    """The prompt of a request of `size` bytes, and its ids where there is a tokenizer."""

    def made() -> tuple[Prompt, list[int] | None]:
        prompt = call.request.encode()
        try:
            return prompt, server.ids_of(prompt)
        except VocabularyError:
            raise ApiError(
                f"The server cannot make prompts: {server.misfit}.", status=500
            ) from None

    return await asyncio.to_thread(made) if size > _LARGE else made()


def read_json(data: bytes, deepest: int) -> dict[str, Any]:
    """A body as a dict, no deeper than allowed."""
    from dsv4.api.bodies import body_of

    body = body_of(data)
    if _is_deeper(body, deepest):
        raise ApiError(f"The body is nested deeper than {deepest} levels.")
    return body


def _is_deeper(body: dict[str, Any], deepest: int) -> bool:
    # Every value of every request is looked at here: by its class, which is the quickest question,
    # and nearly all of them are texts.
    level: list[Any] = [body.values()]
    for _ in range(deepest):
        level = [
            value.values() if value.__class__ is dict else value
            for value in chain.from_iterable(level)
            if value.__class__ is not str and (value.__class__ is dict or value.__class__ is list)
        ]
        if not level:
            return False
    return True


def api_error(error: Exception) -> Exception:
    """Failures of the server's own as errors that a protocol can write."""
    if isinstance(error, BackendError):
        status = error.status
        return ApiError(error.message, status=status if status in (400, 429, 503, 504) else 502)
    if isinstance(error, Busy):
        return ApiError("The server is busy: all streams are taken.", status=429)
    return error


def _is_expected(error: Exception) -> bool:
    return isinstance(error, (ValueError, BackendError, Busy))


class _Run:
    """One generation, streamed or whole, and what is kept of it."""

    def __init__(
        self,
        server: Server,
        module: ModuleType,
        prepared: Prepared,
        client: _Client,
        debug: bool,
    ) -> None:
        self._server = server
        self._module = module
        self._prepared = prepared
        self._receive = client.receive
        self._send = client.send
        self._send_piece = client.send_piece
        self._debug = debug
        call = prepared.call
        healed = is_chat(server.backend)
        self._readers: Sequence[Any] = [
            Healer(call, server.tokenizer)
            if healed
            else Reader(call, prepared.prompt, server.tokenizer)
            for _ in range(call.n)
        ]
        self._generation = Generation(server.settings, self._readers, self._open, client.turn)

    def _open(self) -> Chunks:
        backend: Any = self._server.backend
        prepared = self._prepared
        if is_chat(backend):
            return backend.stream_request(for_chat_server(prepared.body, prepared.call.protocol))
        chunks: Chunks = backend.stream(prepared.prompt, prepared.ids, prepared.options)
        return chunks

    async def go(self) -> None:
        watch = DisconnectWatch(self._receive, self._generation.client_gone)
        try:
            if self._prepared.call.stream:
                await self._stream()
            else:
                await self._whole()
        finally:
            self._generation.watch.close()
            await watch.close()
            self._note()

    # For the inspector.

    @property
    def readers(self) -> Sequence[Any]:
        return self._readers

    @property
    def usage(self) -> Any:
        return self._usage()

    @property
    def begun(self) -> float | None:
        """When the backend was asked."""
        return self._generation.watch.began

    @property
    def first_heard(self) -> float | None:
        """When the backend sent something first."""
        return self._generation.watch.first_heard

    @property
    def tail(self) -> str:
        """The end of the raw text of the first choice."""
        reader, tokenizer = self._readers[0], self._server.tokenizer
        if reader.has_ids and tokenizer is not None:
            return tokenizer.decode(reader.sampled_ids[-_TAIL:])
        return "".join(reader.sampled_text[-_TAIL:])

    # Both ways.

    @property
    def _headers(self) -> dict[str, str]:
        prepared = self._prepared
        headers = {"x-request-id": prepared.turn_ids[0]}
        if prepared.shared is not None:
            headers["x-dsv4-prefix"] = str(prepared.shared)
        if prepared.received.unread:
            headers["x-dsv4-ignored"] = _header(prepared.received.unread)
        return headers

    def _usage(self) -> Any:
        return usage_of(self._readers, self._prepared.prompt_tokens)

    def _reason(self) -> Any:
        """Why the engine stopped: of each choice, where there are several."""
        reasons = [None if reader.is_done else reader.finish for reader in self._readers]
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
        }

    # Whole.

    async def _whole(self) -> None:
        async def ignored(choice: int, events: list[Event]) -> None:
            return None

        await self._generation.run(ignored, None)
        body = self._folded(self._upstream_id)
        if self._debug:
            body["dsv4"] = self._debugged()
        await self._store(body)
        await send_json(self._send, 200, body, self._headers)

    def _folded(self, id: str | None) -> dict[str, Any]:
        """The whole response, under an id if there is one already."""
        call = self._prepared.call
        events: list[Any] = [
            [(event, reader.logprobs_of(event)) for event in reader.events]
            for reader in self._readers
        ]
        response: dict[str, Any] = self._module.whole(
            call,
            events if call.n > 1 else events[0],
            usage=self._usage(),
            reason=self._reason(),
            id=id,
            **self._named(),
        )
        return response

    # Streamed.

    async def _stream(self) -> None:
        generation = self._generation
        writer = self._module.Writer(self._prepared.call, **self._named())
        stream = EventStream(self._send, self._headers, generation.watch, self._send_piece)
        frames = self._module.frames
        # A sealed turn goes out where the reasoning ends: what follows must wait for its own end.
        held: list[tuple[int, list[Event]]] | None = [] if self._server.memory.seals else None

        async def passed(choice: int, events: list[Event]) -> None:
            if held is not None:
                events = _held_back(held, choice, events)
            start = b"" if stream.has_begun else frames(self._named_start(writer))
            if data := start + self._framed(writer, events, choice):
                await stream.write(data)

        async def alive() -> None:
            start = None if stream.has_begun else self._named_start(writer)
            await stream.write(frames(start or writer.keep_alive()))

        try:
            await generation.run(passed, alive)
            for choice, events in held or ():
                await stream.write(self._framed(writer, events, choice))
            last = writer.finish(usage=self._usage(), reason=self._reason())
            if self._debug:
                last[-1]["dsv4"] = self._debugged()
            await self._store(last[-1].get("response") or self._message(writer.id))
            await stream.write(frames(last))
        except ClientGone:
            raise
        except Exception as error:
            if not stream.has_begun:
                raise
            # The protocol's own error, and then no clean end: clients take that for the answer.
            await stream.write(frames(writer.fail(api_error(error))))
            if not _is_expected(error):
                raise BrokenOff from error
            self._server.metrics.count_failure(error)
            return
        await stream.end()

    def _named_start(self, writer: Any) -> Any:
        """What opens the response, under the upstream's name for it if that is known."""
        writer.id = self._upstream_id or writer.id
        return writer.start(input_tokens=self._prepared.prompt_tokens)

    @property
    def _upstream_id(self) -> str | None:
        named: str | None = self._readers[0].id
        return named if self._prepared.call.protocol == "chat" else None

    def _framed(self, writer: Any, events: list[Event], choice: int) -> bytes:
        """Events of a choice as bytes."""
        reader = self._readers[choice]
        if reader.joins:
            data: bytes = writer.frames(events, choice)
            return data
        return b"".join(writer.frames([e], choice, reader.logprobs_of(e)) for e in events)

    # What is kept.

    def _message(self, id: str) -> dict[str, Any] | None:
        """What a stream was, whole, where that must be kept."""
        return self._folded(id) if self._prepared.received.in_thread else None

    def _named(self) -> dict[str, Any]:
        return {"seal": self._seal}

    def _seal(self) -> str | None:
        """What the client is to give back with its reasoning: the turn, or its name. None is the
        reasoning itself, where clients may give back nothing else of it."""
        server, prepared = self._server, self._prepared
        turn = _turn(prepared.turn_ids[0], self._readers[0]) if server.memory.seals else None
        sealed = None if turn is None else server.memory.sealed(prepared.key.name, turn)
        if sealed is None and prepared.call.protocol != "responses":
            return mark_id(prepared.turn_ids[0])
        return sealed

    async def _store(self, response: Any) -> None:
        """Keeps the turn before the client knows of it: it may come back at once."""
        server, prepared = self._server, self._prepared
        before = [_plain(message) for message in prepared.call.request.messages]
        for turn_id, reader in zip(prepared.turn_ids, self._readers, strict=True):
            turn = _turn(turn_id, reader)
            if turn is not None and not is_chat(server.backend):
                await server.memory.remember(prepared.key.name, before, turn)
        if response is not None and prepared.call.protocol == "responses":
            await server.conversations.keep(prepared.key.name, prepared.body, response)
        if response is not None and prepared.received.in_thread:
            await server.threads.keep(prepared.key.name, prepared.body, response)

    def _note(self) -> None:
        server, prepared = self._server, self._prepared
        reader = self._readers[0]
        if prepared.ids is not None and reader.has_ids:
            server.prefixes.note(prepared.key.name, [*prepared.ids, *reader.sampled_ids])
        usage = self._usage()
        for kind in ("prompt", "cached", "completion", "reasoning"):
            server.metrics.tokens.labels(kind).inc(getattr(usage, kind))
        server.metrics.duration.observe(time.monotonic() - prepared.began)
        for reader in self._readers:
            server.metrics.count_events(reader.events)
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
                    completion=reader.sampled,
                    ids=list(reader.sampled_ids) if reader.has_ids else None,
                    deltas=reader.deltas if is_chat(self._server.backend) else None,
                    stopped=reader.finish,
                    finish=message.finish,
                    message=message.to_dict(),
                    diagnostics=[asdict(diagnostic) for diagnostic in message.diagnostics],
                    seconds=round(time.monotonic() - prepared.began, 3),
                )
            )


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


def _plain(message: Any) -> Mapping[str, Any]:
    found = getattr(message, "message", message)
    return found if isinstance(found, Mapping) else {}


def _turn(turn_id: str, reader: Any) -> Turn | None:
    message = assemble(reader.events)
    if message.incomplete:
        return None  # what the client got is not what was sampled
    return Turn(
        id=turn_id,
        text=reader.sampled,
        ids=tuple(reader.sampled_ids) if reader.has_ids else None,
        content=message.content,
        reasoning=message.reasoning,
        calls=tuple(Call(c.id, _full(c), c.arguments) for c in message.tool_calls),
    )


def _full(call: Any) -> str:
    return call.name if call.namespace is None else f"{call.namespace}::{call.name}"

"""Requests and responses on bare ASGI: the pieces of a stream are sent with nothing in between, and
each stream has one timer for keep-alives and deadlines. A server that stops takes no new requests,
says so, and ends when the running ones have (`Drain`).

A time-out around every read and every write would cost more than the read. So a stream notes when
something happened, and its timer checks that periodically.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import QueryParams

from dsv4.api import ApiError
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import protocol_of_client
from dsv4.serve.settings import Settings

T = TypeVar("T")


class ClientGone(Exception):
    """The client has disconnected: there is nothing left to answer."""


# The time limits that a stream's timer watches, and the number of its checks in the shortest.
_WATCHED = ("keep_alive", "first_byte_timeout", "idle_timeout", "total_timeout")
# The seconds without progress in sending after which a client counts as disconnected.
_SEND_TIMEOUT = 60.0
_LOOKS_PER_LIMIT = 4


class StreamTimer:
    """The timer of one stream: keep-alives when nothing is sent, and an end to waiting."""

    def __init__(
        self, settings: Settings, quiet: Callable[[], None], late: Callable[[str], None]
    ) -> None:
        """`quiet` is called when a keep-alive is due, `late` with the setting that was exceeded."""
        self._settings = settings
        self._quiet = quiet
        self._late = late
        self._loop = asyncio.get_running_loop()
        self.began: float | None = None  # before it is asked, nothing is expected of the backend
        self.now = self._loop.time
        self.heard_at = self.sent_at = self.now()
        self.first_heard: float | None = None
        self.sending = False
        self.waits_for = "first_byte_timeout"
        shortest: float = min(getattr(settings, name) for name in _WATCHED)
        self._step = max(shortest / _LOOKS_PER_LIMIT, 0.005)
        self._timer = self._loop.call_later(self._step, self._look)

    def backend_asked(self) -> None:
        """Notes that the backend is asked."""
        if self.began is None:
            self.began = self.heard_at = self.now()

    def heard(self) -> None:
        """Notes that the backend sent something."""
        self.heard_at = self.now()
        if self.first_heard is None:
            self.first_heard = self.heard_at
            self.waits_for = "idle_timeout"

    def sent(self) -> None:
        """Notes that the client took something."""
        self.sending = False
        self.sent_at = self.now()

    def sending_began(self) -> None:
        """Notes that something is on its way to the client."""
        self.sending = True
        self.sent_at = self.now()

    def _look(self) -> None:
        now, settings = self.now(), self._settings
        if self.began is not None and now - self.began > settings.total_timeout:
            self._late("total_timeout")
        elif self.sending and now - self.sent_at > _SEND_TIMEOUT:
            self._late("send_timeout")
        elif self._is_silent(now):
            self._late(self.waits_for)
        elif not self.sending and now - self.sent_at >= settings.keep_alive:
            self._quiet()
        self._timer = self._loop.call_later(self._step, self._look)

    def _is_silent(self, now: float) -> bool:
        """Whether the backend has said nothing for too long.

        A client that reads slowly makes the backend wait: that does not count.
        """
        if self.began is None or self.sending:
            return False
        limit: float = getattr(self._settings, self.waits_for)
        return now - self.heard_at > limit

    def close(self) -> None:
        self._timer.cancel()


Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
# The key of a scope for the send function that bypasses the middleware layers, once the stream has
# started.
SEND_PIECE = "dsv4.send_piece"
# Writes a piece of a stream immediately. Returns False where it cannot, because the client reads
# too slowly or has disconnected: then the piece must be sent. The key of a scope is below.
WriteNow: TypeAlias = Callable[[bytes], bool]
WRITE_NOW = "dsv4.write_now"


def cannot_write(data: bytes) -> bool:
    """Stands for `WriteNow` in a server that has none."""
    return False


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request, by their names in small letters."""
    return {
        name.decode("latin-1"): value.decode("utf-8", "surrogateescape")
        for name, value in scope["headers"]
    }


def query_of(scope: Scope) -> dict[str, str]:
    """The query parameters of a request; of a name that occurs twice, the last."""
    return dict(QueryParams(scope.get("query_string", b"")))


async def read_body(scope: Scope, receive: Receive, settings: Settings) -> bytes:
    """The body of a request. Raises `ApiError` for one that is too large, too slow or
    compressed."""
    headers = headers_of(scope)
    coding = headers.get("content-encoding", "identity")
    if coding != "identity":
        raise ApiError(f"found a body packed with {coding!r}, expected it plain", status=415)
    content_length = headers.get("content-length", "0")
    if content_length.isdecimal() and int(content_length) > settings.max_body:
        raise _too_large(settings)
    try:
        return await asyncio.wait_for(_received(receive, settings), settings.body_timeout)
    except asyncio.TimeoutError:
        message = f"The body did not come within {settings.body_timeout:g} s."
        raise ApiError(message, status=408) from None


async def _received(receive: Receive, settings: Settings) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > settings.max_body:
            raise _too_large(settings)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(settings: Settings) -> ApiError:
    return ApiError(f"The body is larger than {settings.max_body} bytes.", status=413)


async def send_json(
    send: Send, status: int, body: object, headers: Mapping[str, str] | None = None
) -> None:
    """A whole response."""
    await send_bytes(send, status, json_bytes(body), "application/json", headers)


def json_bytes(body: object) -> bytes:
    """A value as the JSON of a response."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


async def send_bytes(
    send: Send, status: int, data: bytes, kind: str, headers: Mapping[str, str] | None = None
) -> None:
    all_headers = {"content-type": kind, "content-length": str(len(data)), **(headers or {})}
    await send(send_start(status, all_headers))
    await send({"type": "http.response.body", "body": data})


@dataclass(slots=True, eq=False)
class EventStream:
    """A response of server-sent events. Its head is sent with the first of them.

    `send_piece` is the shortest way for everything after the start; `timer` notes when a write
    begins and ends; `write_now` writes a piece without a task, where the server can do that.
    """

    send: Send
    send_piece: Send
    headers: Mapping[str, str]
    timer: StreamTimer | None = None
    write_now: WriteNow = cannot_write
    has_begun: bool = False  # something is being sent
    is_free: bool = False  # the head has been sent, and everything queued
    # Choices and keep-alives write in the order they come: each piece keeps its place from then on,
    # even if the task that brought it is cancelled.
    _queue: list[bytes] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _has_head: bool = False

    def push(self, data: bytes) -> Awaitable[None] | None:
        """Writes immediately where nothing is in the way, else returns an awaitable."""
        if not (self.is_free and self.write_now(data)):
            return self.queued(data)
        if self.timer is not None:
            self.timer.sent()
        return None

    def queued(self, data: bytes) -> Awaitable[None]:
        """Queues a piece, and returns an awaitable. It is not a coroutine, which would have to be
        awaited."""
        self.has_begun, self.is_free = True, False
        self._queue.append(data)
        return self

    async def write(self, data: bytes) -> None:
        await self.queued(data)

    def __await__(self) -> Generator[Any, None, None]:
        return self._write_queue().__await__()

    async def _write_queue(self) -> None:
        async with self._turn:
            while count := len(self._queue):
                await self._write(b"".join(self._queue))
                del self._queue[:count]
            self.is_free = True

    async def _write(self, data: bytes) -> None:
        if self.timer is not None:
            self.timer.sending_began()
        if not self._has_head:
            await self._begin()
            self._has_head = True
        await self.send_piece({"type": "http.response.body", "body": data, "more_body": True})
        if self.timer is not None:
            self.timer.sent()

    async def _begin(self) -> None:
        usual = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            # Proxies that collect whole answers would delay a stream.
            "x-accel-buffering": "no",
        }
        await self.send(send_start(200, {**usual, **self.headers}))

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b""})


def send_start(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    """The message that begins a response."""
    raw = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
    return {"type": "http.response.start", "status": status, "headers": raw}


class DisconnectWatch:
    """Calls back when the client disconnects, once the body has come."""

    def __init__(self, receive: Receive, on_gone: Callable[[], object]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(receive, on_gone))

    async def _watch(self, receive: Receive, on_gone: Callable[[], object]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        on_gone()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def while_connected(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """The result of `work`. It is cancelled, and `ClientGone` raised, when the client
    disconnects."""
    task = asyncio.get_running_loop().create_task(work)
    watch = DisconnectWatch(receive, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if task.cancelled():
            raise ClientGone("the client went away") from None
        raise
    finally:
        task.cancel()
        await watch.close()


class GatewayApp(Starlette):
    """Starlette, with a way past its layers.

    They examine the start of a response, and pass on the rest. The rest of a stream is thousands of
    pieces, and each layer would cost a piece nearly as much as writing it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SEND_PIECE] = send
        await super().__call__(scope, receive, send)


# Requests that reach no route.


# Monitoring may go on while the server stops.
_STILL_ANSWERED = ("/health", "/metrics")
# No client has a tenth of them. Each header costs time wherever headers are searched.
MOST_HEADERS = 500


@dataclass(slots=True)
class Drain:
    """Whether a server still takes requests, and the number that it is answering."""

    has_begun: bool = False
    active: int = 0

    def begin(self) -> None:
        """Takes no more requests. It uses no locks, so a signal handler may call it."""
        self.has_begun = True

    @property
    def is_over(self) -> bool:
        return self.has_begun and not self.active


# Raises an `ApiError` for a request that is refused.
CheckRequest: TypeAlias = Callable[[Scope], None]


class DoorApp:
    """An app that gets no request with too large a head, none that a check refuses, and none once
    its drain has begun."""

    def __init__(
        self, app: AsgiApp, max_header: int, drain: Drain, checks: Sequence[CheckRequest]
    ) -> None:
        self._app = app
        self._max_header = max_header
        self._drain = drain
        self._checks = (self._check_head, *checks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_counted = scope["path"] not in _STILL_ANSWERED
        try:
            if is_counted and self._drain.has_begun:
                raise ApiError("The server is shutting down.", status=503)
            for check in self._checks:
                check(scope)
        except ApiError as error:
            await _refuse(scope, send, error)
            return
        self._drain.active += is_counted
        try:
            await self._app(scope, receive, send)
        finally:
            self._drain.active -= is_counted

    def _check_head(self, scope: Scope) -> None:
        headers = scope["headers"]
        if len(headers) > MOST_HEADERS:
            raise ApiError(f"The request has more than {MOST_HEADERS} headers.", status=431)
        if sum(len(name) + len(value) for name, value in headers) > self._max_header:
            raise ApiError(f"The headers are larger than {self._max_header} bytes.", status=431)


async def _refuse(scope: Scope, send: Send, error: ApiError) -> None:
    """Answers a request that reaches no route, and closes the connection: the next may be to
    another server."""
    protocol: ProtocolName = "messages" if "/messages" in scope["path"] else "chat"
    status, body = protocol_of_client(headers_of(scope), protocol).error(error)
    again = {"x-should-retry": "false"}
    if status == 503:
        again = {"retry-after": "1", "x-should-retry": "true"}
    await send_json(send, status, body, {**again, "connection": "close"})

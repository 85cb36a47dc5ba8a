"""HTTP to the backend: a request on a connection, and its answer as it comes.

Every token passes here, and a general-purpose client adds an eighth to the gateway's time for each.
This one wakes its reader once for a piece, and leaves out what a gateway does not need, such as
redirects and cookies. Proxies and certificates are in `network_path.py`.
"""

from __future__ import annotations

import asyncio
import math
import select
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

import httptools

from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.network_path import NetworkPath, basic_authorization

# The most bytes of an answer that wait to be read; beyond that, the backend has to wait.
_MAX_BUFFERED = 256 * 1024
# The seconds that a server has to end a body after its last event.
_TO_END = 1.0
# The most bytes that are inflated from a compressed body in one step.
_MOST_INFLATED = 256 * 1024
# The seconds that a connection may be idle. Servers close idle connections after a while, and some
# networks drop them silently.
_IDLE_SECONDS = 15.0


class HttpError(Exception):
    """There is no answer, or its end is missing."""


class HttpConnection(asyncio.Protocol):
    """A connection, and the answer to the last request on it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._failure: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Callable[[bytes], bool] | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._has_head = self._has_ended = self._keeps_alive = False
        self._has_chunk_ended = self._is_between_chunks = False
        self.status = 0
        self.headers: dict[str, str] = {}

    # For the client.

    async def ask(self, request: bytes) -> None:
        """Sends a request, and waits for the head of its answer."""
        self._begin()
        if self._failure is not None:
            raise self._failure
        self._transport.write(request)
        while not self._has_head:
            await self._changed()

    async def read(self) -> bytes:
        """The bytes of the body that have come. Waits where there are none; empty at the end."""
        while not self._parts:
            if self._has_ended:
                return b""
            await self._changed()
        parts, self._parts, self._size = self._parts, [], 0
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def first_byte(self) -> int | None:
        """The first byte of a body of which nothing was read; None where it is empty."""
        while not self._parts and not self._has_ended:
            await self._changed()
        return self._parts[0][0] if self._parts else None

    async def pass_to(self, sink: Callable[[bytes], bool]) -> None:
        """Passes the body to `sink` at the moment when it comes, until `sink` takes no more or the
        body ends. Bytes that have come already must be read first."""
        if not self._parts and not self._has_ended:
            self._sink = sink
            try:
                await self._changed()
            finally:
                self._sink = None

    async def drained(self) -> None:
        """Waits a moment for the end of a body after its last event, so that the connection can be
        used again."""
        with suppress(HttpError, asyncio.TimeoutError):
            if not self._has_ended:
                await asyncio.wait_for(self._skipped(), _TO_END)
            self._parts = []

    async def _skipped(self) -> None:
        while await self.read():
            pass

    @property
    def may_go_on(self) -> bool:
        """Whether the connection can take another request."""
        return self.is_open and self._has_ended and self._keeps_alive and not self._parts

    @property
    def is_silent(self) -> bool:
        """Whether the connection is open and nothing has come on it since the last answer: neither
        its end, which the loop may not have reported yet, nor unrequested data."""
        return self.is_open and not _is_readable(self._transport.get_extra_info("socket"))

    @property
    def is_open(self) -> bool:
        return self._failure is None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _changed(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # From the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._sink is not None and self._is_between_chunks:
            # Nearly always one whole chunk has come, which needs no parser.
            head, start, inside = _chunk_form(len(data))
            if data[start] == head and data[-1] == _LF and data[-2] == _CR:
                if not self._sink(data[inside]):
                    self._end_sink()
                return
        try:
            self._parser.feed_data(data)
            # A complete line after a chunk is the head of the next one.
            self._is_between_chunks = self._has_chunk_ended and data.endswith(b"\r\n")
        except httptools.HttpParserError as error:
            self._fail(f"what it sends is no HTTP: {error}")
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        has_length = self.headers.keys() & {"content-length", "transfer-encoding"}
        if self._has_head and not has_length:
            self._has_ended = True  # the body ends with the connection
            self._wake()
        self._fail(str(exc) if exc else "it closed the connection")

    def _fail(self, problem: str) -> None:
        if self._failure is None:
            self._failure = HttpError(problem)
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # From the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        field, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if field == "content-encoding" and field in self.headers:  # each hop adds its own
            text = f"{self.headers[field]}, {text}"
        self.headers[field] = text

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:  # the headers of the final answer come later
            self.headers = {}
            return
        self._has_head = True
        self._wake()

    def on_body(self, part: bytes) -> None:
        if self._sink is not None:
            if not self._sink(part):
                self._end_sink()
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > _MAX_BUFFERED and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_chunk_header(self) -> None:
        self._has_chunk_ended = False

    def on_chunk_complete(self) -> None:
        self._has_chunk_ended = True

    def _end_sink(self) -> None:
        self._sink = None
        self._wake()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._has_ended = True
            self._keeps_alive = self._parser.should_keep_alive()  # the parser knows it only here
            self._wake()


@lru_cache(maxsize=4096)
def _chunk_form(size: int) -> tuple[bytes, slice, slice]:
    """The head of a chunk that has so many bytes in all, the place of the head, and that of the
    chunk's body."""
    for digits in range(1, len(f"{size:x}") + 1):
        head = b"%x\r\n" % max(size - digits - 4, 0)
        if len(head) == digits + 2 and head[0] != _ZERO:
            return head, slice(len(head)), slice(len(head), -2)
    return b"\n", slice(0), slice(0)  # no chunk has this size


_ZERO, _CR, _LF = b"0\r\n"


def _is_readable(socket: Any) -> bool:
    """Whether a socket has something to read at this moment: data, or its end."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


class InflatedBody:
    """The body of an answer that came compressed without being asked for, as some proxies do.

    A few bytes may become a gigabyte. So a body is inflated in steps, and after each of them other
    streams get a turn.
    """

    def __init__(self, answer: HttpConnection | InflatedBody, coding: str) -> None:
        self._answer = answer
        self._coding = coding
        self._is_plain = False
        self._inflater = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
        self._rest = b""
        self._has_begun = False

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        while data := self._rest or await self._answer.read():
            if not self._has_begun:
                self._is_plain = self._begins_plainly(data[0])
            if self._is_plain:
                self._has_begun = True
                return data
            piece = self._inflated(data)
            await asyncio.sleep(0)
            if piece:
                return piece
        if self._has_begun and not self._inflater.eof and not self._is_plain:
            raise HttpError("its compressed body has no end")
        return b""

    def _begins_plainly(self, first: int) -> bool:
        """Whether a body is not compressed: a proxy that has inflated it may leave the header in
        place. Raises an `HttpError` for a compression that is not supported."""
        if "gzip" in self._coding or self._coding == "deflate":
            return "gzip" in self._coding and first not in _FIRST_BYTES
        if first in _PLAIN_BYTES:
            return True
        raise HttpError(f"its body is compressed by {self._coding}, which was not asked for")

    def _inflated(self, data: bytes) -> bytes:
        """The output of one step. The input that is left over is kept as the rest."""
        if self._inflater.eof:  # gzip members may follow each other, with zeros after the last
            data = data.lstrip(b"\0")
            if not data:
                self._rest = b""
                return b""
            self._inflater = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
        try:
            piece = self._inflater.decompress(data, _MOST_INFLATED)
        except zlib.error as error:
            if self._has_begun:
                raise HttpError(f"its compressed body cannot be read: {error}") from None
            piece = self._without_head(data)
        self._has_begun = True
        self._rest = self._inflater.unconsumed_tail or self._inflater.unused_data
        return piece

    def _without_head(self, data: bytes) -> bytes:
        """The first step of a body without zlib's head, which some servers also call deflate."""
        self._inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        try:
            return self._inflater.decompress(data, _MOST_INFLATED)
        except zlib.error as error:
            raise HttpError(f"its compressed body cannot be read: {error}") from None


# The first bytes of gzip and zlib.
_FIRST_BYTES = b"\x1f\x78"
_FIRST_OF_GZIP = _FIRST_BYTES[0]
# The first bytes of events, of JSON and of a byte order mark.
_PLAIN_BYTES = b"deir:{[ \t\r\n\xef"
# Some servers send the charset of a text in this header.
_NOT_COMPRESSED = ("identity", "", "none", "utf-8", "utf8")
# zlib's value for a body with either of the two heads.
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


async def body_of(answer: HttpConnection) -> HttpConnection | InflatedBody:
    """The reader for the body of an answer. Some caches forget to say that it is compressed."""
    codings = [name.strip() for name in answer.headers.get("content-encoding", "").split(",")]
    named = [name for name in map(str.lower, codings) if name not in _NOT_COMPRESSED]
    if not named and await answer.first_byte() == _FIRST_OF_GZIP:
        named = ["gzip"]
    body: HttpConnection | InflatedBody = answer
    for name in reversed(named):  # they were applied in this order
        body = InflatedBody(body, name)
    return body


async def rest_of(answer: HttpConnection, most: int) -> bytes:
    """The body of an answer from here on, or as much of it as is wanted."""
    body = await body_of(answer)
    parts: list[bytes] = []
    size = 0
    while size < most and (part := await body.read()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)[:most]


class HttpClient:
    """The connections to one server."""

    def __init__(self, url: str, headers: Mapping[str, str], settings: Settings) -> None:
        """`headers` go with every request."""
        parts = urlsplit(url)
        self._way = NetworkPath(url, settings)
        self._path = self._way.target + parts.path
        self._connect_timeout = settings.connect_timeout
        fields = {"host": parts.netloc.rpartition("@")[2], **headers, **self._way.headers}
        if parts.username is not None:
            fields = {"authorization": basic_authorization(parts), **fields}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._idle: deque[tuple[float, HttpConnection]] = deque()  # since when, the longest first
        self._connections: WeakSet[HttpConnection] = WeakSet()
        self._starts = 0

    async def request(
        self, method: str, path: str, body: bytes = b"", more: str = ""
    ) -> HttpConnection:
        """The answer, once its head has come. It must be given back with `release`. `more` are
        header lines for this request only. A body is JSON unless they name another type."""
        if "content-type:" not in more:
            more += "content-type: application/json\r\n"
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._head}{more}"
        head += f"content-length: {len(body)}\r\n\r\n" if method == "POST" else "\r\n"
        request = head.encode() + body
        idle = self._idle_one()
        if idle is not None:
            try:
                return await self._ask(idle, request)
            except HttpError:
                # The server may have closed it a moment before, or have read the request and died.
                # Which one is unknown, so only a request that changes nothing is sent again.
                if idle.status or method != "GET":
                    raise
        return await self._ask(await self._connected(), request)

    async def _ask(self, answer: HttpConnection, request: bytes) -> HttpConnection:
        try:
            await answer.ask(request)
        except BaseException:
            answer.close()
            raise
        return answer

    async def _connected(self) -> HttpConnection:
        making = self._way.connected(HttpConnection)
        answer = await asyncio.wait_for(making, self._connect_timeout)
        self._starts = self.starts
        self._connections.add(answer)
        return answer

    @property
    def starts(self) -> int:
        """The number of times that the server may have been started. As long as a connection is
        open, it is the same process; when none is open, the next one may be to another."""
        return self._starts + (not any(connection.is_open for connection in self._connections))

    def release(self, answer: HttpConnection) -> None:
        """Keeps a connection for the next request if its answer was read to the end."""
        if answer.may_go_on:
            self._idle.append((time.monotonic(), answer))
            self._drop_before(time.monotonic() - _IDLE_SECONDS)
        else:
            answer.close()

    def _idle_one(self) -> HttpConnection | None:
        self._drop_before(time.monotonic() - _IDLE_SECONDS)
        while self._idle:
            _, answer = self._idle.pop()
            if answer.is_silent:
                return answer
            answer.close()
        return None

    def _drop_before(self, moment: float) -> None:
        while self._idle and (self._idle[0][0] < moment or not self._idle[0][1].is_open):
            self._idle.popleft()[1].close()

    def close(self) -> None:
        self._drop_before(math.inf)

"""Requests and responses on bare ASGI: a stream's pieces go out with nothing in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from dsv4.api import ApiError
from dsv4.serve.generation import ClientGone
from dsv4.serve.settings import Settings
from dsv4.serve.watch import Watch

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
# Where a scope has the way that pieces of a stream take, once its start has been sent.
SEND_PIECE = "dsv4.send_piece"


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request, by their names in small letters."""
    return {
        name.decode("latin-1"): value.decode("utf-8", "surrogateescape")
        for name, value in scope["headers"]
    }


async def read_body(scope: Scope, receive: Receive, settings: Settings) -> bytes:
    """The body of a request. Raises `ApiError` for one that is too large, too slow or packed."""
    headers = headers_of(scope)
    if sum(len(name) + len(value) for name, value in scope["headers"]) > settings.max_header:
        raise ApiError(f"The headers are larger than {settings.max_header} bytes.", status=431)
    packed = headers.get("content-encoding", "identity")
    if packed != "identity":
        raise ApiError(f"found a body packed with {packed!r}, expected it plain", status=415)
    announced = headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > settings.max_body:
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
    send: Send, status: int, body: Any, headers: Mapping[str, str] | None = None
) -> None:
    """A whole response."""
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    await send_bytes(send, status, data, "application/json", headers)


async def send_bytes(
    send: Send, status: int, data: bytes, kind: str, headers: Mapping[str, str] | None = None
) -> None:
    sent = {"content-type": kind, "content-length": str(len(data)), **(headers or {})}
    await send(_start(status, sent))
    await send({"type": "http.response.body", "body": data})


class EventStream:
    """A response of server-sent events. Its head goes out with the first of them."""

    def __init__(
        self,
        send: Send,
        headers: Mapping[str, str],
        watch: Watch | None = None,
        send_piece: Send | None = None,
    ) -> None:
        """`watch` notes when a write begins and ends. `send_piece` is the shortest way for all
        that comes after the start, `send` if not given."""
        self._send = send
        self._send_piece = send_piece or send
        self._headers = headers
        self._watch = watch
        self._turn = asyncio.Lock()  # choices and signs of life write in the order they come
        self.has_begun = False

    async def write(self, data: bytes) -> None:
        begins, self.has_begun = not self.has_begun, True
        await self._turn.acquire()
        try:
            if self._watch is not None:
                self._watch.sends()
            if begins:
                await self._begin()
            await self._send_piece({"type": "http.response.body", "body": data, "more_body": True})
            if self._watch is not None:
                self._watch.sent()
        finally:
            self._turn.release()

    async def _begin(self) -> None:
        fixed = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            # Proxies that collect answers would turn a stream into a wait.
            "x-accel-buffering": "no",
        }
        await self._send(_start(200, {**fixed, **self._headers}))

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})


def _start(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    raw = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
    return {"type": "http.response.start", "status": status, "headers": raw}


class DisconnectWatch:
    """Calls back when the client goes away, from the moment its body has come."""

    def __init__(self, receive: Receive, gone: Callable[[], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(receive, gone))

    async def _watch(self, receive: Receive, gone: Callable[[], None]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

"""How a server stops: it takes no new requests, says so, and ends when the running ones have."""

from __future__ import annotations

from dsv4.api import ApiError
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import protocol_of_client
from dsv4.serve.asgi import AsgiApp, Receive, Scope, Send, headers_of, send_json

# Whoever watches the server may go on watching.
_STILL_ANSWERED = ("/health", "/metrics")


class Drain:
    """Whether a server still takes requests, and how many it is answering."""

    def __init__(self) -> None:
        self.has_begun = False
        self.active = 0

    def begin(self) -> None:
        """Takes no more requests. Nothing is locked, so a signal may call it."""
        self.has_begun = True

    @property
    def is_over(self) -> bool:
        return self.has_begun and not self.active


class DrainedApp:
    """An app that refuses what comes after its drain has begun."""

    def __init__(self, app: AsgiApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _STILL_ANSWERED:
            await self._app(scope, receive, send)
        elif self._drain.has_begun:
            await _refuse(scope, send)
        else:
            self._drain.active += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._drain.active -= 1


async def _refuse(scope: Scope, send: Send) -> None:
    """Sends a client elsewhere: to another connection, and so to another server."""
    spoken: ProtocolName = "messages" if "/messages" in scope["path"] else "chat"
    error = ApiError("The server is shutting down.", status=503)
    status, body = protocol_of_client(headers_of(scope), spoken).error(error)
    headers = {"retry-after": "1", "x-should-retry": "true", "connection": "close"}
    await send_json(send, status, body, headers)

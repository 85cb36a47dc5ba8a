"""Routes that the gateway does not know, passed on to the chat server behind it: `/v1/embeddings`
and whatever else that server has.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import cast

from dsv4.api import ApiError
from dsv4.api.protocols import protocol_of_client
from dsv4.api.request_fields import JsonObject, json_body
from dsv4.serve.asgi import (
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    send_start,
    while_connected,
)
from dsv4.serve.backend import BackendError, PassedAnswer, PassingBackend
from dsv4.serve.client_errors import client_error
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.logs import RequestReport
from dsv4.serve.reported_route import ReportedRoute

METHODS = ("GET", "POST", "DELETE")


class PassedRoute(ReportedRoute):
    """Every route that no other has."""

    def __init__(self, server: GatewayState) -> None:
        super().__init__(server, "passed")

    def _error_body(self, scope: Scope, error: ApiError) -> tuple[int, JsonObject]:
        return protocol_of_client(headers_of(scope)).error(error)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, report: RequestReport
    ) -> int:
        copy = AnswerCopy(send)
        asked = await self._asked(scope, receive, report)
        key = report.key
        assert key is not None  # or nothing would be asked
        try:
            with self._server.access.meter.admitted(key.name, key.limits):
                return await while_connected(copy.run(asked), receive)
        except BackendError as error:
            if not copy.has_begun:
                raise
            self._server.metrics.count_failure(error)
            report.fail(client_error(error))
            return copy.status

    async def _asked(
        self, scope: Scope, receive: Receive, report: RequestReport
    ) -> AbstractAsyncContextManager[PassedAnswer]:
        """The answer of a server to a request that may be passed on."""
        headers = headers_of(scope)
        key = report.key = await self._server.access.authenticated(scope)
        # As everywhere here, what says that it is something else is JSON all the same.
        method, kind = scope["method"], headers.get("content-type", "")
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        if method not in METHODS:
            raise ApiError(f"found {method} {path}, which is not served here", status=404)
        data = await read_body(scope, receive, self._server.settings)
        if kind.startswith("multipart/"):
            expected = "expected JSON: nothing else is passed on to the backend"
            raise ApiError(f"found a body of type {kind}, {expected}", status=415)
        if key.limits.models and method == "POST":
            key.limits.check_model(json_body(data).get("model"))
        query = scope["query_string"].decode("latin-1")
        asked = path.partition("?")[0] + (f"?{query}" if query else "")
        backend = cast(PassingBackend, self._server.engines.able.backend)
        return backend.passed(method, asked, data)


class AnswerCopy:
    """Passes an answer on as it comes. One that breaks off does not look complete: its last part
    is missing, and so the connection is closed."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    @property
    def has_begun(self) -> bool:
        return bool(self.status)

    async def run(self, asked: AbstractAsyncContextManager[PassedAnswer]) -> int:
        """Copies the answer, and returns its status."""
        async with asked as answer:
            headers = {"content-type": answer.headers.get("content-type", "application/json")}
            self.status = answer.status
            await self._send(send_start(answer.status, headers))
            while piece := await answer.read():
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            await self._send({"type": "http.response.body", "body": b""})
            return answer.status

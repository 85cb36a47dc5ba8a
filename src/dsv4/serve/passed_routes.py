"""Routes that the gateway does not know, passed on to the chat server behind it: `/v1/embeddings`
and whatever else that server has.
"""

from __future__ import annotations

from dsv4.api import ApiError
from dsv4.api.protocols import protocol_of_client
from dsv4.serve.asgi import Receive, Scope, Send, headers_of, read_body, send_json, send_start
from dsv4.serve.backend import PassingBackend
from dsv4.serve.completion_route import retry_headers
from dsv4.serve.completion_run import client_error, is_expected
from dsv4.serve.server import GatewayState

METHODS = ("GET", "POST", "DELETE")


class PassedRoute:
    """Every route that no other has."""

    def __init__(self, server: GatewayState, backend: PassingBackend) -> None:
        self._server = server
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._pass_on(scope, receive, send)
        except Exception as error:
            status, body = protocol_of_client(headers_of(scope)).error(client_error(error))
            await send_json(send, status, body, retry_headers(status, error))
            if not is_expected(error):
                raise

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        if self._server.keys.owner(headers) is None:
            raise ApiError("The API key is missing or not known here.", status=401)
        # As everywhere here, what says that it is something else is JSON all the same.
        method, kind = scope["method"], headers.get("content-type", "")
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        if method not in METHODS:
            raise ApiError(f"found {method} {path}, which is not served here", status=404)
        data = await read_body(scope, receive, self._server.settings)
        if kind.startswith("multipart/"):
            expected = "expected JSON: nothing else is passed on to the backend"
            raise ApiError(f"found a body of type {kind}, {expected}", status=415)
        query = scope["query_string"].decode("latin-1")
        asked = path.partition("?")[0] + (f"?{query}" if query else "")
        async with self._backend.passed(method, asked, data) as answer:
            sent = {"content-type": answer.headers.get("content-type", "application/json")}
            await send(send_start(answer.status, sent))
            while piece := await answer.read():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

"""The inspector as routes, for the playground's page.

POST /playground/inspector/changes   what has changed since a version; waits a little for something
POST /playground/inspector/request   all that is known of one request
POST /playground/inspector/clear     forgets all that have ended

What clients said is shown to whoever runs the server, and to nobody else: on loopback where no keys
are asked for, elsewhere with a key that is marked `admin` in the file of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from starlette.routing import BaseRoute, Route

from dsv4.api import ApiError
from dsv4.errors import short_repr
from dsv4.serve.answering import read_json
from dsv4.serve.asgi import Receive, Scope, Send, headers_of, read_body, send_json
from dsv4.serve.generation import ClientGone
from dsv4.serve.inspector import PATIENCE, Inspector
from dsv4.serve.playground_routes import HEADERS, Guard
from dsv4.serve.server import Server


def inspector_routes(server: Server) -> list[BaseRoute]:
    """The routes, where the settings ask for them."""
    if server.inspector is None:
        return []
    endpoint = Inspecting(server, server.inspector, Guard(server.settings))
    return [Route("/playground/inspector/{name}", endpoint=endpoint, methods=["POST"])]


class Inspecting:
    """Answers those who may look."""

    def __init__(self, server: Server, inspector: Inspector, guard: Guard) -> None:
        self._server = server
        self._inspector = inspector
        self._guard = guard
        self._names = {"changes": self._changes, "request": self._request, "clear": self._clear}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, body = 200, await self._answer(scope, receive)
        except ClientGone:
            return
        except ApiError as error:
            status, body = error.status, {"error": {"message": error.message}}
        await send_json(send, status, body, HEADERS)

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        headers = headers_of(scope)
        self._guard.check(headers)
        self._admit(scope, headers)
        # Other kinds can be sent by a form on any page, without a question asked before.
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise ApiError("expected a body of application/json", status=415)
        answer = self._names.get(scope["path_params"]["name"])
        if answer is None:
            expected = ", ".join(self._names)
            raise ApiError(f"found another name, expected one of {expected}", status=404)
        data = await read_body(scope, receive, self._server.settings)
        return await answer(read_json(data, self._server.settings.max_depth))

    def _admit(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Raises an `ApiError` for somebody who may not look."""
        if self._server.keys.asks:
            key = self._server.keys.owner(headers)
            if key is None:
                raise ApiError("The API key is missing or not known here.", status=401)
            if not key.admin:
                problem = "found a key without `admin` before its name in the file of keys"
                raise ApiError(f"{problem}, expected one with it", status=403)
        elif not (self._server.settings.is_loopback and _is_here(scope)):
            problem = "found a server without keys that listens beyond loopback"
            raise ApiError(f"{problem}, expected an `admin` key", status=403)

    async def _changes(self, body: dict[str, Any]) -> Any:
        name, since = body.get("name", ""), _whole(body, "since", 0)
        patience = body.get("patience", PATIENCE)
        patience = patience if isinstance(patience, (int, float)) else PATIENCE
        return await self._inspector.next_changes(str(name), since, patience)

    async def _request(self, body: dict[str, Any]) -> Any:
        number = _whole(body, "number")
        seen = self._inspector.get(number)
        if seen is None:
            raise ApiError(f"found {number}, expected a request that is kept", status=404)
        return seen.details()

    async def _clear(self, body: dict[str, Any]) -> Any:
        self._inspector.clear()
        return {"cleared": True}


def _is_here(scope: Scope) -> bool:
    """Whether the client is on this machine."""
    client = scope.get("client")
    try:
        return client is None or ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _whole(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ApiError(f"found {short_repr(value)}, expected a whole number", path=name)
    return value

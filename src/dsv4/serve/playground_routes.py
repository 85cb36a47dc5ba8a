"""The playground and the inspector beside the API: their files and their functions as routes.

GET  /playground/                    the page, and the files that it loads
POST /playground/api/NAME            a function of `dsv4._playground`, JSON in and JSON out
POST /playground/inspector/changes   what has changed since a version; waits for a change
POST /playground/inspector/request   everything that is known of one request
POST /playground/inspector/session   the turns of one session
POST /playground/inspector/clear     forgets all requests that have ended

Pages of other sites must not reach what runs on this machine: requests are answered only under the
server's own names (which prevents DNS rebinding), and never for a foreign origin. The files are
public; functions ask for a key where the server has keys. The inspector is only for the server's
operator: on loopback where no keys are asked for, elsewhere with a key that is marked `admin` in
the file of keys.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute, Route

from dsv4 import _playground
from dsv4._playground.page_functions import answer, error_answer
from dsv4._playground.page_request import PlaygroundContext
from dsv4._view.html_page import STYLE
from dsv4._view.session_view import session_facts
from dsv4.api import ApiError
from dsv4.errors import EncodeError, mismatch
from dsv4.profiles import Profile, load
from dsv4.serve import asgi
from dsv4.serve.access.site_guard import SiteGuard
from dsv4.serve.body_limits import read_json
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.inspector import PATIENCE_SECONDS, Inspector
from dsv4.serve.sessions.session_calls import checked_session_id
from dsv4.serve.settings import MIB, SettingError
from dsv4.serve.storage.turn_stores import StoreFailure
from dsv4.serve.upstreams.network_path import is_loopback
from dsv4.trajectories.trajectory_export import built_session

PAGE = Path(_playground.__file__).parent / "page"
MAX_BODY = 16 * MIB
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff": "font/woff",
}
HEADERS = json.loads(Path(__file__).with_name("page_headers.json").read_text("utf-8"))


def page_routes(server: GatewayState) -> list[BaseRoute]:
    """The routes, where the settings ask for them."""
    settings, guard = server.settings, SiteGuard(server.settings)
    routes: list[BaseRoute] = []
    if server.inspector is not None:
        inspecting = InspectorRoute(server, server.inspector, guard)
        routes += [Route("/playground/inspector/{name}", endpoint=inspecting, methods=["POST"])]
    if settings.playground or settings.inspect:
        files, functions = PageFiles(guard), FunctionRoute(server, guard)
        routes += [
            Route("/playground", endpoint=files, methods=["GET"]),
            Route("/playground/api/{name}", endpoint=functions, methods=["POST"]),
            Route("/playground/{name:path}", endpoint=files, methods=["GET"]),
        ]
    return routes


class FrontDoor:
    """`/`: the page for browsers, and the API's own answer for all others."""

    def __init__(self, other: asgi.AsgiApp) -> None:
        self._other = other

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if "text/html" not in asgi.headers_of(scope).get("accept", ""):
            await self._other(scope, receive, send)
            return
        to_page = {**HEADERS, "location": "playground/", "vary": "accept"}
        await asgi.send_bytes(send, 307, b"", "text/plain", to_page)


class PageFiles:
    """The files of the page, read once."""

    def __init__(self, guard: SiteGuard) -> None:
        self._guard = guard
        self._files = {
            path.relative_to(PAGE).as_posix(): (path.read_bytes(), CONTENT_TYPES[path.suffix])
            for path in sorted(PAGE.rglob("*"))
            if path.suffix in CONTENT_TYPES
        }
        # The styles of `dsv4 show --html`, so that a prompt looks the same in both.
        self._files["view.css"] = (STYLE.encode(), CONTENT_TYPES[".css"])

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        try:
            self._guard.check(scope)
        except ApiError as error:
            await asgi.send_json(send, error.status, {"error": {"message": error.message}}, HEADERS)
            return
        status, data, kind, more = self._answer(scope)
        data = b"" if scope["method"] == "HEAD" else data
        await asgi.send_bytes(send, status, data, kind, {**HEADERS, **more})

    def _answer(self, scope: asgi.Scope) -> tuple[int, bytes, str, dict[str, str]]:
        name = scope["path_params"].get("name")
        if name is None:
            return 307, b"", "text/plain", {"location": "playground/"}
        if (name or "index.html") not in self._files:
            return 404, b"There is no such file.", "text/plain", {}
        data, kind = self._files[name or "index.html"]
        tag = f'"{sha256(data).hexdigest()[:24]}"'
        is_known = asgi.headers_of(scope).get("if-none-match") == tag
        return (304, b"", kind, {"etag": tag}) if is_known else (200, data, kind, {"etag": tag})


def saved_servers(paths: Iterable[str]) -> dict[str, Profile]:
    """The servers in files of `dsv4 verify --save`, by the names of the files: the page sends
    names, and never paths. Raises `SettingError`."""
    profiles: dict[str, Profile] = {}
    for path in paths:
        try:
            profile = load(path)
        except (EncodeError, OSError) as error:
            raise SettingError("profile", f"{path}: {error}") from None
        if profile.name in profiles:
            raise SettingError("profile", f"{path}: found a second {profile.name}, expected one")
        profiles[profile.name] = profile
    return profiles


class PageRoute(ABC):
    """A route of functions for this server's own pages."""

    def __init__(self, server: GatewayState, guard: SiteGuard) -> None:
        self._server = server
        self._guard = guard
        limit = min(server.settings.max_body, MAX_BODY)
        self._settings = replace(server.settings, max_body=limit)

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        try:
            self._guard.check(scope)
            await self._admit(scope)
            _check_type(scope)
            data = await asgi.read_body(scope, receive, self._settings)
            status, body = await self._answer(scope["path_params"]["name"], data, receive)
        except asgi.ClientGone:
            return
        except ApiError as error:
            status, body = error_answer(error)
        await asgi.send_bytes(send, status, body, "application/json", HEADERS)

    async def _admit(self, scope: asgi.Scope) -> None:
        """Raises an `ApiError` for a client that may not use it."""
        await self._server.access.authenticated(scope)

    @abstractmethod
    async def _answer(self, name: str, data: bytes, receive: asgi.Receive) -> tuple[int, bytes]:
        """The status and the body of a function's answer."""


class FunctionRoute(PageRoute):
    """The functions, each as a route. They run in a thread: streams do not wait."""

    def __init__(self, server: GatewayState, guard: SiteGuard) -> None:
        super().__init__(server, guard)
        # Only one thread: requests that are pending while the user types on are of no use any more.
        self._saved_servers = saved_servers(server.settings.profile)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="playground")

    async def _answer(self, name: str, data: bytes, receive: asgi.Receive) -> tuple[int, bytes]:
        """The answer of a function. It is not started if its client has disconnected."""

        async def reply() -> tuple[int, bytes]:
            loop, context = asyncio.get_running_loop(), self._context()
            return await loop.run_in_executor(self._pool, answer, name, data, context)

        return await asgi.while_connected(reply(), receive)

    def _context(self) -> PlaygroundContext:
        """The current context: the backend may have answered since the start."""
        server = self._server
        return PlaygroundContext(
            tokenizer=server.tokenizer,
            dialect=str(server.model.dialect),
            model=server.model.name,
            inspects=server.settings.inspect,
            asks_for_key=server.access.keys.asks,
            saved=self._saved_servers,
        )


# The inspector.


class InspectorRoute(PageRoute):
    """Answers the clients that may use the inspector."""

    def __init__(self, server: GatewayState, inspector: Inspector, guard: SiteGuard) -> None:
        super().__init__(server, guard)
        self._inspector = inspector
        self._names = {
            "changes": self._changes,
            "request": self._request,
            "session": self._session,
            "clear": self._clear,
        }

    async def _answer(self, name: str, data: bytes, receive: asgi.Receive) -> tuple[int, bytes]:
        answer = self._names.get(name)
        if answer is None:
            expected = ", ".join(self._names)
            raise ApiError(f"found another name, expected one of {expected}", status=404)
        body = read_json(data)
        return 200, asgi.json_bytes(await answer(body))

    async def _admit(self, scope: asgi.Scope) -> None:
        """Raises an `ApiError` for a client that may not use the inspector."""
        access = self._server.access
        access.check_administrator(await access.authenticated(scope))
        client = scope.get("client")
        if not (access.keys.asks or client is None or is_loopback(client[0])):
            problem = "found a client on another machine, and no keys"
            raise ApiError(f"{problem}, expected an `admin` key", status=403)

    async def _changes(self, body: dict[str, Any]) -> Any:
        name, since = body.get("name", ""), _integer_field(body, "since", 0)
        patience = body.get("patience", PATIENCE_SECONDS)
        patience = patience if isinstance(patience, (int, float)) else PATIENCE_SECONDS
        return await self._inspector.next_changes(str(name), since, patience)

    async def _request(self, body: dict[str, Any]) -> Any:
        number = _integer_field(body, "number")
        request = self._inspector.get(number)
        if request is None:
            raise ApiError(f"found {number}, expected a request that is kept", status=404)
        return request.details()

    async def _session(self, body: dict[str, Any]) -> Any:
        store, tokenizer = self._server.sessions.store, self._server.tokenizer
        id = checked_session_id(body.get("session"), "session")
        try:
            record = None if store is None else await store.session(id)
            if store is None or record is None or tokenizer is None:
                raise ApiError(f"found {id!r}, expected a session that is recorded", status=404)
            calls = await store.calls(id)
        except StoreFailure as failure:
            message = f"The store of sessions does not answer: {failure}"
            raise ApiError(message, status=503) from None
        session = await asyncio.to_thread(built_session, record, calls, tokenizer=tokenizer)
        return session_facts(session, tokenizer.decode)

    async def _clear(self, body: dict[str, Any]) -> Any:
        self._inspector.clear()
        return {"cleared": True}


def _check_type(scope: asgi.Scope) -> None:
    """Other types can be sent by a form on any page, without a preflight request."""
    kind = asgi.headers_of(scope).get("content-type", "")
    if kind.partition(";")[0].strip() != "application/json":
        raise ApiError(
            f"found a body of {kind or 'no type'}, expected application/json", status=415
        )


def _integer_field(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ApiError(mismatch(value, "a whole number"), path=name)
    return value

"""Routes that the gateway does not know, passed on to the chat server behind it: `/v1/embeddings`
and a few more.

Only routes of a list are passed on. The server gets the operator's own key with every request, so a
route that reloads weights or ends the process would otherwise be open to every client.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import cast
from urllib.parse import unquote

from dsv4.api import ApiError
from dsv4.api.event_writer import Usage
from dsv4.api.protocols import protocol_of_client
from dsv4.api.request_fields import JsonObject, json_body
from dsv4.serve import asgi
from dsv4.serve.access.api_keys import Key
from dsv4.serve.backend import BackendError, PassedAnswer, PassingBackend
from dsv4.serve.body_limits import choices_in
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.logs import RequestReport
from dsv4.serve.observe.records import PASSED, Exchange
from dsv4.serve.reported_route import ReportedRoute, client_error
from dsv4.serve.upstreams.passed_headers import passing_on

# Routes for every key. `/*` stands for everything below.
USUAL_ROUTES = (
    "GET /version",
    "POST /v1/completions",
    "POST /v1/embeddings",
    "POST /v1/rerank",
    "POST /v1/audio/*",
)
# Further routes of the official API.
OFFICIAL_ROUTES = (
    "POST /beta/completions",
    "POST /files",
    "GET /files",
    "GET /files/*",
    "DELETE /files/*",
    "GET /user/balance",
)
METHODS = ("GET", "POST", "DELETE")
# Those whose body is a form with a file. All others take JSON.
_UPLOADS = ("/files",)
# The headers of an answer that clients act on.
_HEADERS_KEPT = ("content-type", "content-encoding", "retry-after", "x-request-id")
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
# The bytes of an answer that are kept to be recorded; its end has the usage.
_BYTES_KEPT = 256 * 1024
_BYTES_OF_A_TOKEN = 4


def _rule(text: str) -> tuple[Sequence[str], re.Pattern[str]]:
    """A rule such as `POST /v1/score`, `GET /v1/files/*`, or a path for every method: its methods,
    and the pattern of its paths."""
    method, _, path = text.rpartition(" ")
    pattern = re.escape(path).replace(r"/\*", "/.+")
    return (method.strip().upper(),) if method else METHODS, re.compile(pattern)


def plain_path(scope: asgi.Scope) -> str:
    """The path of a request as it was sent. Raises an `ApiError` for a path that a server behind
    may read as another one than is checked here."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.decode("latin-1").partition("?")[0]
    plain = unquote(path)
    if "//" in plain or "\\" in plain or {".", ".."} & set(plain.split("/")):
        raise ApiError(f"found the path {path}, expected one without empty parts, `.` or `..`")
    return path


class PassedRoute(ReportedRoute):
    """Every route that has no route of its own."""

    def __init__(self, server: GatewayState) -> None:
        super().__init__(server, PASSED)
        official = OFFICIAL_ROUTES if server.model.is_official else ()
        rules = (*USUAL_ROUTES, *official, *server.settings.passed_routes)
        self._rules = [_rule(text) for text in rules]

    def _error_body(self, scope: asgi.Scope, error: ApiError) -> tuple[int, JsonObject]:
        return protocol_of_client(asgi.headers_of(scope)).error(error)

    async def _answer(
        self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send, report: RequestReport
    ) -> int:
        server = self._server
        key = report.key = await server.access.authenticated(scope)
        path = self._checked_path(scope, key)
        form = self._form(scope, path)
        data = await asgi.read_body(scope, receive, server.settings)
        choices = 1
        if scope["method"] == "POST" and not form:
            body = json_body(data) if data else {}
            key.limits.check_model(body.get("model"))
            choices = choices_in(body, server.settings)
        run = PassedRun(send, data, report.id, is_form=bool(form))
        query = scope["query_string"].decode("latin-1")
        address = path + (f"?{query}" if query else "")
        with passing_on(form):
            return await pass_on(server, run, report, receive, scope["method"], address, choices)

    def _checked_path(self, scope: asgi.Scope, key: Key) -> str:
        """The path of a request that may be passed on."""
        method, path = scope["method"], plain_path(scope)
        plain = unquote(path)
        is_for_all = any(method in each and rule.fullmatch(plain) for each, rule in self._rules)
        is_admins = key.admin and self._server.access.keys.asks and method in METHODS
        if not (is_for_all or is_admins):
            raise ApiError(f"found {method} {path}, which is not served here", status=404)
        return path

    def _form(self, scope: asgi.Scope, path: str) -> Mapping[str, str]:
        """The header that tells a server how to read a form. Empty for a body of any other type: as
        everywhere here, it is read as JSON."""
        kind = asgi.headers_of(scope).get("content-type", "")
        if not kind.startswith("multipart/"):
            return {}
        if self._server.model.is_official and path in _UPLOADS:
            return {"content-type": kind}
        expected = "expected JSON: nothing else is passed on to the backend"
        raise ApiError(f"found a body of type {kind}, {expected}", status=415)


async def pass_on(
    server: GatewayState,
    run: PassedRun,
    report: RequestReport,
    receive: asgi.Receive,
    method: str,
    address: str,
    choices: int = 1,
) -> int:
    """Asks the server behind, copies its answer, and returns its status."""
    key, path = report.key, address.partition("?")[0]
    assert key is not None
    report.run = run
    try:
        async with server.access.meter.admitted(key.name, key.limits, choices):
            with server.gate.place(choices) as turn:
                backend = cast(PassingBackend, server.engines.able.backend)
                request = backend.passed(method, address, run.data)
                return await asgi.while_connected(run.copy(request, turn), receive)
    except asgi.ClientGone:
        if not run.has_said_all:
            raise
        return run.status
    except BackendError as error:
        if not run.has_begun:
            raise
        server.metrics.count_failure(error)
        report.fail(client_error(error))
        return run.status
    finally:
        if run.has_begun:
            server.metrics.count_usage(run.usage)
            if (recorder := server.recorder) is not None:
                recorder.write(run.exchange(path))


class PassedRun:
    """Passes an answer on as it comes. One that breaks off does not look complete: the connection
    is closed without its last part."""

    readers: Sequence[ChoiceReader] = ()
    engine: str | None = None

    def __init__(
        self,
        send: asgi.Send,
        data: bytes,
        id: str,
        headers: Mapping[str, str] = NO_HEADERS,
        *,
        is_form: bool = False,
    ) -> None:
        """`id` is the request's, where the server has no other for it; `headers` are the gateway's.
        With `is_form`, the data is not JSON."""
        self._headers = {"x-request-id": id, **headers}
        self._send = send
        self.data = data
        self._is_form = is_form
        self._tail = bytearray()
        self._size = 0
        self.status = 0

    @property
    def has_begun(self) -> bool:
        return bool(self.status)

    @property
    def has_said_all(self) -> bool:
        """Whether the client has the last event of a stream. Codex then closes its connection
        without waiting for the end of the body."""
        line = bytes(self._tail).rstrip().rpartition(b"\n")[2]
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return True
        try:
            event = json.loads(data)
        except ValueError:
            return False
        return isinstance(event, dict) and event.get("type") in _LAST_EVENTS

    async def copy(
        self, request: AbstractAsyncContextManager[PassedAnswer], turn: asyncio.Event
    ) -> int:
        """Waits for its turn, asks, copies the answer, and returns its status."""
        await turn.wait()
        async with request as answer:
            came = answer.headers
            headers = {"content-type": _JSON, **self._headers}
            headers |= {name: came[name] for name in _HEADERS_KEPT if name in came}
            self.status = answer.status
            await self._send(asgi.send_start(answer.status, headers))
            while piece := await answer.read():
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                self._keep(piece)
            await self._send({"type": "http.response.body", "body": b""})
            return answer.status

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        self._tail += piece
        if len(self._tail) > 2 * _BYTES_KEPT:
            del self._tail[:-_BYTES_KEPT]

    @property
    def usage(self) -> Usage:
        """The usage that the answer reports; otherwise an estimate from its length: nothing is free
        because a server does not count it."""
        if not self.has_begun or self.status >= 400:
            return Usage()
        usage = _last_usage(self._tail.decode("utf-8", "replace"))
        if usage is not None:
            return usage
        return Usage(len(self.data) // _BYTES_OF_A_TOKEN, None, self._size // _BYTES_OF_A_TOKEN)

    def exchange(self, path: str) -> Exchange:
        """The record of the exchange. It has no prompt: the server made its own."""
        request = json_body(self.data) if self.data and not self._is_form else {}
        text = self._tail.decode("utf-8", "replace")
        return Exchange(PASSED, request, "", path, text, str(self.status), {})


_JSON = "application/json"
# The last events of Messages and of Responses. Nothing follows them.
_LAST_EVENTS = (
    "message_stop",
    "response.completed",
    "response.incomplete",
    "response.failed",
)
_USAGE = re.compile(r'"usage"\s*:\s*(?=\{)')


def _last_usage(text: str) -> Usage | None:
    """The last usage in an answer, whole or a stream of events. Messages reports the tokens of a
    stream in two places."""
    counts: dict[str, int] = {}
    for match in _USAGE.finditer(text):
        try:
            usage, _ = json.JSONDecoder().raw_decode(text, match.end())
        except ValueError:
            continue
        counts |= {name: value for name, value in usage.items() if type(value) is int}
    prompt = counts.get("prompt_tokens", counts.get("input_tokens"))
    completion = counts.get("completion_tokens", counts.get("output_tokens", 0))
    if prompt is not None:
        return Usage(prompt, None, completion)
    total = counts.get("total_tokens")
    return None if total is None else Usage(total)

"""One request to a server over HTTP, and what came of it, whatever the server does.

Nothing that a server sends can keep the run from ending: answers have a size and a deadline,
redirects are not followed, compressed bodies are not unpacked, and a key is struck out wherever it
comes back.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from dsv4.errors import Error

MOST_BYTES = 8 * 1024 * 1024
MOST_EVENTS = 4_000
SECONDS_FOR_ONE = 60.0
SECONDS_TO_WAIT = 30.0
HEADERS = {
    "content-type": "application/json",
    "accept-encoding": "identity",
    "anthropic-version": "2023-06-01",
}
# Where a server says no to a request, and not to the caller. llama.cpp says it with 500.
REFUSALS = (400, 413, 415, 422, 500, 501)
_KEY_WORDS = ("key", "token", "secret", "password", "auth")


class ServerProblem(Error):
    """A server that cannot be measured, in a sentence."""


@dataclass(frozen=True)
class Reply:
    """What came back: a status and JSON, or the events of a stream; or a `problem` in words."""

    status: int = 0
    body: Any = None
    events: tuple[Any, ...] = ()
    problem: str = ""
    retry_after: float | None = None

    @property
    def refused(self) -> bool:
        """Whether the server said no to the request itself."""
        return self.status in REFUSALS


class ServerClient(Protocol):
    """What a run needs of a server: an address, and one request at a time."""

    url: str

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The reply to a `body` that is sent to a `path` below the address."""
        ...


def check_url(url: str, *, has_key: bool, insecure: bool = False) -> str:
    """The address without a slash at its end. Raises `ServerProblem` where a key might leak."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises where it is no number
    except ValueError as error:
        raise ServerProblem(f"the URL cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerProblem("expected a URL such as https://api.example.com/v1")
    if parts.username is not None or parts.password is not None:
        raise ServerProblem("found a password in the URL, expected the key with --key-file")
    named = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if any(word in name.lower() for name in named for word in _KEY_WORDS):
        raise ServerProblem("found a key in the URL, expected it with --key-file")
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if has_key and parts.scheme == "http" and not local and not insecure:
        problem = "the key would be sent unencrypted to another machine"
        raise ServerProblem(f"{problem}: use https, or allow it with --insecure-http")
    return url.split("?")[0].split("#")[0].rstrip("/")


@dataclass
class HttpServer:
    """A server at a `url`, such as `https://api.example.com/v1`.

    `key` goes with each request. `seconds` is how long one may take altogether.
    """

    url: str
    key: str = field(default="", repr=False)
    seconds: float = SECONDS_FOR_ONE
    waited: float = 0.0

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The reply to a `body` that is sent to a `path`. A server that asks to be left alone for a
        while is, as long as all waiting has not become too much."""
        reply = self._post(path, body)
        while reply.status in (429, 503) and reply.retry_after is not None:
            wait = max(reply.retry_after, 0.1)
            if self.waited + wait > SECONDS_TO_WAIT:
                problem = f"the server asks to wait {wait:,.0f} seconds (status {reply.status})"
                return Reply(reply.status, problem=problem)
            self.waited += wait
            time.sleep(wait)
            reply = self._post(path, body)
        return reply

    def _post(self, path: str, body: Mapping[str, Any]) -> Reply:
        parts = urlsplit(self.url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else (http.client.HTTPConnection)
        )
        connection = kind(parts.hostname or "", parts.port, timeout=self.seconds)
        closing = threading.Timer(self.seconds, _cut, [connection])
        closing.daemon = True
        closing.start()
        started = time.monotonic()
        try:
            headers = dict(HEADERS)
            if self.key:
                headers |= {"authorization": f"Bearer {self.key}", "x-api-key": self.key}
            data = json.dumps(body).encode()
            connection.request("POST", f"{parts.path}{path}", data, headers)
            return self._read(connection.getresponse())
        except ssl.SSLError as error:
            return Reply(problem=f"no secure connection: {error.reason or error}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() - started >= self.seconds - 0.1:
                return Reply(problem=f"no complete answer within {self.seconds:.0f} seconds")
            return Reply(problem=_connection_problem(error))
        finally:
            closing.cancel()
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> Reply:
        status, after = response.status, _seconds(response.getheader("retry-after"))
        if 300 <= status < 400:
            return Reply(status, problem=f"a redirect (status {status}), which is not followed")
        if response.getheader("content-encoding", "identity") != "identity":
            return Reply(status, problem="a compressed answer, which was not asked for")
        if "text/event-stream" in (response.getheader("content-type") or ""):
            return _read_events(response, status)
        data = response.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            return Reply(status, problem=f"an answer of more than {MOST_BYTES:,} bytes")
        try:
            return Reply(status, body=json.loads(data), retry_after=after)
        except (ValueError, RecursionError):
            what = "HTML" if data.lstrip()[:1] == b"<" else "something"
            problem = f"{what} in place of JSON (status {status})"
            return Reply(status, problem=problem, retry_after=after)


def _cut(connection: http.client.HTTPConnection) -> None:
    """Ends a connection whose time is up, whatever it is waiting for."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _read_events(response: http.client.HTTPResponse, status: int) -> Reply:
    events: list[Any] = []
    size = 0
    while len(events) < MOST_EVENTS and size < MOST_BYTES:
        line = response.readline(MOST_BYTES)
        size += len(line)
        if not line:
            break
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            break
        try:
            events.append(json.loads(data))
        except (ValueError, RecursionError):
            return Reply(status, events=tuple(events), problem="an event that is no JSON")
    else:
        return Reply(status, events=tuple(events), problem="a stream that does not end")
    return Reply(status, events=tuple(events))


def _seconds(header: str | None) -> float | None:
    try:
        return None if header is None else float(header)
    except ValueError:
        return SECONDS_TO_WAIT + 1  # a date: whoever writes one means longer


def _connection_problem(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "no server answers at this address"
    if isinstance(error, http.client.HTTPException):
        return f"what answers does not speak HTTP ({type(error).__name__})"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"the connection failed: {error}"

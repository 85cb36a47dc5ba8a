"""One request to a server over HTTP, and its result, whatever the server does.

Nothing that a server sends can keep the run from ending: answers have a maximum size and a
deadline, redirects are not followed, and compressed bodies are not unpacked. A key is struck out
wherever it comes back.
"""

from __future__ import annotations

import http.client
import json
import math
import posixpath
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from dsv4.errors import Error

MOST_BYTES = 8 * 1024 * 1024
MOST_EVENTS = 16_000
SECONDS_FOR_ONE = 60.0
SECONDS_TO_WAIT = 30.0
# The most times that a request is sent to a server that asks to wait.
MOST_ATTEMPTS = 4
HEADERS = {
    "content-type": "application/json",
    "accept-encoding": "identity",
    "anthropic-version": "2023-06-01",
}
# The statuses with which servers refuse a request, not the caller. llama.cpp uses 500.
REFUSALS = (400, 413, 415, 422, 500, 501)
MOST_HEADER = 1_000
_ID = re.compile(r"[a-z][a-z0-9-]*")
_KEY_WORDS = ("key", "token", "secret", "password", "auth")


class ServerProblem(Error):
    """Raised if a server cannot be measured; says why in a sentence."""


@dataclass(frozen=True)
class Reply:
    """A server's reply: a status and JSON, or the events of a stream; or a `problem` in words.

    `times` are the seconds from the request to each event. `adapted` are the ids of the adaptations
    that `dsv4 heal` says it made to the request.
    """

    status: int = 0
    body: Any = None
    events: tuple[Any, ...] = ()
    problem: str = ""
    retry_after: float | None = None
    times: tuple[float, ...] = ()
    adapted: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the server refused the request itself."""
        return self.status in REFUSALS


class ServerClient(Protocol):
    """The interface to a server that a run needs: an address, and single requests."""

    url: str

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The reply to a `body` that is sent to a `path` below the address."""
        ...


def check_url(url: str, *, has_key: bool, insecure: bool = False) -> str:
    """The address without a slash at its end. Raises `ServerProblem` where a key might leak."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises if it is not a number
    except ValueError as error:
        raise ServerProblem(f"the URL cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerProblem(
            "found no address of HTTP, expected a URL such as https://api.example.com/v1"
        )
    if parts.username is not None or parts.password is not None:
        raise ServerProblem("found a password in the URL, expected the key with --key-file")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise ServerProblem("found the chat route in the URL, expected only what is before it")
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

    `key` is sent with each request. `seconds` is how long one may take altogether. `requests`
    counts what was sent, at most `most`; `repeats` are those of them that were sent again because
    the server asked to wait.
    """

    url: str
    key: str = field(default="", repr=False)
    seconds: float = SECONDS_FOR_ONE
    waited: float = 0.0
    most: int | None = None
    requests: int = 0
    repeats: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def get(self, path: str) -> Reply:
        """The reply to a GET request for a `path`."""
        self._may_send()
        return self._send("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The reply to a `body` that is sent to a `path`. If the server asks to wait, the request
        is sent again later, as long as all waiting together has not become too long."""
        self._may_send()
        reply = self._send("POST", path, body)
        for attempt in range(MOST_ATTEMPTS - 1):
            if reply.status not in (429, 503):
                break
            after = 2.0**attempt if reply.retry_after is None else reply.retry_after
            wait = max(after, 0.1)
            if self.waited + wait > SECONDS_TO_WAIT:
                problem = f"the server asks to wait {wait:,.0f} seconds (status {reply.status})"
                return Reply(reply.status, problem=problem)
            if not self._may_send(again=True):
                break
            self.waited += wait
            time.sleep(wait)
            reply = self._send("POST", path, body)
        return reply

    def _may_send(self, *, again: bool = False) -> bool:
        """Counts a request. False if it is a repeat that is no longer within the plan."""
        with self._lock:
            if again and self.most is not None and self.requests >= self.most:
                return False
            self.requests += 1
            self.repeats += again
            return True

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> Reply:
        parts = urlsplit(self.url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else (http.client.HTTPConnection)
        )
        connection = kind(parts.hostname or "", parts.port, timeout=self.seconds)
        deadline = _Deadline(connection, self.seconds)
        too_late = Reply(problem=f"no complete answer within {self.seconds:g} seconds")
        try:
            headers = dict(HEADERS)
            if self.key:
                headers |= {"authorization": f"Bearer {self.key}", "x-api-key": self.key}
            data = None if body is None else json.dumps(body).encode()
            deadline.connect()
            # Some routes are beside the API: `/v1/../tokenize`.
            route = posixpath.normpath(f"/{parts.path}{path}".replace("//", "/"))
            started = time.monotonic()
            connection.request(method, route, data, headers)
            response = connection.getresponse()
            adapted = _names(response.getheader("x-dsv4-adapted"))
            reply = replace(self._read(response, started), adapted=adapted)
        except ssl.SSLError as error:
            reply = Reply(problem=f"no secure connection: {error.reason or error}")
        except TimeoutError:  # the socket's own limit, which is as long as the deadline
            reply = too_late
        except (OSError, http.client.HTTPException, ValueError) as error:
            reply = Reply(problem=_connection_problem(error))
        finally:
            deadline.cancel()
            connection.close()
        return too_late if deadline.passed else reply

    def _read(self, response: http.client.HTTPResponse, started: float) -> Reply:
        status, after = response.status, _seconds(response.getheader("retry-after"))
        if 300 <= status < 400:
            return Reply(status, problem=f"a redirect (status {status}), which is not followed")
        if response.getheader("content-encoding", "identity") != "identity":
            return Reply(status, problem="a compressed answer, which was not asked for")
        if "text/event-stream" in (response.getheader("content-type") or ""):
            return _read_events(response, status, started)
        data = response.read(MOST_BYTES + 1)
        if len(data) <= MOST_BYTES and response.length:
            return Reply(problem=f"an answer that breaks off after {len(data):,} bytes")
        if len(data) > MOST_BYTES:
            return Reply(status, problem=f"an answer of more than {MOST_BYTES:,} bytes")
        try:
            return Reply(status, body=json.loads(data), retry_after=after)
        except (ValueError, RecursionError):
            what = "HTML" if data.lstrip()[:1] == b"<" else "something"
            problem = f"{what} in place of JSON (status {status})"
            return Reply(status, problem=problem, retry_after=after)


class _Deadline:
    """Ends a connection whose time is up, whatever it is waiting for."""

    def __init__(self, connection: http.client.HTTPConnection, seconds: float) -> None:
        self._connection = connection
        self._connected: socket.socket | None = None
        self.passed = False
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True
        self._timer.start()

    def connect(self) -> None:
        """Connects, and keeps the socket: a connection that will be closed after the answer
        forgets it."""
        self._connection.connect()
        self._connected = self._connection.sock

    def cancel(self) -> None:
        self._timer.cancel()

    def _pass(self) -> None:
        self.passed = True
        connected = self._connected or self._connection.sock
        if connected is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)


def _read_events(response: http.client.HTTPResponse, status: int, started: float) -> Reply:
    events: list[Any] = []
    times: list[float] = []
    size = 0
    problem = ""
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
            problem = "an event that is no JSON"
            break
        times.append(time.monotonic() - started)
    else:
        problem = "a stream that does not end"
    return Reply(status, events=tuple(events), problem=problem, times=tuple(times))


def _names(header: str | None) -> tuple[str, ...]:
    """The ids in a header; empty if it holds anything else."""
    names = header.split(",") if header and len(header) < MOST_HEADER else []
    return tuple(names) if all(_ID.fullmatch(name) for name in names) else ()


def _seconds(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = math.nan  # a date, which is used for longer waits
    return seconds if math.isfinite(seconds) else SECONDS_TO_WAIT + 1


def _connection_problem(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "no server answers at this address"
    if isinstance(error, (http.client.IncompleteRead, ConnectionResetError)):
        return "the server ends the connection before its answer is complete"
    if isinstance(error, http.client.HTTPException):
        return f"what answers does not speak HTTP ({type(error).__name__})"
    return f"the connection failed: {error}"

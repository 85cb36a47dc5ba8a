"""The log: one line for each request and each event of the server, as text or JSON; the report of a
request while it is answered, and of the repairs in an answer.

No line contains a text of a request or a key.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from dsv4._completion.events import UNREPAIRED_KINDS, Diagnostic, Event
from dsv4._completion.random_ids import new_id
from dsv4.api import ApiError, Usage
from dsv4.serve.access.api_keys import Key
from dsv4.serve.asgi import AsgiApp, Receive, Scope, Send, headers_of
from dsv4.serve.backend import BackendError
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.prepared_request import NO_IMAGES, PreparedRequest
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.passed_headers import client_headers

logger = logging.getLogger("dsv4.serve")


@contextmanager
def by_itself(what: str) -> Iterator[None]:
    """Confines the failure of a step after the last byte of an answer: the answer keeps its
    promises, and the other steps still run."""
    try:
        yield
    except Exception:
        logger.exception("%s failed behind the end of an answer", what)


# The attribute of a record with the fields of its line besides the message.
_FIELDS = "dsv4_fields"
# uvicorn's message for a stream without an end. By design a stream has none where a backend breaks
# off, and the line of the request gives the reason.
_BROKEN_OFF = "ASGI callable returned without completing response"


class TextFormatter(logging.Formatter):
    """Lines for people: `2026-01-31 12:00:00 INFO request status=200 seconds=1.2`."""

    default_msec_format = None

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
        return " ".join([super().formatMessage(record), *(_pair(*item) for item in fields.items())])


def _pair(name: str, value: object) -> str:
    text = str(value)
    is_plain = text and all(c.isprintable() and c not in ' ="' for c in text)
    return f"{name}={text if is_plain else json.dumps(text, ensure_ascii=False)}"


class JsonFormatter(logging.Formatter):
    """Lines for programs: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_fields(level: int, message: str, fields: Mapping[str, Any]) -> None:
    """Logs a message with fields, without those that are None."""
    values = {name: value for name, value in fields.items() if value is not None}
    logger.log(level, message, extra={_FIELDS: values})


def configure_logs(settings: Settings) -> None:
    """Sends the lines of this process to its standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    level = settings.log_level.upper()
    of_uvicorn = logging.getLogger("uvicorn")
    # The gateway logs uvicorn's messages of "info" itself, in its own form.
    of_uvicorn.setLevel("WARNING" if level == "INFO" else level)
    logging.getLogger("uvicorn.error").addFilter(_is_worth_a_line)
    logger.setLevel(level)
    for each in (logger, of_uvicorn):
        each.handlers = [handler]
        each.propagate = False


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return _BROKEN_OFF not in record.getMessage()


# The report of one request while it is answered, and the line that is logged at its end.


class ReportedRun(Protocol):
    """The run that answers a request."""

    @property
    def usage(self) -> Usage: ...

    @property
    def engine(self) -> str | None: ...

    @property
    def readers(self) -> Sequence[ChoiceReader]: ...


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """The client's id of its request. None if it gives none, or one that cannot be passed on."""
    return client_headers(headers).get("x-request-id")


# The header of an answer with the id of its request.
_ID_HEADER = b"x-request-id"
# The most characters that are logged of a path without a route.
_LONGEST_PATH = 200
_NOT_ALLOWED = 405
# The tokens of a request that are logged.
_COUNTED = ("prompt", "cached", "completion")
# The client disconnected before its answer. This is not an official HTTP status: nginx introduced
# it.
CLIENT_GONE = 499


class RequestReport:
    """A request: its id, its owner, its result.

    `id` is the id that the client gets in the header `x-request-id`: its own, if it gave one.
    `ignored` are fields of its body that were not read.
    """

    def __init__(self, protocol: str, path: str, given_id: str | None = None) -> None:
        self.protocol = protocol
        self.path = path
        self.given_id = given_id
        self.id = given_id or new_id("turn_")
        self.began: float = time.monotonic()
        self.key: Key | None = None
        self.status = 500
        self.failure: str | None = None
        self.prepared: PreparedRequest | None = None
        self.ignored = ""
        self.passed_to: str | None = None
        self.run: ReportedRun | None = None

    def name(self, id: str) -> None:
        """Sets another id, unless the client has given one."""
        self.id = self.given_id or id

    def fail(self, error: Exception) -> None:
        """Notes the reason of a failure; only the first reason is kept."""
        self.failure = self.failure or _reason(error)

    @property
    def usage(self) -> Usage | None:
        return None if self.run is None else self.run.usage

    @property
    def repairs(self) -> int | None:
        """The number of deviations from the grammar that were repaired in the output."""
        if self.run is None:
            return None
        events = (event for reader in self.run.readers for event in reader.events)
        diagnostics = (event for event in events if isinstance(event, Diagnostic))
        return sum(each.kind not in UNREPAIRED_KINDS for each in diagnostics)

    def fields(self) -> dict[str, Any]:
        """The fields for the log. None stands for unknown."""
        usage, prepared = self.usage, self.prepared
        return {
            "id": self.id,
            "key": None if self.key is None else self.key.name,
            "protocol": self.protocol,
            "path": self.path,
            "model": None if prepared is None else prepared.call.model,
            "status": self.status,
            "seconds": round(time.monotonic() - self.began, 3),
            **{f"{kind}_tokens": getattr(usage, kind, None) for kind in _COUNTED},
            "shared_tokens": None if prepared is None else prepared.shared,
            **(NO_IMAGES if prepared is None else prepared.images).fields(usage),
            "repairs": self.repairs,
            "adaptations": ",".join(self.adaptations) if self.adaptations else None,
            "ignored": self.ignored or None,
            "passed_to": self.passed_to,
            "engine": None if self.run is None else self.run.engine,
            "error": self.failure,
        }

    @property
    def adaptations(self) -> tuple[str, ...] | None:
        """The adaptations for a chat server; None if there were none."""
        return (self.prepared.adapted or None) if self.prepared is not None else None

    @property
    def is_fault(self) -> bool:
        """Whether it failed because of the server or its backend."""
        return self.status >= 500 or (self.status == 200 and self.failure is not None)

    def log(self) -> None:
        """Logs it, as a warning where it is a fault."""
        log_fields(logging.WARNING if self.is_fault else logging.INFO, "request", self.fields())


class RefusalLog:
    """An app that logs requests that no route has answered, and so no route has logged: those while
    the server drains, of other sites' pages, for unknown paths and methods.

    Every answer gets the id of its request, if its route has not added it.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given_id = request_id_of(headers_of(scope))
        report = RequestReport("-", scope["path"][:_LONGEST_PATH], given_id)

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                report.status = message["status"]
                head = list(message.get("headers", ()))
                if not any(name == _ID_HEADER for name, _ in head):
                    head.append((_ID_HEADER, report.id.encode()))
                await send({**message, "headers": head})
            else:
                await send(message)

        await self._app(scope, receive, noted)
        is_unknown = "endpoint" not in scope and report.status >= 400
        if is_unknown or report.status == _NOT_ALLOWED:
            report.log()


def _reason(error: Exception) -> str:
    """The reason why a request failed. The wrong value may be a text of the request, so only its
    place is logged, and nothing of a backend's message about it."""
    if isinstance(error.__cause__, BackendError):
        return error.__cause__.summary
    if isinstance(error, ApiError) and error.path is not None:
        return f"{error.code or error.type} at {error.path}"
    return str(error) or type(error).__name__


# The repairs in the answers of a chat server.


# The words of a summary for each kind of repair.
HEALED_KINDS = {
    "leaked_call": "leaked calls",
    "leaked_reasoning": "leaked reasoning",
    "broken_call": "had broken calls",
    "fitted_arguments": "had arguments that were made to fit",
    "forbidden_call": "had calls that were removed",
}


def healed_kinds(events: Iterable[Event]) -> Counter[str]:
    """The number of times that each kind of repair was made in an answer."""
    return Counter(
        event.kind
        for event in events
        if isinstance(event, Diagnostic) and event.kind in HEALED_KINDS
    )


def log_healed(id: str, events: Iterable[Event]) -> None:
    """Logs a line for an answer in which an error of the server was repaired."""
    kinds = healed_kinds(events)
    if kinds:
        log_fields(logging.INFO, "healed", {"id": id, **kinds})


def healing_summary(answers: float, healed: Mapping[str, float]) -> str:
    """The repairs since the start, in a sentence: of so many answers, those with each kind."""
    counts = [f"{healed[kind]:g} {words}" for kind, words in HEALED_KINDS.items() if healed[kind]]
    if not counts:
        return f"{_answers(answers)}, none in need of healing" if answers else "no answers"
    first, _, rest = counts[0].partition(" ")
    return ", ".join([f"{first} of {_answers(answers)} {rest}", *counts[1:]])


def _answers(count: float) -> str:
    return "1 answer" if count == 1 else f"{count:g} answers"

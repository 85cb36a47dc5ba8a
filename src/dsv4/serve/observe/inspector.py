"""The most recent requests of clients, as they happen: for the playground's inspector.

It is off by default, and then costs one comparison per request. The requests that it keeps are
bounded in number and in bytes, and stay in memory. Of their headers only the user agent is kept, so
there is never a key. The completion route reports when a request arrives, begins and ends;
everything else is looked up when the inspector is used.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, Protocol, TypeAlias

from dsv4._completion.events import Diagnostic, End
from dsv4._playground.provenance import Utf16Offsets
from dsv4.serve.asgi import ClientGone, StreamTimer
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.heal.adapted_messages import text_of
from dsv4.serve.observe.logs import ReportedRun
from dsv4.serve.prepared_request import PreparedRequest
from dsv4.serve.settings import MIB, SettingError, Settings

# The most requests that are kept, the most bytes of all of them, and of each.
MAX_REQUESTS = 200
MAX_BYTES = 64 * MIB
MAX_REQUEST_BYTES = 8 * MIB
# The longest wait for a change, and the interval at which changes are looked for, in seconds.
PATIENCE_SECONDS = 4.0
LOOK_SECONDS = 0.1
# The approximate size in bytes of a repair, or of an empty request.
_REPAIR_BYTES = 500
# The most characters that are kept of a request's labels in the list.
_LABEL_LENGTH = 200
_COUNTS = ("prompt", "cached", "completion", "reasoning")
# Fields of a request that the list shows under their own names.
_SHOWN = (
    *("number", "owner", "session", "client", "said", "protocol", "model", "size", "problem"),
    *("time", "prompt_tokens", "shared_tokens", "usage"),
)


class RunView(ReportedRun, Protocol):
    """The inspector's view of a request that is being answered."""

    @property
    def timer(self) -> StreamTimer: ...

    @property
    def tail(self) -> str: ...


# Called when a request has its prompt, with the request and its run.
OnBegin: TypeAlias = Callable[[PreparedRequest, RunView], None]


@dataclass(slots=True, eq=False)
class InspectedRequest:
    """A client's request. While it runs, its output is read from its run."""

    number: int
    owner: str  # the name of the key, never the key
    protocol: str
    body: bytes | None  # None: too large to be kept
    size: int
    clock: float  # arrival, by the event loop's clock
    time: float  # arrival, by the calendar
    session: str | None = None
    client: str = ""  # its user agent
    status: str = "queued"
    problem: str = ""
    begin_clock: float | None = None
    end_clock: float | None = None
    prompt: str | None = None
    model: str = ""
    said: str = ""  # the user's last text
    options: dict[str, Any] = field(default_factory=dict)
    prompt_tokens: int | None = None
    shared_tokens: int | None = None
    run: RunView | None = None
    choices: list[dict[str, Any]] = field(default_factory=list)
    first: float | None = None
    tail: str = ""
    usage: dict[str, int] = field(default_factory=dict)

    def begin(self, prepared: PreparedRequest, run: RunView) -> None:
        """Notes the prompt. Generation begins as soon as a stream is free."""
        self.status = "running"
        self.run = run
        prompt = prepared.encoded.prompt
        self.prompt = prompt.text if len(prompt.text) <= MAX_REQUEST_BYTES else None
        self.model = prepared.call.model
        self.prompt_tokens = prepared.encoded.tokens
        self.shared_tokens = prepared.shared
        request, ending = prepared.call.request, prompt.ending
        self.said = _last_user_text(request.messages)
        self.options = {
            "dialect": str(request.dialect),
            "thinking": ending.thinking,
            "tools": json.dumps(list(request.tools or ()), default=str),
        }

    def end(self, status: str, problem: str = "") -> None:
        """Keeps the results and releases the run, because nothing more comes."""
        self.end_clock = _now()
        self.status, self.problem = status, problem
        if self.run is not None:
            self.choices = self.completions()
            self.usage = {name: getattr(self.run.usage, name) for name in _COUNTS}
            self.begin_clock, self.first = self.run.timer.began, self.run.timer.first_heard
            self.tail = self.run.tail
            self.run = None
            if status == "done" and any(choice["finish"] is None for choice in self.choices):
                self.status = "failed"  # the client got this error within the stream

    @property
    def stage(self) -> str:
        """The state: "queued", "running", or the way in which the request ended."""
        return "queued" if self.run is not None and self.run.timer.began is None else self.status

    @property
    def weight(self) -> int:
        """The approximate number of bytes that are kept."""
        texts = (self.body, self.prompt, *self.options.values(), *(k["text"] for k in self.choices))
        repairs = sum(len(choice["repairs"]) for choice in self.choices)
        return sum(map(getsizeof, texts)) + _REPAIR_BYTES * repairs + _REPAIR_BYTES

    @property
    def event_count(self) -> int:
        """A number that grows with everything that the backend sends."""
        return 0 if self.run is None else sum(len(reader.events) for reader in self.run.readers)

    def completions(self) -> list[dict[str, Any]]:
        """The raw text of each choice, with the repairs that were made in it."""
        if self.run is None:
            return self.choices
        return [_completion_details(reader) for reader in self.run.readers]

    def summary(self) -> dict[str, Any]:
        """The fields for the list. While the request runs, nothing is computed that takes long."""
        run = self.run
        return {
            **{name: getattr(self, name) for name in _SHOWN},
            "status": self.stage,
            "queued": _seconds(self.clock, run.timer.began if run else self.begin_clock),
            "first": _seconds(self.clock, run.timer.first_heard if run else self.first),
            "total": _seconds(self.clock, self.end_clock),
            "repairs": sum(len(choice["repairs"]) for choice in self.choices),
            "finish": self.choices[0]["finish"] if self.choices else None,
            "tail": run.tail if run else self.tail,
        }

    def details(self) -> dict[str, Any]:
        """All known details."""
        return {
            **self.summary(),
            "request": None if self.body is None else self.body.decode("utf-8", "replace"),
            "prompt": self.prompt,
            "options": self.options,
            "completions": self.completions(),
        }


def _last_user_text(messages: Iterable[Any]) -> str:
    """The beginning of the user's last text. Turns that stand as they were sampled are not
    mappings."""
    fields = (message for message in reversed(list(messages)) if isinstance(message, Mapping))
    texts = (text_of(turn.get("content")) for turn in fields if turn.get("role") == "user")
    return next((text.strip()[:_LABEL_LENGTH] for text in texts if text and text.strip()), "")


def _completion_details(reader: ChoiceReader) -> dict[str, Any]:
    """A completion: its raw text, the repairs in it, and why it ended, if it has."""
    text = reader.sampled
    places = Utf16Offsets(text)
    return {
        "text": text[:MAX_REQUEST_BYTES],
        "finish": next((e.finish for e in reversed(reader.events) if isinstance(e, End)), None),
        "repairs": [
            {
                "kind": event.kind,
                "start": places(event.start),
                "end": places(event.end),
                "sentence": event.sentence,
            }
            for event in reader.events
            if isinstance(event, Diagnostic)
        ],
    }


def _now() -> float:
    return asyncio.get_running_loop().time()


def _seconds(start: float, end: float | None) -> float | None:
    return None if end is None else round(max(end - start, 0.0), 4)


def inspector_for(settings: Settings) -> Inspector | None:
    """The inspector, if it is enabled. Raises a `SettingError` where it cannot work."""
    if not settings.inspect:
        return None
    if settings.workers > 1:
        problem = f"found it with {settings.workers} workers, expected 1: they share no memory"
        raise SettingError("inspect", problem)
    return Inspector()


class Inspector:
    """The last requests, the newest of them last."""

    def __init__(self, most: int = MAX_REQUESTS, most_bytes: int = MAX_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._requests: OrderedDict[int, InspectedRequest] = OrderedDict()
        self._count = 0
        self._versions: dict[int, tuple[int, tuple[str, int]]] = {}
        self._version = 0
        # Numbers begin anew with each server: a page that has watched another server asks for all
        # again.
        self.name: str = f"{time.time():.6f}"

    def __len__(self) -> int:
        return len(self._requests)

    def get(self, number: int) -> InspectedRequest | None:
        return self._requests.get(number)

    def clear(self) -> None:
        """Drops all requests that are not running."""
        for number in [n for n, request in self._requests.items() if request.run is None]:
            del self._requests[number]

    @contextmanager
    def watched(
        self, owner: str, protocol: str, data: bytes, session: str | None = None, client: str = ""
    ) -> Iterator[OnBegin]:
        """Keeps a request from its arrival to its end. Yields the function to call when it
        begins."""
        self._count += 1
        body = data if len(data) <= MAX_REQUEST_BYTES else None
        times = (_now(), time.time())
        names = (session, client[:_LABEL_LENGTH])
        request = InspectedRequest(self._count, owner, protocol, body, len(data), *times, *names)
        self._requests[request.number] = request
        self._trim()
        try:
            yield request.begin
        except BaseException as error:
            is_gone = isinstance(error, (ClientGone, asyncio.CancelledError))
            request.end("gone" if is_gone else "failed", "" if is_gone else str(error)[:2_000])
            raise
        else:
            request.end("done")
        finally:
            self._trim()

    def _trim(self) -> None:
        weight = sum(request.weight for request in self._requests.values())
        while len(self._requests) > self._most or (
            weight > self._most_bytes and len(self._requests) > 1
        ):
            _, oldest = self._requests.popitem(last=False)
            weight -= oldest.weight

    # For watchers.

    def changes(self, since: int) -> dict[str, Any]:
        """The changes since a version: summaries of changed requests, and the numbers of all."""
        self._look()
        summaries = [
            request.summary()
            for number, request in self._requests.items()
            if self._versions[number][0] > since
        ]
        return {
            "name": self.name,
            "version": self._version,
            "changed": summaries,
            "numbers": list(self._requests),
        }

    def _look(self) -> None:
        """Gives a new version to requests that have changed since the last look."""
        for number, request in self._requests.items():
            look = (request.stage, request.event_count)
            version = self._versions.get(number)
            if version is None or version[1] != look:
                self._version += 1
                self._versions[number] = self._version, look
        absent = [number for number in self._versions if number not in self._requests]
        for number in absent:
            del self._versions[number]
            self._version += 1

    async def next_changes(self, name: str, since: int, patience: float) -> dict[str, Any]:
        """The changes since a version. Waits for a change, up to `patience` seconds."""
        since = since if name == self.name else 0
        until = _now() + min(patience, PATIENCE_SECONDS)
        while True:
            changes = self.changes(since)
            if changes["version"] != since or name != self.name or _now() >= until:
                return changes
            await asyncio.sleep(LOOK_SECONDS)

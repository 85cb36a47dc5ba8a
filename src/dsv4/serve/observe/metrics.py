"""What the gateway counts, for Prometheus.

Workers count together: each in files of its own, in a folder that the environment names.
Whichever worker is asked adds them up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from dsv4._parse.events import (
    Diagnostic,
    DiagnosticKind,
    Event,
    ToolCallAborted,
    ToolCallEnd,
)
from dsv4.api import Usage
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import HARMLESS_FIELDS
from dsv4.serve.backend import BackendError
from dsv4.serve.observe.logs import (
    HEALED_KINDS,
    ImageFacts,
    healed_kinds,
    healing_summary,
    log_fields,
)
from dsv4.serve.settings import SettingError
from dsv4.serve.upstreams.engine_pool import Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The library reads it when it is first imported, so it is there for processes yet to start.
_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# Where Linux says how much memory a process uses, in pages, and how often it is asked.
_STATM, _MEMORY_SECONDS = Path("/proc/self/statm"), 5.0
_SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


# What a summary tells, by the samples that it adds up.
_SUMMARY = {
    "dsv4_streams_running": "running",
    "dsv4_streams_waiting": "waiting",
    "dsv4_requests_total": "requests",
    "dsv4_tokens_total": "tokens",
    "dsv4_repairs_total": "repairs",
    "dsv4_backend_errors_total": "backend_errors",
    "dsv4_clients_gone_total": "clients_gone",
}


# What is counted: what it is, and what it is counted by.
_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "requests": ("Requests, by protocol and status", "protocol", "status"),
    "tokens": ("Tokens, by kind: prompt, cached, completion, reasoning", "kind"),
    "repairs": ("Deviations from the grammar that were repaired, by kind", "kind"),
    "answers": ("Answers of the backend that were read to their end",),
    "healed_answers": ("Answers of a chat server that were repaired, by kind", "kind"),
    "tool_calls": ("Tool calls, by how they ended: complete, cut, unreadable", "end"),
    "replayed_turns": ("Turns of the model that came back, by outcome", "outcome"),
    "ignored_fields": (
        "Fields of requests that were not read, by protocol and name (`other` where made up)",
        *("protocol", "field"),
    ),
    "images": (
        "Images of requests, by what became of them: sent, or replaced by a text",
        "outcome",
    ),
    "adaptations": ("Changes of requests for a chat server, by the adaptation's id", "id"),
    "clients_gone": ("Clients that went away before the end",),
    "backend_errors": ("Failures of the backend, by status", "status"),
    "session_calls": (
        "Completions of sessions, by how they ended: finished, cut, left, failed",
        "state",
    ),
    "session_records_lost": ("Calls of sessions that could not be recorded",),
    "store_failures": ("Times that the store of turns did not answer",),
    "key_requests": ("Requests, by the name of their key and status", "key", "status"),
    "key_tokens": ("Tokens, by the name of their key and kind: prompt, completion", "key", "kind"),
}
# What rises and falls: what it is, what several workers make of theirs, and what it is told by.
_GAUGES: Mapping[str, tuple[Any, ...]] = {
    "streams_running": ("Generations running now", "livesum"),
    "streams_waiting": ("Requests waiting for a stream", "livesum"),
    "memory_bytes": ("Memory that the gateway uses, all workers together", "livesum"),
    "store_up": ("Whether the store of turns answers", "livemin"),
    "store_bytes": (
        "What the store of turns holds, in bytes; the largest, where each worker has its own",
        "livemax",
    ),
    "limits_shared": (
        "Whether the Redis answers that counts what keys use, for all machines",
        "livemin",
    ),
    "engine_up": ("Whether an engine answers", "livemin", "engine"),
    "engine_draining": ("Whether an engine takes no more requests", "livemax", "engine"),
    "engine_streams": ("Generations that an engine runs now", "livesum", "engine"),
}
_SECONDS = {
    "first_token_seconds": "Time to the first token",
    "request_seconds": "Time of a whole generation",
}


class Metrics:
    """Counters of one app. Each app has a registry of its own, so two can stand in one process."""

    def __init__(self, *, heals: bool = False) -> None:
        """`heals` says that answers of a chat server are repaired."""
        self.heals = heals
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "dsv4", "registry": self.registry}
        self._counters = {
            name: Counter(name, about, labels, **own)
            for name, (about, *labels) in _COUNTERS.items()
        }
        self._gauges = {
            name: Gauge(name, about, labels, multiprocess_mode=together, **own)
            for name, (about, together, *labels) in _GAUGES.items()
        }
        self._seconds = {
            name: Histogram(name, about, buckets=_SECOND_BUCKETS, **own)
            for name, about in _SECONDS.items()
        }
        self.set("store_up", 1)
        for kind in get_args(DiagnosticKind):  # so that a rate is known from the first on
            self.count("repairs", kind, by=0)
        for kind in HEALED_KINDS:
            self.count("healed_answers", kind, by=0)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Counts what `_COUNTERS` has."""
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Notes what `_GAUGES` has."""
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def observe(self, name: str, seconds: float) -> None:
        """Notes how long something took."""
        self._seconds[name].observe(seconds)

    def note_engine(self, engine: Engine) -> None:
        """Notes how an engine is doing."""
        self.set("engine_up", engine.is_up, engine.url)
        self.set("engine_draining", engine.is_draining, engine.url)
        self.set("engine_streams", engine.running, engine.url)

    def count_key(self, name: str, status: int, usage: Usage | None) -> None:
        """Counts what was done with a key, by the name of its owner."""
        self.count("key_requests", name, str(status))
        if usage is not None:
            self.count("key_tokens", name, "prompt", by=usage.prompt)
            self.count("key_tokens", name, "completion", by=usage.completion)

    def note_store(self, is_up: bool) -> None:
        """Notes whether the store of turns has answered."""
        self.set("store_up", is_up)
        if not is_up:
            self.count("store_failures")

    def count_usage(self, usage: Usage) -> None:
        """Counts the tokens of a request."""
        for kind in ("prompt", "cached", "completion", "reasoning"):
            self.count("tokens", kind, by=getattr(usage, kind) or 0)

    async def watch_memory(self) -> None:
        """Notes again and again how much memory this process uses, where the system tells."""
        while _STATM.exists():
            pages = int(_STATM.read_text(encoding="ascii").split()[1])
            self.set("memory_bytes", pages * os.sysconf("SC_PAGE_SIZE"))
            await asyncio.sleep(_MEMORY_SECONDS)

    @property
    def shared_folder(self) -> Path | None:
        """The folder that workers share, where there are several."""
        folder = os.environ.get(_FOLDER_VARIABLE)
        return None if folder is None else Path(folder)

    def count_places(self, running: int, waiting: int) -> None:
        """Notes how many generations run now, and how many requests wait for one to end."""
        self.set("streams_running", running)
        self.set("streams_waiting", waiting)

    def count_ignored(self, protocol: ProtocolName, fields: Iterable[str]) -> None:
        """Counts fields that were not read. Clients make up names, and a label must not grow."""
        for field in fields:
            label = field if field in HARMLESS_FIELDS[protocol] else "other"
            self.count("ignored_fields", protocol, label)

    def count_adaptations(self, ids: Iterable[str]) -> None:
        """Counts what was changed in a request."""
        for id in ids:
            self.count("adaptations", id)

    def count_images(self, images: ImageFacts) -> None:
        """Counts what became of a request's images."""
        self.count("images", "sent", by=images.sent)
        self.count("images", "replaced", by=images.replaced)

    def count_failure(self, error: Exception) -> None:
        """Counts an error that is the backend's."""
        if isinstance(error, BackendError):
            self.count("backend_errors", str(error.status))

    def count_events(self, events: list[Event], *, is_whole: bool) -> None:
        """Counts the repairs of a completion, and how its calls ended. One that failed or was left
        is not `is_whole`."""
        if is_whole:
            self.count("answers")
        for kind in healed_kinds(events):
            self.count("healed_answers", kind)
        for event in events:
            if isinstance(event, Diagnostic):
                self.count("repairs", event.kind)
            elif isinstance(event, ToolCallEnd):
                self.count("tool_calls", "complete")
            elif isinstance(event, ToolCallAborted):
                how = "cut" if event.reason == "cut_short" else "unreadable"
                self.count("tool_calls", how)

    def healing(self) -> str:
        """What was healed since the start, by all workers, in a sentence."""
        counted = {
            (sample.name, sample.labels.get("kind")): sample.value
            for found in self.all().collect()
            for sample in found.samples
        }
        healed = {
            kind: counted.get(("dsv4_healed_answers_total", kind), 0) for kind in HEALED_KINDS
        }
        return healing_summary(counted.get(("dsv4_answers_total", None), 0), healed)

    def all(self) -> CollectorRegistry:
        """What is to be shown: the counts of this process, or of all workers."""
        folder = os.environ.get(_FOLDER_VARIABLE)
        if folder is None:
            return self.registry
        together = CollectorRegistry()
        MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]
        return together

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.all())

    def log_summary(self) -> None:
        """Logs what has been counted: by all workers, where there are several."""
        totals: dict[str, object] = {
            name: int(sum(sample.value for sample in found.samples if sample.name in _SUMMARY))
            for found in self.all().collect()
            for name in (_SUMMARY.get(f"{found.name}_total") or _SUMMARY.get(found.name),)
            if name is not None
        }
        if self.heals:
            totals["healing"] = self.healing()
        log_fields(logging.INFO, "summary", totals)

    @property
    def counts_for_all(self) -> bool:
        """Whether this process sees what other workers count as well."""
        return _FOLDER_VARIABLE in os.environ

    def listen(self, host: str, port: int) -> None:
        """Shows them on a port of their own. Raises a `SettingError` if it is taken."""
        try:
            start_http_server(port, addr=host, registry=self.all())
        except OSError as error:
            problem = f"cannot listen on {host}:{port}: {error.strerror or error}"
            raise SettingError("metrics_port", problem) from None


def count_together() -> tempfile.TemporaryDirectory[str]:
    """Lets the workers that are started from now on count together, in the folder returned."""
    folder = tempfile.TemporaryDirectory(prefix="dsv4-metrics-")
    os.environ[_FOLDER_VARIABLE] = folder.name
    return folder


def forget_dead_workers() -> None:
    """What a worker that died was doing is done no more."""
    for file in Path(os.environ.get(_FOLDER_VARIABLE, "/nonexistent")).glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]

"""The gateway's metrics, for Prometheus.

Workers count together: each in files of its own, in a folder that the environment names. The worker
that is asked adds them up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterable
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
from prometheus_client.samples import Sample

from dsv4._completion.events import (
    UNREPAIRED_KINDS,
    Diagnostic,
    DiagnosticKind,
    Event,
    ToolCallAborted,
    ToolCallEnd,
)
from dsv4.api import Usage
from dsv4.api.api_request import ProtocolName
from dsv4.api.ignored_fields import HARMLESS_FIELDS
from dsv4.serve.access.key_usage import is_alive
from dsv4.serve.backend import BackendError
from dsv4.serve.observe.logs import HEALED_KINDS, healed_kinds, healing_summary, log_fields
from dsv4.serve.prepared_request import ImageFacts
from dsv4.serve.settings import SettingError
from dsv4.serve.upstreams.engine_pool import Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The lines with the usage of single keys.
_OF_KEYS = re.compile(rb"^(?:# \w+ )?dsv4_key_.*\n", re.MULTILINE)
# The library reads it when it is first imported, so it is set for processes that are yet to start.
_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# The file in which Linux reports the memory of a process, in pages, and the interval at which it is
# read.
_STATM, _MEMORY_SECONDS = Path("/proc/self/statm"), 5.0
_SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


# Every metric: its description, its labels, and the way to combine those of several workers; and
# the parts of a summary, by the samples that each adds up.
_TABLES = json.loads(Path(__file__).with_name("metrics.json").read_text("utf-8"))


class Metrics:
    """The counters of one app. Each app has a registry of its own, so one process can have two
    apps."""

    def __init__(self, *, heals: bool = False) -> None:
        """`heals` says that answers of a chat server are repaired."""
        self.heals = heals
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "dsv4", "registry": self.registry}
        self._counters = {
            name: Counter(name, row["about"], row["labels"], **own)
            for name, row in _TABLES["counters"].items()
        }
        self._gauges = {
            name: Gauge(name, row["about"], row["labels"], multiprocess_mode=row["together"], **own)
            for name, row in _TABLES["gauges"].items()
        }
        self._seconds = {
            name: Histogram(name, row["about"], buckets=_SECOND_BUCKETS, **own)
            for name, row in _TABLES["seconds"].items()
        }
        self.set("store_up", 1)
        for kind in get_args(DiagnosticKind):  # so that rates have a first value
            self.count("repairs", kind, by=0)
        for kind in HEALED_KINDS:
            self.count("healed_answers", kind, by=0)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Adds to a counter."""
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Sets a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def observe(self, name: str, seconds: float) -> None:
        """Adds a duration to a histogram."""
        self._seconds[name].observe(seconds)

    def note_engine(self, engine: Engine) -> None:
        """Notes the state of an engine."""
        self.set("engine_up", engine.is_up, engine.url)
        self.set("engine_draining", engine.is_draining, engine.url)
        self.set("engine_streams", engine.running, engine.url)

    def count_key(self, name: str, status: int, usage: Usage | None) -> None:
        """Counts a request and its tokens for a key, by the name of its owner."""
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
        """Notes periodically how much memory this process uses, if the system reports it."""
        while _STATM.exists():
            pages = int(_STATM.read_text(encoding="ascii").split()[1])
            self.set("memory_bytes", pages * os.sysconf("SC_PAGE_SIZE"))
            await asyncio.sleep(_MEMORY_SECONDS)

    @property
    def shared_folder(self) -> Path | None:
        """The folder that workers share, if there are several."""
        folder = os.environ.get(_FOLDER_VARIABLE)
        return None if folder is None else Path(folder)

    def count_places(self, running: int, waiting: int) -> None:
        """Notes the numbers of running generations and waiting requests."""
        self.set("streams_running", running)
        self.set("streams_waiting", waiting)

    def count_ignored(self, protocol: ProtocolName, fields: Iterable[str]) -> None:
        """Counts unread fields. Clients make up names, and a label must not grow without bounds."""
        for field in fields:
            label = field if field in HARMLESS_FIELDS[protocol] else "other"
            self.count("ignored_fields", protocol, label)

    def count_adaptations(self, ids: Iterable[str]) -> None:
        """Counts the adaptations of a request."""
        for id in ids:
            self.count("adaptations", id)

    def count_images(self, images: ImageFacts) -> None:
        """Counts the images of a request, sent and replaced."""
        self.count("images", "sent", by=images.sent_count)
        self.count("images", "replaced", by=images.replaced_count)

    def count_failure(self, error: Exception) -> None:
        """Counts an error that is the backend's."""
        if isinstance(error, BackendError):
            self.count("backend_errors", str(error.status))

    def count_events(self, events: list[Event], *, is_whole: bool) -> None:
        """Counts the repairs of a completion, and the ways in which its calls ended. A completion
        that failed or was left is not `is_whole`."""
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

    def _samples(self) -> list[Sample]:
        """All samples, of all workers."""
        return [sample for family in self.all().collect() for sample in family.samples]

    def healing(self) -> str:
        """The repairs since the start, in a sentence."""
        counts = {
            (sample.name, sample.labels.get("kind")): sample.value for sample in self._samples()
        }
        of_kind = {
            kind: counts.get(("dsv4_healed_answers_total", kind), 0) for kind in HEALED_KINDS
        }
        return healing_summary(counts.get(("dsv4_answers_total", None), 0), of_kind)

    def all(self) -> CollectorRegistry:
        """The registry to show: the counts of this process, or of all workers."""
        if self.shared_folder is None:
            return self.registry
        together = CollectorRegistry()
        MultiProcessCollector(together, str(self.shared_folder))  # type: ignore[no-untyped-call]
        return together

    def text(self, of_keys: bool = True) -> bytes:
        """All metrics as Prometheus reads them; those of single keys only with `of_keys`."""
        lines = generate_latest(self.all())
        return lines if of_keys else _OF_KEYS.sub(b"", lines)

    def log_summary(self) -> None:
        """Logs the counts, of all workers where there are several."""
        names = _TABLES["summary"]
        totals: dict[str, Any] = dict.fromkeys(names.values(), 0)
        for sample in self._samples():
            if sample.name in names and sample.labels.get("kind") not in UNREPAIRED_KINDS:
                totals[names[sample.name]] += int(sample.value)
        if self.heals:
            totals["healing"] = self.healing()
        log_fields(logging.INFO, "summary", totals)

    def listen(self, host: str, port: int) -> None:
        """Serves the metrics on a port of their own. Raises a `SettingError` if it is taken."""
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
    """Removes the gauges of workers that have died."""
    for file in Path(os.environ.get(_FOLDER_VARIABLE, "/nonexistent")).glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not is_alive(pid):
            mark_process_dead(pid)  # type: ignore[no-untyped-call]

"""The load that an engine reports: the requests that it runs, and those that wait in it, from its
metrics for Prometheus. It may serve others besides this gateway.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from contextlib import suppress
from typing import NamedTuple

from dsv4.serve.backend import BackendError
from dsv4.serve.upstreams.upstream import Upstream

# The names in the wheels of vLLM 0.32 and 0.33, and of SGLang 0.5.23, which needs
# `--enable-metrics`. An engine with several schedulers has a line for each.
_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
NAMES = _RUNNING + _WAITING
_SAMPLE = re.compile(rf"^({'|'.join(NAMES)})(?:\{{.*\}})?[ \t]+(\S+)", re.MULTILINE)
# An engine with a queue is full: a waiting request counts for more than a running one.
_WAITING_WEIGHT = 4
# In seconds: the interval for asking an engine, its time to answer, and how long an answer counts.
ASK_SECONDS, _ANSWER_SECONDS, _FRESH_SECONDS = 1.0, 2.0, 4.0
# An engine without such metrics is asked again after so long: it may have been restarted as
# another.
_PAUSE_SECONDS = 30.0


class EngineLoad(NamedTuple):
    """Requests that run in an engine, and that wait in it."""

    running: int
    waiting: int

    @property
    def weight(self) -> int:
        return self.running + _WAITING_WEIGHT * self.waiting


def read_load(metrics: str) -> EngineLoad | None:
    """The load in an engine's metrics; None where they do not have it."""
    sums: dict[str, float] = {}
    for name, value in _SAMPLE.findall(metrics):
        with suppress(ValueError):
            sums[name] = sums.get(name, 0.0) + float(value)
    running = [sums[name] for name in _RUNNING if name in sums]
    waiting = [sums[name] for name in _WAITING if name in sums]
    if not (running and waiting) or not 0 <= running[0] + waiting[0] < math.inf:
        return None
    return EngineLoad(int(running[0]), int(waiting[0]))


class LoadProbe:
    """Asks one engine. Failures are not counted: there is just no answer."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._load: EngineLoad | None = None
        self._asked_at = self._not_before = -math.inf

    @property
    def load(self) -> EngineLoad | None:
        """The last answer, unless it is too old."""
        return self._load if time.monotonic() - self._asked_at < _FRESH_SECONDS else None

    async def ask(self) -> bool:
        """Asks the engine, if it is due. Returns whether there is a new answer."""
        now = time.monotonic()
        if now < self._not_before:
            return False
        metrics = ""
        with suppress(BackendError, asyncio.TimeoutError):
            metrics = await asyncio.wait_for(self._upstream.text("/metrics"), _ANSWER_SECONDS)
        load = read_load(metrics)
        if load is None:
            self._not_before = now + (ASK_SECONDS if self.load else _PAUSE_SECONDS)
            return False
        self._load, self._asked_at = load, now
        return True

    async def aclose(self) -> None:
        await self._upstream.aclose()

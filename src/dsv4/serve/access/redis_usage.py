"""The usage of keys, counted in Redis by the gateways of many machines."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

from dsv4.serve.access.key_usage import DAY, KeyUsage, UsageChange, UsageTable
from dsv4.serve.settings import without_password
from dsv4.serve.storage.redis_store import redis_at, redis_failures, scripts_in
from dsv4.serve.storage.turn_stores import StoreFailure, StoreWatch

_log = logging.getLogger("dsv4.serve")

_SCRIPTS = Path(__file__).with_name("redis_scripts")
# The streams of a process that has not reported for so many seconds have ended with it.
_LEASE = 30.0
# Usage of two days ago is never needed.
_KEPT_SECONDS = int(2 * DAY)
_MEANWHILE = "; until it is back, each process counts what keys use for itself"


class RedisUsage(UsageTable):
    """Usage counted in a Redis server.

    While the server is away, this process counts by itself, from the last known usage. The daily
    usage counted meanwhile is added when the server is back. The number of streams that run here is
    never read from Redis, which may have lost it, but always written to it.
    """

    def __init__(
        self,
        url: str,
        on_change: Callable[[bool], None] = lambda is_up: None,
        prefix: str = "dsv4:limits:1:",
    ) -> None:
        self._client = redis_at(url, "limits")
        self._watch = StoreWatch(f"limits ({without_password(url)})", on_change, _MEANWHILE)
        self._swap = scripts_in(_SCRIPTS, self._client)["swap"]
        self._prefix = prefix
        self.process: str = uuid4().hex
        self._usages: defaultdict[str, KeyUsage] = defaultdict(KeyUsage)
        self._backlog: Counter[tuple[str, int]] = Counter()  # by key and day
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def failure(self) -> str | None:
        return self._watch.failure

    async def change(self, name: str, change: UsageChange) -> None:
        async with self._locks[name]:
            try:
                await self._change_there(name, change)
            except StoreFailure:
                self._change_here(name, change)

    async def _change_there(self, name: str, change: UsageChange) -> None:
        text, now = await self._watch.ask(partial(self._swapped, name, "", ""))
        while True:
            usage, moments = self._read(name, text, now)
            # Needed also if the change is refused, and unchanged until Redis has it.
            self._usages[name] = replace(usage, streams=dict(usage.streams))
            change(usage, now)
            new_text = json.dumps({"usage": asdict(usage), "seen": moments})
            text, now = await self._watch.ask(partial(self._swapped, name, text, new_text))
            if text == new_text:  # otherwise another process has changed it meanwhile
                break
        self._usages[name] = usage
        del self._backlog[name, usage.day]

    async def _swapped(self, name: str, old: str, new: str) -> tuple[str, float]:
        with redis_failures():
            arguments = (old, new, _KEPT_SECONDS)
            text, now = await self._swap(keys=[self._prefix + name], args=arguments)
        return text.decode(), float(now)

    def _read(self, name: str, text: str, now: float) -> tuple[KeyUsage, dict[str, float]]:
        """The usage in Redis, corrected by this process's own, and when each process last
        reported."""
        usage, seen = self._known_there(name, text)
        moments = {
            process: moment
            for process, moment in seen.items()
            if moment > now - _LEASE and usage.streams.get(process)
        }
        others = {process: usage.streams[process] for process in moments if process != self.process}
        usage.streams = {**others, self.process: self._own_streams(name)}
        usage.roll(now)
        usage.day_tokens += self._backlog[name, usage.day]
        return usage, {**moments, self.process: now}

    def _known_there(self, name: str, text: str) -> tuple[KeyUsage, dict[str, float]]:
        """The usage in Redis. If it is damaged, or of a later version, this process's own is used
        instead: a key must not be refused for that."""
        try:
            there = json.loads(text or "{}")
            usage = KeyUsage(**there.get("usage", {}))
            seen = {process: float(moment) for process, moment in there.get("seen", {}).items()}
            numbers = (usage.since, usage.requests, usage.tokens, usage.day, usage.day_tokens)
            math.fsum((*numbers, *usage.streams.values()))  # raises unless all are numbers
        except (ValueError, TypeError, AttributeError):
            _log.warning("the usage of key %s cannot be read in Redis, and is counted anew", name)
            return replace(self._usages[name], streams=dict(self._usages[name].streams)), {}
        return usage, seen

    def _own_streams(self, name: str) -> int:
        return self._usages[name].streams.get(self.process, 0)

    def _change_here(self, name: str, change: UsageChange) -> None:
        """The same in this process only, which does not know the others' streams."""
        now = time.time()
        usage = replace(self._usages[name], streams={self.process: self._own_streams(name)})
        usage.roll(now)
        before = usage.day_tokens
        change(usage, now)
        self._backlog[name, usage.day] += usage.day_tokens - before
        self._usages[name] = usage

    async def look_after(self) -> None:
        """Reports that streams still run, and adds the usage counted while the server was away."""
        while True:
            await asyncio.sleep(_LEASE / 3)
            behind = {name for (name, _), tokens in self._backlog.items() if tokens}
            for name in list(self._usages):
                if name in behind or self._own_streams(name):
                    await self.change(name, lambda usage, now: None)

    async def aclose(self) -> None:
        await self._client.aclose()

"""What keys have used: counted by one process, by the workers of one machine together, or in Redis
by many machines (`redis_usage.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from dsv4.api import ApiError
from dsv4.serve.access.key_limits import KeyLimits

# Limits are by the minute, which begins with its first request.
_WINDOW = 60.0
DAY = 24 * 3600.0


@dataclass(slots=True)
class KeyUsage:
    """What a key has used in the minute that began at `since`, in the day since `day` (UTC), and
    its streams by process."""

    since: float = 0.0
    requests: int = 0
    tokens: int = 0
    day: int = 0
    day_tokens: int = 0
    streams: dict[str, int] = field(default_factory=dict)

    def roll(self, now: float) -> None:
        """Begins a new minute, or day, where the last one is over."""
        if not 0 <= now - self.since < _WINDOW:
            self.since, self.requests, self.tokens = now, 0, 0
        if self.day != int(now // DAY):
            self.day, self.day_tokens = int(now // DAY), 0


# What happens to what a key has used, at a moment. It may be asked twice, of two copies.
UsageChange: TypeAlias = Callable[[KeyUsage, float], None]


class UsageTable(ABC):
    """What all keys have used. `process` is the name that this process counts its streams under."""

    def __init__(self) -> None:
        self.process: str = str(os.getpid())

    @abstractmethod
    async def change(self, name: str, change: UsageChange) -> None:
        """Changes what a key has used, in one step. What `change` raises changes nothing."""

    async def look_after(self) -> None:
        """What is to be done all the time."""
        return

    async def aclose(self) -> None:
        """Lets go of what it holds."""
        return

    @property
    def failure(self) -> str | None:
        """Why it cannot be used as it should be; None where it can."""
        return None


class ProcessUsage(UsageTable):
    """Counted by this process."""

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[str, KeyUsage] = {}

    async def change(self, name: str, change: UsageChange) -> None:
        change(self._usage.setdefault(name, KeyUsage()), time.time())


class MachineUsage(UsageTable):
    """Counted by the workers of one machine: a file for each key, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def change(self, name: str, change: UsageChange) -> None:
        import fcntl  # which only systems with several workers need

        file = self._folder / f"key-{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
        with open(file, "a+", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            usage = _usage_in(stream.read())
            change(usage, time.time())
            stream.seek(0)
            stream.truncate()
            stream.write(json.dumps(asdict(usage)))


def _usage_in(text: str) -> KeyUsage:
    usage = KeyUsage(**json.loads(text)) if text else KeyUsage()
    usage.streams = {pid: n for pid, n in usage.streams.items() if n and is_alive(int(pid))}
    return usage


def is_alive(pid: int) -> bool:
    """Whether there is a process with this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


class KeyMeter:
    """Lets requests in as far as their keys' limits go."""

    def __init__(self, table: UsageTable) -> None:
        self.table = table

    @asynccontextmanager
    async def admitted(self, name: str, limits: KeyLimits, streams: int = 1) -> AsyncIterator[None]:
        """A place for a request. Raises an `ApiError` with status 429 where there is none."""

        def admit(usage: KeyUsage, now: float) -> None:
            _check_windows(usage, limits, now)
            self._start(usage, limits, streams)
            usage.requests += 1

        async with self._counted(name, admit, streams) if limits.counts else nullcontext():
            yield

    @asynccontextmanager
    async def more_streams(self, name: str, limits: KeyLimits, streams: int) -> AsyncIterator[None]:
        """Places for the other choices of a request that has been admitted."""

        def start(usage: KeyUsage, now: float) -> None:
            self._start(usage, limits, streams)

        is_limited = limits.streams is not None and streams > 0
        async with self._counted(name, start, streams) if is_limited else nullcontext():
            yield

    @asynccontextmanager
    async def _counted(self, name: str, start: UsageChange, streams: int) -> AsyncIterator[None]:
        def leave(usage: KeyUsage, now: float) -> None:
            own = self.table.process
            usage.streams[own] = max(usage.streams.get(own, 0) - streams, 0)

        await self.table.change(name, start)
        try:
            yield
        finally:
            # Whoever cancels a request does not make its streams run on.
            await asyncio.shield(self.table.change(name, leave))

    def _start(self, usage: KeyUsage, limits: KeyLimits, streams: int) -> None:
        running = sum(usage.streams.values())
        if limits.streams is not None and running + streams > limits.streams:
            raise KeyLimitReached(f"This key may have {limits.streams} streams at once.", 1.0)
        own = self.table.process
        usage.streams[own] = usage.streams.get(own, 0) + streams

    async def count_tokens(self, name: str, limits: KeyLimits, tokens: int) -> None:
        """Notes what a request has taken, which only its end tells."""

        def add(usage: KeyUsage, now: float) -> None:
            usage.roll(now)
            usage.tokens += tokens
            usage.day_tokens += tokens

        if limits.tokens is not None or limits.day_tokens is not None:
            await asyncio.shield(self.table.change(name, add))


class KeyLimitReached(ApiError):
    """A key has used what it may. `retry_after` is how long to wait, in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, status=429, code="rate_limit_exceeded")
        self.retry_after = retry_after


def _check_windows(usage: KeyUsage, limits: KeyLimits, now: float) -> None:
    usage.roll(now)
    rest = max(usage.since + _WINDOW - now, 1.0)
    if limits.requests is not None and usage.requests >= limits.requests:
        raise KeyLimitReached(f"This key may make {limits.requests} requests a minute.", rest)
    if limits.tokens is not None and usage.tokens >= limits.tokens:
        raise KeyLimitReached(f"This key may use {limits.tokens} tokens a minute.", rest)
    if limits.day_tokens is not None and usage.day_tokens >= limits.day_tokens:
        message = f"This key may use {limits.day_tokens} tokens a day (UTC)."
        raise KeyLimitReached(message, DAY - now % DAY)

"""The limits of keys and their usage: counted by one process, by the workers of one machine
together, or in Redis by many machines (`redis_usage.py`).
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
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias

from dsv4.api import ApiError
from dsv4.errors import mismatch, short_repr


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of a key. None is no limit; no models means all of them."""

    requests: int | None = None
    tokens: int | None = None
    day_tokens: int | None = None
    streams: int | None = None
    models: tuple[str, ...] = ()
    expires: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether the key's usage must be counted at all."""
        limits = (self.requests, self.tokens, self.day_tokens, self.streams)
        return any(limit is not None for limit in limits)

    def check_model(self, model: object) -> None:
        """Raises an `ApiError` for a model that the key does not allow."""
        if self.models and model not in self.models:
            expected = f"expected a model of this key: {', '.join(self.models)}"
            message = f"found {short_repr(model)}, {expected}"
            raise ApiError(message, path="model", status=403, code="model_not_allowed")


UNLIMITED = KeyLimits()


def read_limits(words: list[str]) -> KeyLimits:
    """The limits that a line of the key file gives, such as `requests=60 tokens=100000
    day_tokens=5000000 streams=4 models=a,b expires=2027-01-31`.

    Raises a `ValueError` that says what is wrong.
    """
    limits: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _READERS or not equals:
            names = ", ".join(f"{each}=" for each in _READERS)
            raise ValueError(mismatch(word, f"one of {names}"))
        if name in limits:
            raise ValueError(f"found {name} twice")
        limits[name] = _READERS[name](value)
    return KeyLimits(**limits)


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(mismatch(value, "a number of 1 or more"))
    return int(value)


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name for name in value.split(",") if name)
    if not names:
        raise ValueError("found no model, expected their names with commas between")
    return names


def _moment(value: str) -> datetime:
    """The end of a day, or a moment; UTC if it has no zone."""
    try:
        if len(value) == len("2027-01-31"):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=timezone.utc)
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        example = "2027-01-31 or 2027-01-31T12:00:00Z"
        raise ValueError(mismatch(value, f"a date: {example}")) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("requests", "tokens", "day_tokens", "streams"), _count),
    "models": _names,
    "expires": _moment,
}


# Limits are per minute; a minute begins with its first request.
_WINDOW = 60.0
DAY = 24 * 3600.0


@dataclass(slots=True)
class KeyUsage:
    """The usage of a key in the minute that began at `since`, in the day since `day` (UTC), and its
    streams by process."""

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


# Changes a key's usage at a moment. It may be called twice, on two copies.
UsageChange: TypeAlias = Callable[[KeyUsage, float], None]


class UsageTable(ABC):
    """The usage of all keys. `process` is the name under which this process counts its streams."""

    def __init__(self) -> None:
        self.process: str = str(os.getpid())

    @abstractmethod
    async def change(self, name: str, change: UsageChange) -> None:
        """Changes a key's usage in one step. An exception in `change` changes nothing."""

    async def look_after(self) -> None:
        """Keeps the table up to date, continuously."""
        return

    async def aclose(self) -> None:
        """Frees its resources."""
        return

    @property
    def failure(self) -> str | None:
        """The reason why it cannot be used as intended; None where it can."""
        return None


class ProcessUsage(UsageTable):
    """Usage counted by this process."""

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[str, KeyUsage] = {}

    async def change(self, name: str, change: UsageChange) -> None:
        change(self._usage.setdefault(name, KeyUsage()), time.time())


class MachineUsage(UsageTable):
    """Usage counted by the workers of one machine: a file for each key, in a folder of their
    own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def change(self, name: str, change: UsageChange) -> None:
        import fcntl  # only systems with several workers need it

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
    """Admits requests as far as the limits of their keys allow."""

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
            # Also where the request is cancelled: its streams must not be counted any longer.
            await asyncio.shield(self.table.change(name, leave))

    def _start(self, usage: KeyUsage, limits: KeyLimits, streams: int) -> None:
        running = sum(usage.streams.values())
        if limits.streams is not None and running + streams > limits.streams:
            raise KeyLimitReached(f"This key may have {limits.streams} streams at once.", 1.0)
        own = self.table.process
        usage.streams[own] = usage.streams.get(own, 0) + streams

    async def count_tokens(self, name: str, limits: KeyLimits, tokens: int) -> None:
        """Adds the tokens of a request, which are known only at its end."""

        def add(usage: KeyUsage, now: float) -> None:
            usage.roll(now)
            usage.tokens += tokens
            usage.day_tokens += tokens

        if limits.tokens is not None or limits.day_tokens is not None:
            await asyncio.shield(self.table.change(name, add))


class KeyLimitReached(ApiError):
    """A key has reached a limit. `retry_after` is the time to wait, in seconds."""

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

"""What a key may use (requests and tokens in a minute, streams at once, models, until when), and
what it has used.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from dsv4.api import ApiError
from dsv4.errors import short_repr

T = TypeVar("T")

# Limits are by the minute, which begins with its first request.
_WINDOW = 60.0
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What a key may use. None is no limit; no models are all of them."""

    requests: int | None = None
    tokens: int | None = None
    day_tokens: int | None = None
    streams: int | None = None
    models: tuple[str, ...] = ()
    expires: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether anything must be counted."""
        limits = (self.requests, self.tokens, self.day_tokens, self.streams)
        return any(limit is not None for limit in limits)

    def check_model(self, model: object) -> None:
        """Raises an `ApiError` for a model that requests may not use."""
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
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _READERS or not equals:
            known = ", ".join(f"{each}=" for each in _READERS)
            raise ValueError(f"found {short_repr(word)}, expected one of {known}")
        if name in given:
            raise ValueError(f"found {name} twice")
        given[name] = _READERS[name](value)
    return KeyLimits(**given)


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"found {short_repr(value)}, expected a number of 1 or more")
    return int(value)


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name for name in value.split(",") if name)
    if not names:
        raise ValueError("found no model, expected their names with commas between")
    return names


def _moment(value: str) -> datetime:
    """A day, whose end is meant, or a moment; without a zone it is UTC's."""
    try:
        if len(value) == len("2027-01-31"):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=timezone.utc)
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        example = "2027-01-31 or 2027-01-31T12:00:00Z"
        raise ValueError(f"found {short_repr(value)}, expected a date: {example}") from None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


_READERS: dict[str, Callable[[str], Any]] = {
    "requests": _count,
    "tokens": _count,
    "day_tokens": _count,
    "streams": _count,
    "models": _names,
    "expires": _moment,
}


# Counting.


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
        if self.day != int(now // _DAY):
            self.day, self.day_tokens = int(now // _DAY), 0


class UsageTable:
    """What all keys have used, in this process."""

    def __init__(self) -> None:
        self._usage: dict[str, KeyUsage] = {}

    def change(self, name: str, change: Callable[[KeyUsage], T]) -> T:
        return change(self._usage.setdefault(name, KeyUsage()))


class SharedUsageTable:
    """The same for the workers of one machine: a file for each key, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def change(self, name: str, change: Callable[[KeyUsage], T]) -> T:
        import fcntl  # which only systems with several workers need

        file = self._folder / f"key-{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
        with open(file, "a+", encoding="utf-8") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            opened.seek(0)
            usage = _usage_in(opened.read())
            result = change(usage)
            opened.seek(0)
            opened.truncate()
            opened.write(json.dumps(asdict(usage)))
        return result


def _usage_in(text: str) -> KeyUsage:
    usage = KeyUsage(**json.loads(text)) if text else KeyUsage()
    usage.streams = {pid: n for pid, n in usage.streams.items() if n and _is_alive(int(pid))}
    return usage


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


class KeyMeter:
    """Lets requests in as far as their keys' limits go."""

    def __init__(self, table: UsageTable | SharedUsageTable) -> None:
        self._table = table

    @contextmanager
    def admitted(self, name: str, limits: KeyLimits, streams: int = 1) -> Iterator[None]:
        """A place for a request. Raises an `ApiError` with status 429 where there is none."""
        if not limits.counts:
            yield
            return
        self._table.change(name, lambda usage: _admit(usage, limits, streams))
        try:
            yield
        finally:
            self._table.change(name, lambda usage: _leave(usage, streams))

    @contextmanager
    def more_streams(self, name: str, limits: KeyLimits, streams: int) -> Iterator[None]:
        """Places for the other choices of a request that has been admitted."""
        if limits.streams is None or not streams:
            yield
            return
        self._table.change(name, lambda usage: _start(usage, limits, streams))
        try:
            yield
        finally:
            self._table.change(name, lambda usage: _leave(usage, streams))

    def count_tokens(self, name: str, limits: KeyLimits, tokens: int) -> None:
        """Notes what a request has taken, which only its end tells."""
        if limits.tokens is not None or limits.day_tokens is not None:
            self._table.change(name, lambda usage: _add_tokens(usage, tokens))


class KeyLimitReached(ApiError):
    """A key has used what it may. `retry_after` is how long to wait, in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, status=429, code="rate_limit_exceeded")
        self.retry_after = retry_after


def _admit(usage: KeyUsage, limits: KeyLimits, streams: int) -> None:
    now = time.time()
    usage.roll(now)
    left = max(usage.since + _WINDOW - now, 1.0)
    if limits.requests is not None and usage.requests >= limits.requests:
        raise KeyLimitReached(f"This key may make {limits.requests} requests a minute.", left)
    if limits.tokens is not None and usage.tokens >= limits.tokens:
        raise KeyLimitReached(f"This key may use {limits.tokens} tokens a minute.", left)
    if limits.day_tokens is not None and usage.day_tokens >= limits.day_tokens:
        message = f"This key may use {limits.day_tokens} tokens a day (UTC)."
        raise KeyLimitReached(message, _DAY - now % _DAY)
    _start(usage, limits, streams)
    usage.requests += 1


def _start(usage: KeyUsage, limits: KeyLimits, streams: int) -> None:
    running = sum(usage.streams.values())
    if limits.streams is not None and running + streams > limits.streams:
        raise KeyLimitReached(f"This key may have {limits.streams} streams at once.", 1.0)
    own = str(os.getpid())
    usage.streams[own] = usage.streams.get(own, 0) + streams


def _leave(usage: KeyUsage, streams: int) -> None:
    own = str(os.getpid())
    usage.streams[own] = max(usage.streams.get(own, 0) - streams, 0)


def _add_tokens(usage: KeyUsage, tokens: int) -> None:
    usage.roll(time.time())
    usage.tokens += tokens
    usage.day_tokens += tokens

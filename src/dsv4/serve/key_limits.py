"""What an API key may use: requests and tokens in a minute, streams at once, models, until when.
And what slows down whoever guesses keys.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from dsv4.api import ApiError
from dsv4.errors import short_repr

T = TypeVar("T")

# Limits are by the minute, which begins with its first request.
_WINDOW = 60.0


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What a key may use. None is no limit; no models are all of them."""

    requests: int | None = None
    tokens: int | None = None
    streams: int | None = None
    models: tuple[str, ...] = ()
    expires: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether anything must be counted."""
        return any(limit is not None for limit in (self.requests, self.tokens, self.streams))

    def check_model(self, model: object) -> None:
        """Raises an `ApiError` for a model that requests may not use."""
        if self.models and model not in self.models:
            expected = f"expected a model of this key: {', '.join(self.models)}"
            message = f"found {short_repr(model)}, {expected}"
            raise ApiError(message, path="model", status=403, code="model_not_allowed")


UNLIMITED = KeyLimits()


def read_limits(words: list[str]) -> KeyLimits:
    """The limits that a line of the key file gives: `requests=60 tokens=100000 streams=4
    models=a,b expires=2027-01-31`. Raises a `ValueError` that says what is wrong."""
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
    "streams": _count,
    "models": _names,
    "expires": _moment,
}


# Counting.


@dataclass(slots=True)
class KeyUsage:
    """What a key has used in the minute that began at `since`, and its streams by process."""

    since: float = 0.0
    requests: int = 0
    tokens: int = 0
    streams: dict[str, int] = field(default_factory=dict)

    def roll(self, now: float) -> None:
        """Begins a new minute where the last one is over."""
        if not 0 <= now - self.since < _WINDOW:
            self.since, self.requests, self.tokens = now, 0, 0


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
    def admitted(self, name: str, limits: KeyLimits) -> Iterator[None]:
        """A place for a request. Raises an `ApiError` with status 429 where there is none."""
        if not limits.counts:
            yield
            return
        self._table.change(name, lambda usage: _admit(usage, limits))
        try:
            yield
        finally:
            self._table.change(name, _leave)

    def count_tokens(self, name: str, limits: KeyLimits, tokens: int) -> None:
        """Notes what a request has taken, which only its end tells."""
        if limits.tokens is not None:
            self._table.change(name, lambda usage: _add_tokens(usage, tokens))


class KeyLimitReached(ApiError):
    """A key has used what it may. `retry_after` is how long to wait, in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, status=429, code="rate_limit_exceeded")
        self.retry_after = retry_after


def _admit(usage: KeyUsage, limits: KeyLimits) -> None:
    now = time.time()
    usage.roll(now)
    left = max(usage.since + _WINDOW - now, 1.0)
    streams = sum(usage.streams.values())
    if limits.streams is not None and streams >= limits.streams:
        raise KeyLimitReached(f"This key may have {limits.streams} streams at once.", 1.0)
    if limits.requests is not None and usage.requests >= limits.requests:
        raise KeyLimitReached(f"This key may make {limits.requests} requests a minute.", left)
    if limits.tokens is not None and usage.tokens >= limits.tokens:
        raise KeyLimitReached(f"This key may use {limits.tokens} tokens a minute.", left)
    usage.requests += 1
    own = str(os.getpid())
    usage.streams[own] = usage.streams.get(own, 0) + 1


def _leave(usage: KeyUsage) -> None:
    own = str(os.getpid())
    usage.streams[own] = max(usage.streams.get(own, 0) - 1, 0)


def _add_tokens(usage: KeyUsage, tokens: int) -> None:
    usage.roll(time.time())
    usage.tokens += tokens


# Wrong keys.


# So many wrong keys in a minute from one address are somebody's mistake. After that each takes
# twice as long as the one before, up to the longest pause.
_FREE_GUESSES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# How many addresses are remembered, and how many guessers wait at once.
_MOST_ADDRESSES, _MOST_WAITING = 4096, 256


class WrongKeys:
    """Slows down whoever guesses keys. Right keys never wait."""

    def __init__(self) -> None:
        self._guesses: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._waiting = 0

    async def slow_down(self, address: str) -> None:
        """Waits, longer with each wrong key. Raises an `ApiError` where too many wait already."""
        pause = self.next_pause(address)
        if self._waiting >= _MOST_WAITING:
            raise KeyLimitReached("Too many wrong keys.", _LONGEST_PAUSE)
        self._waiting += 1
        try:
            await asyncio.sleep(pause)
        finally:
            self._waiting -= 1

    def next_pause(self, address: str) -> float:
        """How long this wrong key takes, in seconds."""
        now = time.monotonic()
        since, guesses = self._guesses.pop(address, (now, 0))
        if now - since > _WINDOW:
            since, guesses = now, 0
        self._guesses[address] = since, guesses + 1
        while len(self._guesses) > _MOST_ADDRESSES:
            with suppress(KeyError):
                self._guesses.popitem(last=False)
        doubled = min(guesses - _FREE_GUESSES, 16)
        return 0.0 if doubled < 0 else min(_FIRST_PAUSE * 2**doubled, _LONGEST_PAUSE)

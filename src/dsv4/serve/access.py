"""Who may use the gateway, and how much at the same time: API keys, and a bounded queue for
streams.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from dsv4.serve.settings import SettingError

# The keys that clients show, and whose they are.


# The owner of everything where no keys are asked for.
ANONYMOUS = "-"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file: its owner's name, the secret, and whether it may use the inspector."""

    name: str
    secret: bytes
    admin: bool = False


class Keyring:
    """The keys of a file. One without keys lets everybody in."""

    def __init__(self, keys: tuple[Key, ...] = ()) -> None:
        self._keys = keys

    @property
    def asks(self) -> bool:
        return bool(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def owner(self, headers: Mapping[str, str]) -> Key | None:
        """Whose key the request shows. None if it shows none that fits, where one is asked for."""
        if not self._keys:
            return Key(ANONYMOUS, b"")
        # Every key is compared, so that the time says nothing about which of them fits.
        found = [
            key
            for given in _shown_keys(headers)
            for key in self._keys
            if hmac.compare_digest(key.secret, given)
        ]
        return found[0] if found else None


def _shown_keys(headers: Mapping[str, str]) -> list[bytes]:
    """The keys that a client shows. Some show two, and only one of them is for us."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [
        key.encode("utf-8", "surrogateescape") for key in (bearer, headers.get("x-api-key", ""))
    ]


def read_keys(path: str) -> Keyring:
    """The keys of a file, one per line: `key`, `name:key` or `admin name:key`; `#` is a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("api_key_file", f"{path}: {error}") from None
    keys = [_key(line.strip(), n, path) for n, line in enumerate(lines, 1) if _has_key(line)]
    if not keys:
        raise SettingError("api_key_file", f"{path}: found no key, expected one per line")
    names = [key.name for key in keys]
    for name in names:
        if names.count(name) > 1:
            raise SettingError("api_key_file", f"{path}: found the name {name!r} twice")
    return Keyring(tuple(keys))


def _has_key(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _key(line: str, number: int, path: str) -> Key:
    admin, said = False, line
    if said.startswith("admin "):
        admin, said = True, said[len("admin ") :].strip()
    name, colon, secret = said.rpartition(":")
    if not secret or any(c.isspace() for c in secret):
        raise SettingError(
            "api_key_file", f"{path}, line {number}: expected `key`, `name:key` or `admin name:key`"
        )
    return Key(name if colon else _unnamed(secret), secret.encode(), admin)


def _unnamed(secret: str) -> str:
    """The name of a key that has none. It says whose the stored turns are, so it must stay the
    same, and go to no other key, when the lines of the file change."""
    return f"key-{hashlib.sha256(secret.encode()).hexdigest()[:16]}"


# How much is served at once: a number of streams, and a bounded queue before them.


class Busy(Exception):
    """No stream is free, and the queue is full."""


class StreamGate:
    """Lets `streams` in at once; up to `queue` wait, first come first served."""

    def __init__(
        self, streams: int, queue: int, changed: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        """`changed` is called with how many run and how many wait, each time that changes."""
        self._streams = streams
        self._queue = queue
        self._changed = changed
        self._waiting: deque[asyncio.Event] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @contextmanager
    def place(self) -> Iterator[asyncio.Event]:
        """A place among the streams or in the queue, with the event that its turn has come.

        Raises `Busy` where there is none.
        """
        turn = asyncio.Event()
        self._take(turn)
        self._changed(self.running, self.waiting)
        try:
            yield turn
        finally:
            self._leave(turn)
            self._changed(self.running, self.waiting)

    def _take(self, turn: asyncio.Event) -> None:
        if self.running < self._streams:
            self.running += 1
            turn.set()
        elif self.waiting < self._queue:
            self._waiting.append(turn)
        else:
            raise Busy

    def _leave(self, turn: asyncio.Event) -> None:
        if not turn.is_set():
            self._waiting.remove(turn)
        elif self._waiting:
            self._waiting.popleft().set()  # a stream that is taken over goes on running
        else:
            self.running -= 1

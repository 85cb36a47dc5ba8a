"""Stores of turns: the protocol of all of them, the one in memory, and the one in a SQLite file,
which survives a restart and which the workers of one machine share.

A store has values under an owner, by any of their names, and removes the oldest first. An owner is
the name of an API key; a store never gives an owner the values of another.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from dsv4._inputs.database_file import open_database
from dsv4.serve.settings import SettingError


class StoreFailure(Exception):
    """A store cannot be read or written."""


class TurnStore(Protocol):
    """A bounded store of values with several names each. Every method may raise a `StoreFailure`,
    so that a value that cannot be read is not taken for a missing one."""

    def put(self, owner: str, names: Sequence[str], value: bytes) -> Awaitable[None]:
        """Keeps a value. The first name is its own; the others lead to it too."""
        ...

    def get(self, owner: str, name: str) -> Awaitable[bytes | None]:
        """The last value that was stored under a name. None if there is none, or it was removed."""
        ...

    def delete(self, owner: str, name: str) -> Awaitable[bool]:
        """Deletes a value. Returns whether it was there."""
        ...

    def size(self) -> Awaitable[int]:
        """The number of bytes in the store."""
        ...

    async def aclose(self) -> None:
        """Frees the store's resources."""


# The size of an entry beside its value: two dictionaries' slots, the names.
_OVERHEAD = 512


@dataclass(frozen=True, slots=True)
class _StoredEntry:
    names: tuple[str, ...]
    value: bytes

    @property
    def size(self) -> int:
        return len(self.value) + sum(map(len, self.names)) + _OVERHEAD


# The most turns that are kept, besides the bound on their bytes.
MOST_TURNS = 20_000


class MemoryTurnStore(TurnStore):
    """Turns in this process: a dictionary with bounds."""

    def __init__(self, entries: int, size: int) -> None:
        self._most = entries
        self._most_bytes = size
        self._entries: OrderedDict[tuple[str, str], _StoredEntry] = OrderedDict()
        self._leads: dict[tuple[str, str], tuple[str, str]] = {}
        self._size = 0

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        own = (owner, names[0])
        self._forget(own)
        entry = _StoredEntry(tuple(names), value)
        if entry.size > self._most_bytes:
            return
        self._entries[own] = entry
        self._size += entry.size
        for name in names:
            self._leads[owner, name] = own
        while len(self._entries) > self._most or self._size > self._most_bytes:
            self._forget(next(iter(self._entries)))

    async def get(self, owner: str, name: str) -> bytes | None:
        own = self._leads.get((owner, name))
        if own is None:
            return None
        self._entries.move_to_end(own)
        return self._entries[own].value

    async def delete(self, owner: str, name: str) -> bool:
        own = self._leads.get((owner, name))
        if own is not None:
            self._forget(own)
        return own is not None

    async def size(self) -> int:
        return self._size

    def oldest(self) -> tuple[str, Sequence[str], bytes] | None:
        """The owner, names and value that were stored here first. None where the store is empty."""
        for (owner, _), entry in self._entries.items():
            return owner, entry.names, entry.value
        return None

    def _forget(self, own: tuple[str, str]) -> None:
        entry = self._entries.pop(own, None)
        if entry is None:
            return
        self._size -= entry.size
        for name in entry.names:
            if self._leads.get((own[0], name)) == own:
                del self._leads[own[0], name]

    async def aclose(self) -> None:
        self._entries.clear()
        self._leads.clear()
        self._size = 0


# Turns in a SQLite file: they survive a restart, and the workers of one machine share them.


_SCHEMA = Path(__file__).with_name("turns.sql")
# The gateway's own workers lock it for a moment. If another program locks it longer, it cannot be
# used.
_LOCKED_SECONDS = 2.0
T = TypeVar("T")
P = ParamSpec("P")


def opened_in_thread(
    setting: str, open: Callable[[str], T], path: str
) -> tuple[ThreadPoolExecutor, T]:
    """The result of `open` for the file that a setting names, and the thread of its own that it is
    used in. Raises a `SettingError` where it cannot be opened."""
    thread = ThreadPoolExecutor(1, thread_name_prefix=f"dsv4-{setting}")
    try:
        return thread, thread.submit(open, path).result()
    except (OSError, sqlite3.Error) as error:
        thread.shutdown()
        problem = getattr(error, "strerror", None) or error
        raise SettingError(setting, f"{path}: {problem}") from None


def _in_thread(
    method: Callable[Concatenate[SqliteTurnStore, P], T],
) -> Callable[Concatenate[SqliteTurnStore, P], Coroutine[Any, Any, T]]:
    """A method that runs in the store's own thread, so that the server never waits for the disk."""

    async def run(store: SqliteTurnStore, /, *args: P.args, **keywords: P.kwargs) -> T:
        work = partial(method, store, *args, **keywords)
        try:
            return await asyncio.get_running_loop().run_in_executor(store._thread, work)
        except sqlite3.Error as error:
            raise StoreFailure(str(error)) from None

    return run


class SqliteTurnStore(TurnStore):
    """A SQLite file."""

    def __init__(self, path: str, entries: int, size: int) -> None:
        self._most = entries
        self._most_bytes = size
        self._thread, self._db = opened_in_thread("replay", _open_database, path)

    @_in_thread
    def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        size = len(value) + sum(map(len, names))
        with self._db as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM turns WHERE owner = ? AND name = ?", (owner, names[0]))
            if size > self._most_bytes:
                return  # all others would have to be removed for it
            number = db.execute(
                "INSERT INTO turns (owner, name, value, size) VALUES (?, ?, ?, ?)",
                (owner, names[0], value, size),
            ).lastrowid
            db.executemany(
                "INSERT OR REPLACE INTO names VALUES (?, ?, ?)",
                [(owner, name, number) for name in names],
            )
            while True:
                entries, total = db.execute("SELECT entries, size FROM total").fetchone()
                if entries <= self._most and total <= self._most_bytes:
                    break
                db.execute("DELETE FROM turns WHERE number = (SELECT MIN(number) FROM turns)")

    @_in_thread
    def get(self, owner: str, name: str) -> bytes | None:
        row = self._db.execute(f"SELECT value FROM turns {_NAMED}", (owner, name)).fetchone()
        return None if row is None else bytes(row[0])

    @_in_thread
    def delete(self, owner: str, name: str) -> bool:
        with self._db as db:
            return bool(db.execute(f"DELETE FROM turns {_NAMED}", (owner, name)).rowcount)

    @_in_thread
    def size(self) -> int:
        return int(self._db.execute("SELECT size FROM total").fetchone()[0])

    @_in_thread
    def _close(self) -> None:
        self._db.close()

    async def aclose(self) -> None:
        with suppress(StoreFailure):
            await self._close()
        self._thread.shutdown()


# The turn of an owner with a given name.
_NAMED = "WHERE number = (SELECT number FROM names WHERE owner = ? AND name = ?)"


def _open_database(path: str) -> sqlite3.Connection:
    db = open_database(path, timeout=_LOCKED_SECONDS)
    # Workers can read while one writes; the last second may be lost if the machine fails.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.executescript(_SCHEMA.read_text("utf-8"))
    return db


# A store on another machine or disk may be away. Each change is logged once. Requests to it then
# fail, instead of finding nothing.


# A store that has failed is not asked again for so long: an outage must not cost every request a
# time-out.
RETRY_SECONDS = 1.0
# The most values that wait while the store is away: a few minutes of a busy gateway.
_MOST_WAITING = 20_000
_MOST_BYTES_WAITING = 64 * 1024 * 1024

_log = logging.getLogger("dsv4.serve")


@dataclass(slots=True, eq=False)
class StoreWatch:
    """Passes requests to a store, and keeps track of whether it is there.

    `name` is the store's name in the log, with `meanwhile` after the message that it is away.
    `on_change` is called after each request, with whether the store is there.
    """

    name: str
    on_change: Callable[[bool], None] = lambda is_up: None
    meanwhile: str = ""
    _failure: StoreFailure | None = None
    _retry_at: float = 0.0

    @property
    def failure(self) -> str | None:
        """The reason why it is away; None where it is there."""
        return None if self._failure is None else str(self._failure)

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of some work with the store. Raises a `StoreFailure` where it fails."""
        if self._failure is not None and time.monotonic() < self._retry_at:
            raise StoreFailure(str(self._failure))
        try:
            result = await work()
        except StoreFailure as failure:
            self._note(failure)
            raise
        self._note(None)
        return result

    def _note(self, failure: StoreFailure | None) -> None:
        before, self._failure = self._failure, failure
        self.on_change(failure is None)
        if failure is not None:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            if before is None:
                _log.warning("%s cannot be used: %s%s", self.name, failure, self.meanwhile)
        elif before is not None:
            _log.warning("%s can be used again", self.name)


class WatchedStore(TurnStore):
    """A store, and the watch that knows whether it is there. Values that cannot be stored wait in
    memory, as far as there is room, until the store is back."""

    def __init__(self, store: TurnStore, watch: StoreWatch) -> None:
        self._store = store
        self.watch = watch
        self._waiting = MemoryTurnStore(_MOST_WAITING, _MOST_BYTES_WAITING)

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        try:
            await self.watch.ask(lambda: self._store.put(owner, names, value))
            await self._waiting.delete(owner, names[0])
        except StoreFailure:
            await self._waiting.put(owner, names, value)

    async def get(self, owner: str, name: str) -> bytes | None:
        waiting = await self._waiting.get(owner, name)
        return waiting or await self.watch.ask(lambda: self._store.get(owner, name))

    async def delete(self, owner: str, name: str) -> bool:
        was_there = await self.watch.ask(lambda: self._store.delete(owner, name))
        return await self._waiting.delete(owner, name) or was_there

    async def size(self) -> int:
        return await self.watch.ask(self._store.size)

    async def bring_waiting(self) -> None:
        """Stores the values that had to wait."""
        while (entry := self._waiting.oldest()) is not None:
            owner, names, value = entry
            await self.watch.ask(lambda: self._store.put(owner, names, value))  # noqa: B023
            await self._waiting.delete(owner, names[0])

    async def aclose(self) -> None:
        try:
            await self.bring_waiting()
        except StoreFailure as failure:
            if self._waiting.oldest() is not None:
                _log.error(
                    "%s: the values that waited for it are lost: %s", self.watch.name, failure
                )
        await self._store.aclose()

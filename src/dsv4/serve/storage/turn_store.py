"""Where turns are kept: under an owner, by any of their names, the oldest removed first. The
protocol of all stores, the store in memory, and the one in a SQLite file, which survives a restart
and which the workers of one machine share.

An owner is the name of an API key. A store never gives one owner what another has put there.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dsv4.serve.settings import SettingError


class TurnStore(Protocol):
    """A bounded memory of values that have several names each."""

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        """Keeps a value. The first name is its own; the others lead to it too."""
        ...

    async def get(self, owner: str, name: str) -> bytes | None:
        """The value that was last put under a name. None if there is none, or no longer."""
        ...

    async def delete(self, owner: str, name: str) -> bool:
        """Forgets a value. Says whether it was there."""
        ...

    async def aclose(self) -> None:
        """Frees what the store holds."""
        ...


# What an entry takes beside its value: two dictionaries' slots, the names.
_OVERHEAD = 512


@dataclass(frozen=True, slots=True)
class _StoredEntry:
    names: tuple[str, ...]
    value: bytes

    @property
    def size(self) -> int:
        return len(self.value) + sum(map(len, self.names)) + _OVERHEAD


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


_SCHEMA = """
CREATE TABLE IF NOT EXISTS turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, size INTEGER NOT NULL,
    UNIQUE (owner, name)
);
CREATE TABLE IF NOT EXISTS names (
    owner TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS names_by_number ON names (number);
CREATE TABLE IF NOT EXISTS total (
    one INTEGER PRIMARY KEY CHECK (one = 1), entries INTEGER NOT NULL, size INTEGER NOT NULL
);
INSERT OR IGNORE INTO total VALUES (1, 0, 0);
"""
# Counting rows would read the whole table at every put; triggers keep the sums.
_TRIGGERS = """
CREATE TRIGGER IF NOT EXISTS turn_added AFTER INSERT ON turns BEGIN
    UPDATE total SET entries = entries + 1, size = size + NEW.size;
END;
CREATE TRIGGER IF NOT EXISTS turn_gone AFTER DELETE ON turns BEGIN
    UPDATE total SET entries = entries - 1, size = size - OLD.size;
    DELETE FROM names WHERE number = OLD.number;
END;
"""
T = TypeVar("T")


class SqliteTurnStore(TurnStore):
    """A SQLite file, used in one thread of its own, so that the server never waits for the disk.

    While it cannot be read or written nothing is remembered, and requests go on.
    """

    def __init__(self, path: str, entries: int, size: int) -> None:
        self._most = entries
        self._most_bytes = size
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dsv4-replay")
        try:
            self._db = self._thread.submit(_open_database, path).result()
        except (OSError, sqlite3.Error) as error:
            self._thread.shutdown()
            problem = getattr(error, "strerror", None) or error
            raise SettingError("replay", f"{path}: {problem}") from None

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        await self._run(lambda: self._put(owner, tuple(names), value), None)

    async def get(self, owner: str, name: str) -> bytes | None:
        return await self._run(lambda: self._get(owner, name), None)

    async def delete(self, owner: str, name: str) -> bool:
        return await self._run(lambda: self._delete(owner, name), False)

    async def _run(self, work: Callable[[], T], otherwise: T) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error:
            return otherwise

    def _put(self, owner: str, names: tuple[str, ...], value: bytes) -> None:
        size = len(value) + sum(map(len, names))
        with self._db as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM turns WHERE owner = ? AND name = ?", (owner, names[0]))
            if size > self._most_bytes:
                return  # all others would have to go for it
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

    def _get(self, owner: str, name: str) -> bytes | None:
        row = self._db.execute(
            "SELECT value FROM turns WHERE number ="
            " (SELECT number FROM names WHERE owner = ? AND name = ?)",
            (owner, name),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _delete(self, owner: str, name: str) -> bool:
        with self._db as db:
            return bool(
                db.execute(
                    "DELETE FROM turns WHERE number ="
                    " (SELECT number FROM names WHERE owner = ? AND name = ?)",
                    (owner, name),
                ).rowcount
            )

    async def aclose(self) -> None:
        await self._run(self._db.close, None)
        self._thread.shutdown()


def _open_database(path: str) -> sqlite3.Connection:
    # What clients said is nobody else's to read.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, timeout=10, isolation_level=None)
    # Workers read while one writes; what the last second brought may be lost with the machine.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.executescript(_SCHEMA + _TRIGGERS)
    return db

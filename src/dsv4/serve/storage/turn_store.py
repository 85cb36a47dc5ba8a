"""Where turns are kept: under an owner, by any of their names, the oldest removed first. The
store in memory, and the choice of a store by the settings.

An owner is the name of an API key. A store never gives one owner what another has put there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dsv4.errors import short_repr
from dsv4.serve.settings import SettingError, Settings


class TurnStore(Protocol):
    """A bounded memory of values that have several names each."""

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        """Keeps a value. The first name is its own; the others lead to it too."""

    async def get(self, owner: str, name: str) -> bytes | None:
        """The value that was last put under a name. None if there is none, or no longer."""

    async def delete(self, owner: str, name: str) -> bool:
        """Forgets a value. Says whether it was there."""

    async def aclose(self) -> None:
        """Frees what the store holds."""


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


def store_for(settings: Settings) -> TurnStore | None:
    """The store that the settings name. None where turns are not kept here."""
    kind = settings.replay_store
    if kind == "memory":
        return MemoryTurnStore(settings.replay_entries, settings.replay_bytes)
    if kind == "sqlite":
        from dsv4.serve.storage.sqlite_store import SqliteTurnStore

        path = settings.replay.partition(":")[2]
        return SqliteTurnStore(path, settings.replay_entries, settings.replay_bytes)
    if kind in ("redis", "rediss"):
        from dsv4.serve.storage.redis_store import RedisTurnStore

        try:
            return RedisTurnStore(settings.replay, settings.replay_entries, settings.replay_bytes)
        except ValueError as error:  # no URL of a server
            raise SettingError("replay", f"found {short_repr(settings.replay)}: {error}") from None
    return None

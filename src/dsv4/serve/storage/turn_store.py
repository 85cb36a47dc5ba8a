"""Where turns are kept: under an owner, by any of their names, the oldest removed first. The
protocol of all stores, and the store in memory.

An owner is the name of an API key. A store never gives one owner what another has put there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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

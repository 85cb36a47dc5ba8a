"""A store of turns on another machine or disk, which may be away.

Whoever asks it then learns that, and is not told that there is nothing. What is to be kept
meanwhile waits in memory, as far as there is room, and goes there when the store is back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dsv4.serve.storage.store_watch import StoreWatch
from dsv4.serve.storage.stored_turns import MemoryTurnStore, StoreFailure, TurnStore

# What waits while the store is away: a few minutes of a busy gateway.
_MOST_WAITING = 20_000
_MOST_BYTES_WAITING = 64 * 1024 * 1024

_log = logging.getLogger("dsv4.serve")


class WatchedStore(TurnStore):
    """A store, and the watch that knows whether it is there."""

    def __init__(self, store: TurnStore, watch: StoreWatch) -> None:
        self._store = store
        self._watch = watch
        self._waiting = MemoryTurnStore(_MOST_WAITING, _MOST_BYTES_WAITING)

    @property
    def failure(self) -> str | None:
        """Why it is away; None where it is there."""
        return self._watch.failure

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        try:
            await self._watch.asked(lambda: self._store.put(owner, names, value))
            await self._waiting.delete(owner, names[0])
        except StoreFailure:
            await self._waiting.put(owner, names, value)

    async def get(self, owner: str, name: str) -> bytes | None:
        waiting = await self._waiting.get(owner, name)
        return waiting or await self._watch.asked(lambda: self._store.get(owner, name))

    async def delete(self, owner: str, name: str) -> bool:
        gone = await self._watch.asked(lambda: self._store.delete(owner, name))
        return await self._waiting.delete(owner, name) or gone

    async def size(self) -> int:
        return await self._watch.asked(self._store.size)

    async def bring_waiting(self) -> None:
        """Puts there what had to wait."""
        while (entry := self._waiting.oldest()) is not None:
            owner, names, value = entry
            await self._watch.asked(lambda: self._store.put(owner, names, value))  # noqa: B023
            await self._waiting.delete(owner, names[0])

    async def aclose(self) -> None:
        try:
            await self.bring_waiting()
        except StoreFailure as failure:
            if self._waiting.oldest() is not None:
                _log.error("%s: what was to be kept is lost: %s", self._watch.name, failure)
        await self._store.aclose()

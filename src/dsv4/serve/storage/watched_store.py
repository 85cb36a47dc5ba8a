"""What is on another machine or disk, and may be away: each change is logged once. And a store of
turns there.

Whoever asks it then learns that, and is not told that there is nothing. What is to be kept
meanwhile waits in memory, as far as there is room, and goes there when the store is back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dsv4.serve.storage.turn_stores import MemoryTurnStore, StoreFailure, TurnStore

# What has failed is not asked again for so long: an outage must not cost every request the time
# that it takes to notice one.
RETRY_SECONDS = 1.0
# What waits while the store is away: a few minutes of a busy gateway.
_MOST_WAITING = 20_000
_MOST_BYTES_WAITING = 64 * 1024 * 1024

T = TypeVar("T")
_log = logging.getLogger("dsv4.serve")


@dataclass(slots=True, eq=False)
class StoreWatch:
    """Asks a store, and knows whether it is there.

    `name` is what it is called in the log, with `meanwhile` behind it while it is away. `on_change`
    is called with whether it is there, each time that it was asked.
    """

    name: str
    on_change: Callable[[bool], None] = lambda is_up: None
    meanwhile: str = ""
    _failure: StoreFailure | None = None
    _retry_at: float = 0.0

    @property
    def failure(self) -> str | None:
        """Why it is away; None where it is there."""
        return None if self._failure is None else str(self._failure)

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """What it answers. Raises a `StoreFailure` where it does not."""
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
    """A store, and the watch that knows whether it is there."""

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
        """Puts there what had to wait."""
        while (entry := self._waiting.oldest()) is not None:
            owner, names, value = entry
            await self.watch.ask(lambda: self._store.put(owner, names, value))  # noqa: B023
            await self._waiting.delete(owner, names[0])

    async def aclose(self) -> None:
        try:
            await self.bring_waiting()
        except StoreFailure as failure:
            if self._waiting.oldest() is not None:
                _log.error("%s: what was to be kept is lost: %s", self.watch.name, failure)
        await self._store.aclose()

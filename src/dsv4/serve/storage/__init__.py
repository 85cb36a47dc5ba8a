"""The data that the gateway keeps between requests: sampled turns and stored responses. The stores,
by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from dsv4.serve.settings import Settings, without_password
from dsv4.serve.storage.stored_responses import StoredResponses
from dsv4.serve.storage.stored_turns import SampledTurns, read_seal
from dsv4.serve.storage.turn_stores import (
    MOST_TURNS,
    RETRY_SECONDS,
    MemoryTurnStore,
    SqliteTurnStore,
    StoreFailure,
    StoreWatch,
    TurnStore,
    WatchedStore,
)


def store_for(settings: Settings) -> TurnStore | None:
    """The store that the settings name. None where turns are not kept here."""
    kind, bounds = settings.replay_store, (MOST_TURNS, settings.replay_bytes)
    if kind == "memory":
        return MemoryTurnStore(*bounds)
    if kind == "sqlite":
        path = settings.replay.partition(":")[2]
        return SqliteTurnStore(path, *bounds)
    if kind in ("redis", "rediss"):
        from dsv4.serve.storage.redis_store import RedisTurnStore

        return RedisTurnStore(settings.replay, *bounds)
    return None


class ConversationStorage:
    """The stored data of conversations: sampled turns, and responses that clients continue by an
    id."""

    def __init__(self, settings: Settings, on_change: Callable[[bool], None]) -> None:
        """`on_change` is called after each access to the store, with whether it is there."""
        seal = read_seal(settings.seal_key_file) if settings.seal_key_file else None
        store = store_for(settings)
        self.watched: WatchedStore | None = None
        if store is not None and settings.replay_store != "memory":
            store = self.watched = WatchedStore(
                store, StoreWatch(f"replay ({without_password(settings.replay)})", on_change)
            )
        self.turns: SampledTurns = SampledTurns(store, seal)
        self.responses: StoredResponses = StoredResponses(self.turns.store)

    @property
    def failure(self) -> str | None:
        """The reason why the store cannot be used; None where it can."""
        return None if self.watched is None else self.watched.watch.failure

    async def look_after(self, on_size: Callable[[int], None]) -> None:
        """Reports the size of the store periodically, and notices whether it is there."""
        store = self.turns.store
        while store is not None:
            with suppress(StoreFailure):
                on_size(await store.size())
                if self.watched is not None:
                    await self.watched.bring_waiting()
            await asyncio.sleep(RETRY_SECONDS)

    async def aclose(self) -> None:
        if self.turns.store is not None:
            await self.turns.store.aclose()

"""What the gateway keeps from one request to the next: sampled turns, stored responses,
threads. The stores, by name.
"""

from __future__ import annotations

from dsv4.errors import short_repr
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.storage.stored_conversations import StoredResponses, StoredThreads
from dsv4.serve.storage.stored_turns import MemoryTurnStore, SampledTurns, TurnStore, read_seal


def store_for(settings: Settings) -> TurnStore | None:
    """The store that the settings name. None where turns are not kept here."""
    kind = settings.replay_store
    if kind == "memory":
        return MemoryTurnStore(settings.replay_entries, settings.replay_bytes)
    if kind == "sqlite":
        from dsv4.serve.storage.stored_turns import SqliteTurnStore

        path = settings.replay.partition(":")[2]
        return SqliteTurnStore(path, settings.replay_entries, settings.replay_bytes)
    if kind in ("redis", "rediss"):
        from dsv4.serve.storage.redis_store import RedisTurnStore

        try:
            return RedisTurnStore(settings.replay, settings.replay_entries, settings.replay_bytes)
        except ValueError as error:  # no URL of a server
            raise SettingError("replay", f"found {short_repr(settings.replay)}: {error}") from None
    return None


class ConversationStorage:
    """What is kept of conversations: sampled turns, and what clients continue by an id."""

    def __init__(self, settings: Settings) -> None:
        seal = read_seal(settings.seal_key_file) if settings.seal_key_file else None
        self.turns = SampledTurns(store_for(settings), seal)
        self.responses = StoredResponses(self.turns.store)
        self.threads = StoredThreads(self.turns.store)

    async def aclose(self) -> None:
        if self.turns.store is not None:
            await self.turns.store.aclose()

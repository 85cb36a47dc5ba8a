"""Where turns are kept: under an owner, by any of their names, oldest out first.

An owner is the name of an API key. A store never gives one owner what another has put there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dsv4.serve.settings import Settings


class Store(Protocol):
    """A bounded memory of values that have several names each."""

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        """Keeps a value. The first name is its own; the others lead to it too."""

    async def get(self, owner: str, name: str) -> bytes | None:
        """The value that was last put under a name. None if there is none, or no longer."""

    async def delete(self, owner: str, name: str) -> bool:
        """Forgets a value. Says whether it was there."""

    async def aclose(self) -> None:
        """Frees what the store holds."""


def store_for(settings: Settings) -> Store | None:
    """The store that the settings name. None where turns are not kept here."""
    kind = settings.replay_store
    if kind == "memory":
        from dsv4.serve.replay.memory import MemoryStore

        return MemoryStore(settings.replay_entries, settings.replay_bytes)
    if kind == "sqlite":
        from dsv4.serve.replay.sqlite import SqliteStore

        path = settings.replay.partition(":")[2]
        return SqliteStore(path, settings.replay_entries, settings.replay_bytes)
    if kind in ("redis", "rediss"):
        from dsv4.serve.replay.redis import RedisStore

        return RedisStore(settings.replay, settings.replay_entries, settings.replay_bytes)
    return None

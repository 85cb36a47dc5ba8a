"""The stores, by name."""

from __future__ import annotations

from dsv4.errors import short_repr
from dsv4.serve.replay.store import Store
from dsv4.serve.settings import SettingError, Settings


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

        try:
            return RedisStore(settings.replay, settings.replay_entries, settings.replay_bytes)
        except ValueError as error:  # no URL of a server
            raise SettingError("replay", f"found {short_repr(settings.replay)}: {error}") from None
    return None

"""Training sessions: the calls of an agent, recorded with their ids and log-probabilities.
The stores that keep them, by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, Union

from dsv4.serve.sessions.session_store import SqliteSessionStore
from dsv4.serve.settings import Settings
from dsv4.trajectories.session_file import Retention

if TYPE_CHECKING:
    from dsv4.serve.sessions.redis_sessions import RedisSessionStore

# A store of sessions: both classes have the same methods.
SessionStore: TypeAlias = Union[SqliteSessionStore, "RedisSessionStore"]


def session_store_for(settings: Settings) -> SessionStore | None:
    """The store that the settings name. None where sessions are not recorded."""
    place = settings.trajectories
    if place is None:
        return None
    seconds = settings.trajectory_days * 24 * 3600
    keep = Retention(settings.trajectory_bytes, seconds, settings.trajectory_idle)
    if place.startswith(("redis://", "rediss://")):
        from dsv4.serve.sessions.redis_sessions import RedisSessionStore

        return RedisSessionStore(place, keep)
    return SqliteSessionStore(place.removeprefix("sqlite:"), keep, settings.trajectory_writes)

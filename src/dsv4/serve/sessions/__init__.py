"""Training sessions: the calls of an agent, recorded with their ids and log-probabilities.
The stores that keep them, by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, Union

from dsv4.serve.sessions.session_store import SqliteSessionStore
from dsv4.serve.settings import SettingError, Settings
from dsv4.trajectories.session_file import Retention

if TYPE_CHECKING:
    from dsv4.serve.sessions.redis_sessions import RedisSessionStore

# Where sessions are recorded: both have the same methods.
SessionStore: TypeAlias = Union[SqliteSessionStore, "RedisSessionStore"]


def session_store_for(settings: Settings) -> SessionStore | None:
    """The store that the settings name. None where sessions are not recorded."""
    place = settings.trajectories
    if place is None:
        return None
    if place.startswith(("redis://", "rediss://")):
        from dsv4.serve.sessions.redis_sessions import RedisSessionStore

        try:
            return RedisSessionStore(place, _retention(settings))
        except ValueError as error:  # no URL of a server
            raise SettingError("trajectories", f"found {place!r}: {error}") from None
    durability = settings.trajectory_writes
    return SqliteSessionStore(place.removeprefix("sqlite:"), _retention(settings), durability)


def _retention(settings: Settings) -> Retention:
    """How much of the sessions is kept."""
    days = settings.trajectory_days * 24 * 3600
    return Retention(settings.trajectory_bytes, days, settings.trajectory_idle)

"""One timer for each stream: signs of life when nothing is sent, and an end to waiting.

A time-out around every read and every write would cost more than the read. So the stream notes
when something happened, and the timer looks now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dsv4.serve.settings import Settings

# How often the timer looks, in parts of the shortest time that it watches.
_PARTS = 4


class Watch:
    """Looks after one stream."""

    def __init__(
        self, settings: Settings, quiet: Callable[[], None], late: Callable[[str], None]
    ) -> None:
        """`quiet` is called when a sign of life is due, `late` with the setting that was passed."""
        self._settings = settings
        self._quiet = quiet
        self._late = late
        self._loop = asyncio.get_running_loop()
        self.began: float | None = None  # nothing is expected of the backend before it is asked
        self.heard_at = self.sent_at = self._loop.time()
        self.first_heard: float | None = None
        self.sending = False
        self.waits_for = "first_byte_timeout"
        shortest = min(
            settings.keep_alive,
            settings.first_byte_timeout,
            settings.idle_timeout,
            settings.total_timeout,
            settings.send_timeout,
        )
        self._step = max(shortest / _PARTS, 0.005)
        self._timer = self._loop.call_later(self._step, self._look)

    def begins(self) -> None:
        """The backend is asked."""
        if self.began is None:
            self.began = self.heard_at = self._loop.time()

    def heard(self) -> None:
        """The backend sent something."""
        self.heard_at = self._loop.time()
        if self.first_heard is None:
            self.first_heard = self.heard_at
            self.waits_for = "idle_timeout"

    def sent(self) -> None:
        """The client took something."""
        self.sending = False
        self.sent_at = self._loop.time()

    def sends(self) -> None:
        """Something is on its way to the client."""
        self.sending = True
        self.sent_at = self._loop.time()

    def _look(self) -> None:
        now, settings = self._loop.time(), self._settings
        if self.began is not None and now - self.began > settings.total_timeout:
            self._late("total_timeout")
        elif self.sending and now - self.sent_at > settings.send_timeout:
            self._late("send_timeout")
        elif self._is_silent(now):
            self._late(self.waits_for)
        elif not self.sending and now - self.sent_at >= settings.keep_alive:
            self._quiet()
        self._timer = self._loop.call_later(self._step, self._look)

    def _is_silent(self, now: float) -> bool:
        """Whether the backend has said nothing for too long.

        A client that reads slowly keeps the backend's text waiting: that is not its silence.
        """
        if self.began is None or self.sending:
            return False
        limit: float = getattr(self._settings, self.waits_for)
        return now - self.heard_at > limit

    def close(self) -> None:
        self._timer.cancel()

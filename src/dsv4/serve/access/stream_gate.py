"""Bounds on the streams that run at the same time, and on the requests that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dsv4.api import ApiError


class Busy(Exception):
    """No stream is free, and the queue is full."""


@dataclass(slots=True, eq=False)
class StreamGate:
    """Lets up to `streams` run at the same time; up to `queue` requests wait, first come first
    served. `on_change` is called with the numbers of running streams and waiting requests, each
    time that they change."""

    streams: int
    queue: int
    on_change: Callable[[int, int], None] = lambda *_: None
    running: int = 0
    # The turns of waiting requests, with their numbers of streams.
    _waiting: deque[tuple[asyncio.Event, int]] = field(default_factory=deque)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @contextmanager
    def place(self, streams: int = 1) -> Iterator[asyncio.Event]:
        """A place among the streams or in the queue; the event is set when its turn has come.

        Raises `Busy` if there is no place, and an `ApiError` if there never can be.
        """
        if streams > self.streams:
            expected = f"expected at most {self.streams}, which this server runs at once"
            raise ApiError(f"found {streams} completions, {expected}", path="n")
        turn = asyncio.Event()
        self._take(turn, streams)
        self.on_change(self.running, self.waiting)
        try:
            yield turn
        finally:
            self._leave(turn, streams)
            self.on_change(self.running, self.waiting)

    def _take(self, turn: asyncio.Event, streams: int) -> None:
        if not self._waiting and self.running + streams <= self.streams:
            self.running += streams
            turn.set()
        elif self.waiting < self.queue:
            self._waiting.append((turn, streams))
        else:
            raise Busy

    def _leave(self, turn: asyncio.Event, streams: int) -> None:
        if turn.is_set():
            self.running -= streams
        else:
            self._waiting.remove((turn, streams))
        # The request that has waited longest comes first, however many streams it takes.
        while self._waiting and self.running + self._waiting[0][1] <= self.streams:
            next_turn, count = self._waiting.popleft()
            self.running += count
            next_turn.set()

"""How much is served at once: a number of streams, and a bounded queue before them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Busy(Exception):
    """No stream is free, and the queue is full."""


class Gate:
    """Lets `streams` in at once; up to `queue` wait, first come first served."""

    def __init__(
        self, streams: int, queue: int, changed: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        """`changed` is called with how many run and how many wait, each time that changes."""
        self._streams = streams
        self._queue = queue
        self._changed = changed
        self._waiting: deque[asyncio.Event] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @contextmanager
    def place(self) -> Iterator[asyncio.Event]:
        """A place among the streams or in the queue, with the event that its turn has come.

        Raises `Busy` where there is none.
        """
        turn = asyncio.Event()
        self._take(turn)
        self._changed(self.running, self.waiting)
        try:
            yield turn
        finally:
            self._leave(turn)
            self._changed(self.running, self.waiting)

    def _take(self, turn: asyncio.Event) -> None:
        if self.running < self._streams:
            self.running += 1
            turn.set()
        elif self.waiting < self._queue:
            self._waiting.append(turn)
        else:
            raise Busy

    def _leave(self, turn: asyncio.Event) -> None:
        if not turn.is_set():
            self._waiting.remove(turn)
        elif self._waiting:
            self._waiting.popleft().set()  # a stream that is taken over goes on running
        else:
            self.running -= 1

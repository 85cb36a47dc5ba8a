"""How much is served at once: a number of streams, and a bounded queue before them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Busy(Exception):
    """No stream is free, and the queue is full."""


class Gate:
    """Lets `streams` in at once; up to `queue` wait, first come first served."""

    def __init__(self, streams: int, queue: int) -> None:
        self._free = streams
        self._queue = queue
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        if self._free and not self._waiting:
            self._free -= 1
        else:
            if len(self._waiting) >= self._queue:
                raise Busy
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()  # it was given a stream that nobody is there to take
                else:
                    self._waiting.remove(turn)
                raise
        self.running += 1

    def _leave(self) -> None:
        self.running -= 1
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

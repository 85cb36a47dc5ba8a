"""Work that takes long and generates nothing, done in threads, so that streams do not wait.

Such work is a request like others, so it takes one of the places for streams. When its client
disconnects, it is not begun, or stops at its next step.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

from dsv4.serve.access.stream_gate import StreamGate
from dsv4.serve.asgi import ClientGone, Receive, while_connected

# Python's threads share one core with the streams: more of them would only slow those down.
_THREADS = 2

T = TypeVar("T")


class Cancellation(threading.Event):
    """Whether work is to stop. The work itself checks this at each of its steps."""

    def checked(self, parts: Iterable[T]) -> Iterator[T]:
        """The parts, as long as the client waits for the result. Raises `ClientGone` after that."""
        for part in parts:
            if self.is_set():
                raise ClientGone
            yield part


Work: TypeAlias = Callable[[Cancellation], bytes]


class WorkerThreads:
    """A few threads, behind the gate that all requests pass."""

    def __init__(self, gate: StreamGate) -> None:
        self._gate = gate
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="dsv4-worker")
        self._running: set[Cancellation] = set()

    async def run(self, work: Work, receive: Receive) -> bytes:
        """The result of `work`. Raises `Busy` where there is no place, and `ClientGone`."""
        return await while_connected(self._run(work), receive)

    async def _run(self, work: Work) -> bytes:
        with self._gate.place() as turn:
            await turn.wait()
            cancellation = Cancellation()
            self._running.add(cancellation)
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._pool, work, cancellation)
            finally:
                cancellation.set()  # before the next request gets the place
                self._running.discard(cancellation)

    def close(self) -> None:
        """Stops the running work."""
        for cancellation in self._running:
            cancellation.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

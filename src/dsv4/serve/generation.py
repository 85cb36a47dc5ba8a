"""One request being answered: its completions generated, and passed on as they come.

The backend's pieces are collected by a task for each choice; whatever has come by the time the
client can take more goes out in one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from dsv4.parsing.events import Event
from dsv4.serve.backend import BackendError, Chunk
from dsv4.serve.settings import Settings
from dsv4.serve.watch import Watch

# How many pieces may wait for a client that reads slowly, before the backend is kept waiting.
_MOST_WAITING = 4096

Open = Callable[[], AsyncGenerator[Chunk, None]]
Passed = Callable[[list[tuple[int, Event]]], Awaitable[None]]


class ClientGone(Exception):
    """The client went away: there is nobody to answer."""


class Generation:
    """The completions of one request."""

    def __init__(self, settings: Settings, readers: Sequence[Any], open: Open) -> None:
        self._settings = settings
        self._readers = readers
        self._open = open
        self._pending: list[tuple[int, Chunk]] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._pumps: list[asyncio.Task[None]] = []
        self._running = len(readers)
        self._failure: Exception | None = None
        self._is_quiet = False
        self._has_begun = False  # something has gone to the client: it is too late to try again
        self.watch: Watch | None = None

    # Events from outside.

    def client_gone(self) -> None:
        """Frees the backend at once."""
        self._fail(ClientGone())

    def _late(self, setting: str) -> None:
        if setting == "send_timeout":
            self.client_gone()
        else:
            seconds = getattr(self._settings, setting)
            self._fail(BackendError(f"the backend took longer than {seconds:g} s ({setting})", 504))

    def _quiet(self) -> None:
        self._is_quiet = True
        self._wake.set()

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        for pump in self._pumps:
            pump.cancel()
        self._wake.set()

    # The run.

    async def run(self, passed: Passed, alive: Callable[[], Awaitable[None]]) -> None:
        """Generates to the end.

        `passed` gets the events that have come, with the choice each is of; `alive` is called when
        nothing has been passed for a while. Raises `BackendError` or `ClientGone`.
        """
        self.watch = Watch(self._settings, self._quiet, self._late)
        loop = asyncio.get_running_loop()
        self._pumps = [loop.create_task(self._pump(n)) for n in range(len(self._readers))]
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                events = self._taken()
                if self._failure is not None:
                    raise self._failure
                if events:
                    self._has_begun = True
                    await passed(events)
                elif self._is_quiet:
                    self._has_begun = True
                    await alive()
                self._is_quiet = False
                if not self._running and not self._pending:
                    break
            await passed([(n, e) for n, reader in enumerate(self._readers) for e in reader.end()])
        finally:
            self.watch.close()
            for pump in self._pumps:
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)

    def _taken(self) -> list[tuple[int, Event]]:
        """The events of all that has come."""
        taken, self._pending = self._pending, []
        self._room.set()
        events: list[tuple[int, Event]] = []
        for choice, chunk in taken:
            reader = self._readers[choice]
            events += [(choice, event) for event in reader.feed(chunk)]
            if reader.is_done:
                self._pumps[choice].cancel()
        return events

    async def _pump(self, choice: int) -> None:
        """Collects what the backend sends for one choice."""
        try:
            async with aclosing(self._tried()) as chunks:
                async for chunk in chunks:
                    if self.watch is not None:
                        self.watch.heard()
                    self._pending.append((choice, chunk))
                    self._wake.set()
                    if len(self._pending) > _MOST_WAITING:
                        self._room.clear()
                        await self._room.wait()
        except asyncio.CancelledError:
            pass  # nobody reads on
        except Exception as error:
            self._fail(error if isinstance(error, BackendError) else _fault(error))
        finally:
            self._running -= 1
            self._wake.set()

    async def _tried(self) -> AsyncGenerator[Chunk, None]:
        """The backend's pieces; tried again, with growing pauses, as long as nothing came."""
        for tries_left in range(self._settings.retries, -1, -1):
            try:
                async with aclosing(self._open()) as chunks:
                    async for chunk in chunks:
                        tries_left = 0
                        yield chunk
                return
            except BackendError as error:
                if not (tries_left and error.passes and not self._has_begun):
                    raise
            await asyncio.sleep(0.1 * 2 ** (self._settings.retries - tries_left))


def _fault(error: Exception) -> BackendError:
    return BackendError(f"the backend failed: {type(error).__name__}: {error}")

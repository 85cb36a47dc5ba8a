"""One request being answered: its completions generated, and passed on as they come.

A task for each choice reads what the backend sends and passes it on itself: a piece wakes nothing
else. While the client takes nothing, nothing is read; what has gathered meanwhile goes out in one
write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

from dsv4._parse.events import Event
from dsv4.serve.backend import BackendError, Chunks
from dsv4.serve.kept import joined
from dsv4.serve.settings import Settings
from dsv4.serve.watch import Watch

Open: TypeAlias = Callable[[], Chunks]
# Gets the index of a choice, and events of it.
Passed: TypeAlias = Callable[[int, list[Event]], Awaitable[None]]


class ClientGone(Exception):
    """The client went away: there is nobody to answer."""


class Generation:
    """The completions of one request."""

    def __init__(
        self, settings: Settings, readers: Sequence[Any], open: Open, turn: asyncio.Event
    ) -> None:
        """`open` asks the backend, for each of the `readers`, once its `turn` has come."""
        self._settings = settings
        self._readers = readers
        self._turn = turn
        self._open = open
        self._tasks: list[asyncio.Task[None]] = []
        self._running = len(readers)
        self._failure: Exception | None = None
        self._over = asyncio.get_running_loop().create_future()
        self._alive: Callable[[], Awaitable[None]] | None = None
        self._has_begun = False  # something has gone to the client: it is too late to try again
        self.watch = Watch(settings, self._quiet, self._late)

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
        if self._alive is not None and not self._over.done():
            self._has_begun = True
            self._tasks.append(asyncio.get_running_loop().create_task(self._tell()))

    async def _tell(self) -> None:
        """Gives a sign of life."""
        assert self._alive is not None
        try:
            await self._alive()
        except Exception as error:
            self._fail(error)
        finally:
            task = asyncio.current_task()
            self._tasks = [other for other in self._tasks if other is not task]

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._end()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    # The run.

    async def run(self, passed: Passed, alive: Callable[[], Awaitable[None]] | None) -> None:
        """Generates to the end.

        `passed` gets the events that have come; `alive` is called when nothing has been passed for
        a while. Raises `BackendError` or `ClientGone`.
        """
        self._alive = alive
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._pump(n, passed)) for n in range(len(self._readers))]
        try:
            await self._over
        finally:
            self.watch.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        for n, reader in enumerate(self._readers):
            await passed(n, reader.end())

    async def _pump(self, choice: int, passed: Passed) -> None:
        """Reads what the backend sends for one choice, and passes it on."""
        try:
            await self._turn.wait()
            self.watch.begins()
            await self._tried(choice, passed)
        except asyncio.CancelledError:
            return  # nobody reads on
        except Exception as error:
            self._fail(error)
            return
        self._running -= 1
        if not self._running:
            self._end()

    async def _tried(self, choice: int, passed: Passed) -> None:
        """Passes on what comes; tries again, with growing pauses, as long as nothing came."""
        for tries_left in range(self._settings.retries, -1, -1):
            try:
                await self._passed_on(choice, passed)
                return
            except BackendError as error:
                came = self._has_begun or self._readers[choice].first_at is not None
                if came or not (tries_left and error.passes):
                    raise
            await asyncio.sleep(0.1 * 2 ** (self._settings.retries - tries_left))

    async def _passed_on(self, choice: int, passed: Passed) -> None:
        """Passes on what the backend sends, to its end.

        Every token of every stream goes through this loop, and all streams of a worker share its
        time. So nothing stands around it that would be woken for each token: no iterator over
        another one, no time-out, no task.
        """
        reader, heard = self._readers[choice], self.watch.heard
        gathered: list[Event] = []
        async with aclosing(self._opened()) as chunks:
            following = chunks.__anext__
            while True:
                try:
                    chunk = await following()
                    heard()
                    events: list[Event] = reader.feed(chunk)
                except StopAsyncIteration:
                    return
                except BackendError:
                    raise
                except Exception as error:  # ids that are none, or whatever an engine raises
                    raise _fault(error) from error
                if chunk.more:
                    gathered += events
                    continue
                if gathered:
                    events, gathered = [*gathered, *events], []
                    events = joined(events) if reader.joins else events
                if events:
                    self._has_begun = True
                    await passed(choice, events)
                if reader.is_done:
                    return

    def _opened(self) -> Chunks:
        try:
            return self._open()
        except Exception as error:
            raise _fault(error) from error


def _fault(error: Exception) -> BackendError:
    return BackendError(f"the backend failed: {type(error).__name__}: {error}")

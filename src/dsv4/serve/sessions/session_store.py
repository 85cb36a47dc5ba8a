"""Sessions in a SQLite file, which the workers of one machine share."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from dsv4.serve.storage.turn_stores import StoreFailure, opened_in_thread
from dsv4.trajectories.recorded_calls import RecordedCall, WeightsVersion
from dsv4.trajectories.session_file import Retention, SessionFile, SessionRecord

# The interval at which the store looks for sessions that are idle, too old or too many.
SWEEP_SECONDS = 30.0


T = TypeVar("T")
P = ParamSpec("P")


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """Some work to be done with the file, and the future that waits for it."""

    work: Callable[[SessionFile], T]
    future: asyncio.Future[T]
    to_disk: bool
    result: T | None = None
    failure: Exception | None = None

    def tell(self) -> None:
        if self.future.cancelled():
            return
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


def _in_file(
    method: Callable[Concatenate[SessionFile, P], T], *, to_disk: bool = False
) -> Callable[Concatenate[SqliteSessionStore, P], Awaitable[T]]:
    """A method of the file as a method of the store. With `to_disk`, it returns once the data is on
    the disk."""

    def do(store: SqliteSessionStore, /, *args: P.args, **keywords: P.kwargs) -> Awaitable[T]:
        return store._do(lambda file: method(file, *args, **keywords), to_disk)

    return do


class SqliteSessionStore:
    """A SQLite file, used in one thread of its own. Jobs that wait while the disk is busy are
    written together, so that five hundred streams that end together wait for the disk once.

    Every method may raise `StoreFailure`, and `SessionRefused` where no session allows it. `waits`
    says whether the end of an answer waits for its record.
    """

    def __init__(self, path: str, keep: Retention, durability: str = "disk") -> None:
        """`durability` is the state of a record that the end of an answer waits for: "disk",
        "system" or "nothing"."""
        self.waits: bool = durability != "nothing"
        self._path = path
        self._keep = keep
        self._durability = durability
        self._lock = threading.Lock()
        self._waiting: list[_Job[Any]] = []
        self._is_busy = False
        self._next_sweep = time.monotonic() + SWEEP_SECONDS
        self._thread, self._file = opened_in_thread("trajectories", SessionFile, path)

    # In the event loop.

    def _do(self, work: Callable[[SessionFile], T], to_disk: bool = False) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append(_Job(work, future, to_disk))
            begins, self._is_busy = not self._is_busy, True
        if begins:
            self._thread.submit(self._work, asyncio.get_running_loop())
        return future

    # In the thread.

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._lock:
                jobs, self._waiting = self._waiting, []
                if not jobs:
                    self._is_busy = False
                    return
            self._run(jobs)
            loop.call_soon_threadsafe(_tell_all, jobs)

    def _run(self, jobs: list[_Job[Any]]) -> None:
        try:
            with self._file.batch(to_disk=any(job.to_disk for job in jobs)):
                for job in jobs:
                    self._run_one(job)
        except sqlite3.Error as error:
            for job in jobs:
                job.failure = job.failure or StoreFailure(str(error))

    def _run_one(self, job: _Job[Any]) -> None:
        try:
            with self._file.step():
                job.result = job.work(self._file)
        except sqlite3.Error:
            raise  # the whole batch is unreliable
        except Exception as error:
            job.failure = error

    # Operations.

    async def enter(
        self, id: str, owner: str, calls: Sequence[str]
    ) -> tuple[SessionRecord, WeightsVersion]:
        """Begins calls in a session, which is created if there is none. Returns the session as it
        was before, and the version of the weights."""
        if time.monotonic() > self._next_sweep:
            self._next_sweep = time.monotonic() + SWEEP_SECONDS
            self._do(lambda file: file.sweep(self._keep))
        return await self._do(lambda file: file.enter(id, owner, calls, self._keep))

    async def finish(self, id: str, calls: Sequence[RecordedCall]) -> None:
        """Keeps calls that have ended, with their whole prompts. Returns when they are safe."""

        def work(file: SessionFile) -> None:
            for call in calls:
                file.finish(id, call)

        await self._do(work, self._durability == "disk")

    async def calls(self, id: str) -> list[RecordedCall]:
        """The calls of a session, in the order in which they began."""

        # In another thread, with a connection of its own, so that no writing waits for it.
        def read() -> list[RecordedCall]:
            with closing(SessionFile(self._path, read_only=True)) as file:
                return list(file.calls(id))

        try:
            return await asyncio.to_thread(read)
        except (OSError, sqlite3.Error) as error:
            raise StoreFailure(str(error)) from None

    # Operations of the file.

    abandon = _in_file(SessionFile.abandon)
    undelivered = _in_file(SessionFile.undelivered)
    incomplete = _in_file(SessionFile.incomplete)
    session = _in_file(SessionFile.session)
    sessions = _in_file(SessionFile.sessions)
    picture = _in_file(SessionFile.picture)
    create = _in_file(SessionFile.create, to_disk=True)
    update = _in_file(SessionFile.update, to_disk=True)
    close_session = _in_file(SessionFile.close_session, to_disk=True)
    delete = _in_file(SessionFile.delete, to_disk=True)
    set_weights = _in_file(SessionFile.set_weights, to_disk=True)

    async def aclose(self) -> None:
        """Frees the store's resources."""
        await self._do(lambda file: None)  # after all waiting jobs
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
        self._thread.shutdown()


def _tell_all(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        job.tell()

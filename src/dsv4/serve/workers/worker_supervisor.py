"""The worker processes, and their supervisor.

It starts them, replaces those that end or hang, passes signals on, and logs which ones it ended and
why.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TypeAlias

import uvicorn

from dsv4.serve.settings import Settings

# The status of a worker that cannot start; uvicorn uses it for an app that fails at its start.
CANNOT_START = 3
# The action of a running server for each signal, by name, because not every system has all of them.
REQUESTS = {"SIGHUP": "reload", "SIGUSR1": "summarize", "SIGUSR2": "retire"}
# In seconds: the interval for checks on workers, and the one for their reports.
_TICK = 0.1
_SAY_EVERY = 1.0
# On a busy machine it takes long until Python has loaded everything.
_TO_START = 120.0
# A worker that could not start, while others serve, is tried again after so many seconds.
_PAUSE = 10.0
# A worker ends its streams within its own time limit; one that does not is ended.
_GRACE = 15.0

_log = logging.getLogger("dsv4.serve")
_spawn = multiprocessing.get_context("spawn")


# The work of a worker. It calls the given function with its server before that runs. SIGUSR2 makes
# it leave new connections to others, and end once its streams are done.
Work: TypeAlias = Callable[[Callable[[uvicorn.Server], None]], None]


def request_signals() -> Iterable[signal.Signals]:
    """The signals of `REQUESTS` that this system has."""
    return [getattr(signal, name) for name in REQUESTS if hasattr(signal, name)]


@contextmanager
def requests_held() -> Iterator[None]:
    """Blocks the signals of `REQUESTS`, here and in processes that are started meanwhile, until
    they are taken: an early signal must not end a process."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, request_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_requests() -> None:
    """Unblocks the signals of `REQUESTS`."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, request_signals())


class WorkerProcess:
    """A worker, as its supervisor sees it."""

    def __init__(self, work: Work) -> None:
        self._news, theirs = _spawn.Pipe(duplex=False)
        self._process = _spawn.Process(target=_work, args=(work, theirs), name="dsv4-worker")
        with requests_held():
            self._process.start()
        theirs.close()
        self._heard_at = time.monotonic()
        self.is_ready = False

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def status(self) -> int | None:
        """Its exit status; None as long as it runs."""
        return self._process.exitcode

    def silent_for(self) -> float:
        """The seconds since its last report. It never blocks, because there are other workers to
        look after."""
        with suppress(OSError, EOFError):  # it is about to end
            while self._news.poll():
                was_ready, self.is_ready = self.is_ready, self._news.recv()
                self._heard_at = time.monotonic()
                if self.is_ready and not was_ready:
                    _log.info("worker %s serves", self.pid)
        return time.monotonic() - self._heard_at

    def signal(self, name: str) -> None:
        if self._process.is_alive() and self.pid is not None:
            os.kill(self.pid, getattr(signal, name))

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _work(work: Work, news: Connection) -> None:
    """Runs a worker. A terminal sends an interrupt to all processes together: only the supervisor
    handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, lambda *_: signal.raise_signal(signal.SIGTERM))

    def watch(server: uvicorn.Server) -> None:
        saying = threading.Thread(target=_say_whether_it_serves, args=(server, news), daemon=True)
        saying.start()

    work(watch)


def _say_whether_it_serves(server: uvicorn.Server, news: Connection) -> None:
    """Reports to the supervisor periodically. Without a supervisor nothing could end the worker, so
    it ends itself."""
    with suppress(OSError):
        while True:
            news.send(server.started)
            time.sleep(_SAY_EVERY if server.started else _TICK)
    _log.warning("worker %s has lost its supervisor: it ends", os.getpid())
    os.kill(os.getpid(), signal.SIGTERM)


class Supervisor:
    """The process that looks after the workers."""

    def __init__(self, settings: Settings, work: Work, summarize: Callable[[], None]) -> None:
        """`summarize` logs what all workers have counted."""
        self._settings = settings
        self._work = work
        self._summarize = summarize
        self._workers: list[WorkerProcess] = []
        # A worker that is about to replace another, and those that end their streams.
        self._others: list[WorkerProcess] = []
        self._restart: Iterator[None] = iter(())
        self._signals: list[int] = []
        self._is_stopping = self._must_kill = False
        self._not_before = 0.0
        self.cannot_start = False

    def run(self) -> None:
        """Serves until a signal ends it."""
        for name in _HANDLERS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda sig, _: self._signals.append(sig))
        take_requests()
        self._workers = [WorkerProcess(self._work) for _ in range(self._settings.workers)]
        while not self._is_stopping:
            time.sleep(_TICK)
            self._handle_signals()
            self._look_after_workers()
            next(self._restart, None)
        self._end_all()

    def _handle_signals(self) -> None:
        while self._signals:
            _HANDLERS[signal.Signals(self._signals.pop(0)).name](self)

    # Actions for signals.

    def _stop_soon(self) -> None:
        self._must_kill = self._is_stopping
        self._is_stopping = True

    def _reload(self) -> None:
        for worker in (*self._workers, *self._others):
            worker.signal("SIGHUP")

    def _tell(self) -> None:
        for worker in self._workers:
            worker.signal("SIGUSR1")
        self._summarize()

    def _begin_restart(self) -> None:
        self._restart = self._restarted()
        _log.info("workers are restarted, one after the other")

    def _restarted(self) -> Iterator[None]:
        """Replaces the workers one after the other; it yields wherever it has to wait."""
        for n in range(len(self._workers)):
            new, until = WorkerProcess(self._work), time.monotonic() + _TO_START
            self._others.append(new)
            while not new.is_ready:
                if not new.is_alive or time.monotonic() > until:
                    why = "was not ready in time" if new.is_alive else "could not start"
                    new.kill()
                    _log.error("worker %s %s: the workers stay as they are", new.pid, why)
                    return
                yield
                new.silent_for()
            old, self._workers[n] = self._workers[n], new
            self._others[self._others.index(new)] = old
            old.signal("SIGUSR2")
            _log.info("worker %s takes the place of %s, whose streams end", new.pid, old.pid)
            while old.is_alive:
                yield

    # Continuous work.

    def _look_after_workers(self) -> None:
        self._others = [worker for worker in self._others if worker.is_alive]
        for n, worker in enumerate(self._workers):
            silence = worker.silent_for()
            if not worker.is_alive:
                self._take_place(n, f"worker {worker.pid} ended with status {worker.status}")
            elif silence > (self._settings.worker_timeout if worker.is_ready else _TO_START):
                worker.kill()
                event = f"worker {worker.pid} is killed: it gave no answer for {silence:.0f} s"
                self._take_place(n, event)

    def _take_place(self, n: int, event: str) -> None:
        """Replaces a worker that has ended. If no worker can start, the server cannot either; if
        others serve, the next one may be able to after a while."""
        if self._workers[n].status == CANNOT_START:
            if not any(worker.is_ready for worker in self._workers if worker.is_alive):
                self.cannot_start = self._is_stopping = True
                return
            if time.monotonic() < self._not_before:
                return
            self._not_before = time.monotonic() + _PAUSE
        self._workers[n] = WorkerProcess(self._work)
        _log.warning("%s; worker %s takes its place", event, self._workers[n].pid)

    # The end.

    def _end_all(self) -> None:
        workers = [*self._workers, *self._others]
        for worker in workers:
            worker.signal("SIGTERM" if sys.platform != "win32" else "CTRL_BREAK_EVENT")
        until = time.monotonic() + self._settings.drain_timeout + _GRACE
        while any(worker.is_alive for worker in workers):
            self._handle_signals()
            if self._must_kill or time.monotonic() > until:
                self._kill_all(workers)
            time.sleep(_TICK / 2)

    def _kill_all(self, workers: list[WorkerProcess]) -> None:
        for worker in workers:
            if worker.is_alive:
                why = "a second signal" if self._must_kill else "its streams did not end"
                _log.warning("worker %s is killed: %s", worker.pid, why)
                worker.kill()


# Actions for signals.
_HANDLERS = {
    **dict.fromkeys(("SIGTERM", "SIGINT", "SIGBREAK"), Supervisor._stop_soon),
    "SIGHUP": Supervisor._reload,
    "SIGUSR1": Supervisor._tell,
    "SIGUSR2": Supervisor._begin_restart,
}

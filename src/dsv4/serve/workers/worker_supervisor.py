"""The worker processes, and the one that looks after them.

It starts them, replaces those that end or hang, passes signals on, and says whom it ended and why.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeAlias

import uvicorn

from dsv4.serve.settings import Settings

# What a worker ends with that cannot start, as uvicorn does where an app fails at its start.
CANNOT_START = 3
# How often workers are looked at, and say whether they serve, in seconds.
_TICK = 0.1
_SAY_EVERY = 1.0
# On a busy machine it takes long until Python has read everything.
_TO_START = 120.0
# One that could not start, while others serve, is tried again after so many seconds.
_PAUSE = 10.0
# A worker ends its streams within its own time; one that does not is ended.
_GRACE = 15.0

_log = logging.getLogger("dsv4.serve")
_spawn = multiprocessing.get_context("spawn")


# Makes the server of a worker, in the worker. SIGUSR2 lets it leave new connections to others, and
# end once its streams are done.
MakeServer: TypeAlias = Callable[[uvicorn.Config], uvicorn.Server]


class WorkerProcess:
    """A worker, as its supervisor sees it."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], make: MakeServer
    ) -> None:
        self._news, theirs = _spawn.Pipe(duplex=False)
        arguments = (config, sockets, make, theirs)
        self._process = _spawn.Process(target=_work, args=arguments, name="dsv4-worker")
        self._process.start()
        theirs.close()
        self._heard_at = time.monotonic()
        self._missed_reload = False
        self.is_ready = False

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def status(self) -> int | None:
        """What it ended with; None as long as it runs."""
        return self._process.exitcode

    def silent_for(self) -> float:
        """For how many seconds it has said nothing. It is never waited for: meanwhile there are
        others to look after."""
        with suppress(OSError, EOFError):  # it is about to end
            while self._news.poll():
                self._note(self._news.recv())
        if self.is_ready and self._missed_reload:
            self._missed_reload = False
            self.signal("SIGHUP")
        return time.monotonic() - self._heard_at

    def _note(self, is_ready: bool) -> None:
        if is_ready and not self.is_ready:
            _log.info("worker %s serves", self.pid)
        self.is_ready, self._heard_at = is_ready, time.monotonic()

    def tell_to_reload(self) -> None:
        """Passes SIGHUP on: as soon as it can be taken, for one that is starting."""
        if self.is_ready:
            self.signal("SIGHUP")
        else:
            self._missed_reload = True

    def signal(self, name: str) -> None:
        if self._process.is_alive() and self.pid is not None:
            os.kill(self.pid, getattr(signal, name))

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _work(
    config: uvicorn.Config, sockets: list[socket.socket], make: MakeServer, theirs: Connection
) -> None:
    """What a worker does. A terminal sends an interrupt to all processes at once: it is the
    supervisor's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, lambda *_: signal.raise_signal(signal.SIGTERM))
    server = make(config)
    threading.Thread(target=_say_whether_it_serves, args=(server, theirs), daemon=True).start()
    server.run(sockets)


def _say_whether_it_serves(server: uvicorn.Server, news: Connection) -> None:
    """Tells the supervisor, again and again. Without one nobody could end the worker, so it ends
    itself."""
    with suppress(OSError):
        while True:
            news.send(server.started)
            time.sleep(_SAY_EVERY if server.started else _TICK)
    _log.warning("worker %s has lost its supervisor: it ends", os.getpid())
    os.kill(os.getpid(), signal.SIGTERM)


class _Replacement(NamedTuple):
    """A worker that is to take another's place when it is ready."""

    old: WorkerProcess
    new: WorkerProcess
    until: float


@dataclass(slots=True, eq=False)
class Supervisor:
    """The process that looks after the workers. `summarize` logs what all workers have counted."""

    config: uvicorn.Config
    sockets: list[socket.socket]
    make: MakeServer
    settings: Settings
    summarize: Callable[[], None]
    cannot_start: bool = False
    _workers: list[WorkerProcess] = field(default_factory=list)
    _retiring: list[WorkerProcess] = field(default_factory=list)
    _to_replace: list[WorkerProcess] = field(default_factory=list)
    _replacement: _Replacement | None = None
    _signals: list[int] = field(default_factory=list)
    _is_stopping: bool = False
    _must_kill: bool = False
    _not_before: float = 0.0

    def run(self) -> None:
        """Serves until a signal ends it."""
        for name in _HANDLERS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda sig, _: self._signals.append(sig))
        self._workers = [self._start() for _ in range(self.config.workers)]
        while not self._is_stopping:
            time.sleep(_TICK)
            self._handle_signals()
            self._look_after_workers()
            self._go_on_replacing()
        self._end_all()

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self.config, self.sockets, self.make)

    def _handle_signals(self) -> None:
        while self._signals:
            _HANDLERS[signal.Signals(self._signals.pop(0)).name](self)

    # What signals ask for.

    def _stop_soon(self) -> None:
        self._must_kill = self._is_stopping
        self._is_stopping = True

    def _reload(self) -> None:
        for worker in self._all():
            worker.tell_to_reload()

    def _tell(self) -> None:
        for worker in self._workers:
            if worker.is_ready:
                worker.signal("SIGUSR1")
        self.summarize()

    def _restart(self) -> None:
        self._to_replace = list(self._workers)
        _log.info("workers are restarted, one after the other")

    # What is done all the time.

    def _all(self) -> list[WorkerProcess]:
        new = [self._replacement.new] if self._replacement is not None else []
        return [*self._workers, *new]

    def _look_after_workers(self) -> None:
        self._retiring = [worker for worker in self._retiring if worker.is_alive]
        for n, worker in enumerate(self._workers):
            silence = worker.silent_for()
            if not worker.is_alive:
                self._take_place(n, f"worker {worker.pid} ended with status {worker.status}")
            elif silence > (self.settings.worker_timeout if worker.is_ready else _TO_START):
                worker.kill()
                event = f"worker {worker.pid} is killed: it gave no answer for {silence:.0f} s"
                self._take_place(n, event)

    def _take_place(self, n: int, event: str) -> None:
        """Replaces a worker that has ended. Where none can start, the server cannot; where others
        serve, the next may be able to in a while."""
        if self._workers[n].status == CANNOT_START:
            if not any(worker.is_ready for worker in self._workers if worker.is_alive):
                self.cannot_start = self._is_stopping = True
                return
            if time.monotonic() < self._not_before:
                return
            self._not_before = time.monotonic() + _PAUSE
        self._workers[n] = self._start()
        _log.warning("%s; worker %s takes its place", event, self._workers[n].pid)

    def _go_on_replacing(self) -> None:
        if self._replacement is not None:
            self._finish_replacing(*self._replacement)
        elif self._to_replace and not self._retiring:
            old = self._to_replace.pop(0)
            if old in self._workers:
                until = time.monotonic() + _TO_START
                self._replacement = _Replacement(old, self._start(), until)

    def _finish_replacing(self, old: WorkerProcess, new: WorkerProcess, until: float) -> None:
        new.silent_for()
        if new.is_ready and old in self._workers:
            self._workers[self._workers.index(old)] = new
            self._retiring.append(old)
            old.signal("SIGUSR2")
            _log.info("worker %s takes the place of %s, whose streams end", new.pid, old.pid)
        elif not new.is_ready and new.is_alive and time.monotonic() < until:
            return
        else:
            why = "was not ready in time" if new.is_alive else "could not start"
            new.kill()
            self._to_replace = []
            _log.error("worker %s %s: the workers stay as they are", new.pid, why)
        self._replacement = None

    # The end.

    def _end_all(self) -> None:
        workers = [*self._all(), *self._retiring]
        for worker in workers:
            worker.signal("SIGTERM" if sys.platform != "win32" else "CTRL_BREAK_EVENT")
        until = time.monotonic() + self.settings.drain_timeout + _GRACE
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


# What signals ask for.
_HANDLERS = {
    **dict.fromkeys(("SIGTERM", "SIGINT", "SIGBREAK"), Supervisor._stop_soon),
    "SIGHUP": Supervisor._reload,
    "SIGUSR1": Supervisor._tell,
    "SIGUSR2": Supervisor._restart,
}

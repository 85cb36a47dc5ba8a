"""The app under uvicorn: sockets, signals, worker processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from dsv4.errors import Error
from dsv4.serve import app
from dsv4.serve.backend import BackendError, is_chat
from dsv4.serve.banner import ServerSummary, banner_text
from dsv4.serve.observe.metrics import count_together, forget_dead_workers
from dsv4.serve.server import GatewayState
from dsv4.serve.settings import SettingError, Settings, load, to_environ


class BoundedProtocol(HttpToolsProtocol):
    """HTTP with bounds on what comes before the app is asked: the size of a head, and its time."""

    # Set for the process before it serves.
    max_header = 64 * 1024
    head_timeout = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_size = 0
        self._head_timer = self.loop.call_later(self.head_timeout, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._head_size = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        # The app refuses what is over the bound, in its protocol's words; what is far over it does
        # not even get there.
        if self._head_size > 16 * self.max_header:
            self.transport.close()
            return
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_timer.cancel()
        super().on_headers_complete()

    def _too_slow(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


class _UvicornServer(uvicorn.Server):
    """A server that a second signal of any kind stops immediately."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)


# What a worker ends with that cannot start, as uvicorn does where an app fails at its start.
_CANNOT_START = 3


class _Workers(Multiprocess):
    """Worker processes. A second signal stops them immediately; one that ends is replaced, unless
    it could not even start: the next could not either."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], say: Callable[[str], None]
    ) -> None:
        super().__init__(config, sockets)
        self._say = say
        self.cannot_start = False

    def keep_subprocess_alive(self) -> None:
        for n, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if not process.is_alive():
                process.kill()
                process.join()
                self._replace(n, process.process.exitcode)

    def _replace(self, n: int, status: int | None) -> None:
        if status == _CANNOT_START:
            self.cannot_start = True
            self.should_exit.set()
            return
        self._say(f"a worker ended with status {status}; another takes its place")
        self.processes[n] = Process(self.config, self.sockets)
        self.processes[n].start()

    def join_all(self) -> None:
        self.signal_queue.clear()
        while any(process.process.is_alive() for process in self.processes):
            if any(sig in self.signal_queue for sig in (signal.SIGTERM, signal.SIGINT)):
                for process in self.processes:
                    process.process.kill()
            time.sleep(0.05)
        super().join_all()


def serve(
    settings: Settings,
    say: Callable[[str], None],
    listens: Callable[[str], None] = lambda url: None,
) -> int:
    """Serves until a signal ends it. `say` gets what is to be printed at the start.

    `listens` is called with the server's URL once connections are accepted.
    """
    made = app(settings)  # so that what is wrong with the settings is said before anything is bound
    listening = _bound_socket(settings)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    try:
        say(_startup_banner(made.state.server, url))
    except SettingError:
        listening.close()
        raise
    listens(url)
    _limit_headers(settings)
    calm_collector()
    config = uvicorn.Config(
        made if settings.workers == 1 else "dsv4.serve.uvicorn_runner:app_of_environment",
        factory=settings.workers > 1,
        http=BoundedProtocol,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        ws="none",
        log_level=settings.log_level if settings.log_level != "info" else "warning",
        access_log=settings.log_level == "debug",
        server_header=False,
        timeout_graceful_shutdown=int(settings.drain_timeout) or None,
        timeout_keep_alive=75,
        workers=settings.workers,
        backlog=2048,
    )
    if settings.workers > 1:
        os.environ.update(to_environ(settings))
        with count_together():
            _show_metrics(made.state.server)
            workers = _Workers(config, [listening], say)
            workers.run()
        if workers.cannot_start:
            raise SettingError("workers", "found one that cannot start, for the reason above")
        return 0
    _show_metrics(made.state.server)
    _UvicornServer(config).run(sockets=[listening])
    return 0


# After how many new objects Python looks for cycles among them, after how many looks at the last
# ones again, and after how many of those at everything. Ten thousand objects take milliseconds,
# which no stream notices; everything is hundreds of thousands.
_GC_THRESHOLDS = (2_000, 5, 500)


def calm_collector() -> None:
    """Lets the search for cycles pass over what is there from the start, and come less often.

    As Python sets it up, a worker with hundreds of streams spends a twelfth of its time on it, and
    a look at everything in memory makes all streams wait for a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _limit_headers(settings: Settings) -> None:
    BoundedProtocol.max_header = settings.max_header
    BoundedProtocol.head_timeout = settings.body_timeout


def _show_metrics(server: GatewayState) -> None:
    if server.settings.metrics_port is not None:
        server.metrics.listen(server.settings.host, server.settings.metrics_port)


def app_of_environment() -> Any:
    """The app of a worker process, which gets its settings by the environment."""
    try:
        settings = load({})
        _limit_headers(settings)
        forget_dead_workers()
        made = app(settings)
        calm_collector()
        return made
    except Exception as error:
        reason = error if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        print(f"a worker cannot start: {reason}", file=sys.stderr)
        sys.exit(_CANNOT_START)


def _bound_socket(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        place = f"{settings.host}:{settings.port}"
        raise SettingError("port", f"cannot listen on {place}: {error.strerror or error}") from None
    listening.set_inheritable(True)
    return listening


def _startup_banner(server: GatewayState, url: str) -> str:
    """What is known of the server, with the backend asked if it answers."""
    notes = []
    try:
        asyncio.run(_meet_backend(server))
    except BackendError as error:
        notes.append(f"{error.message}; it is asked again with the first request")
    if server.guesses_dialect:
        raise SettingError("dialect", server.dialect_problem)
    if server.dialect_problem:
        notes.append(f"{server.dialect_problem}; {server.dialect} is assumed")
    if server.prompt_facts.note:
        notes.append(server.prompt_facts.note)
    if server.grammar_note:
        notes.append(server.grammar_note)
    if server.vocabulary_problem and not is_chat(server.backend):
        notes.append(f"no request can be answered: {server.vocabulary_problem}")
    if server.settings.workers > 1 and server.settings.replay == "memory":
        notes.append("each worker remembers its own turns: --replay sqlite:PATH is shared by all")
    summary = ServerSummary(
        url=url,
        model=server.model.name,
        dialect=str(server.dialect),
        context=server.context,
        keys=len(server.keys),
        ids=server.tokenizer is not None,
        facts=server.prompt_facts,
        adapted_to="nothing" if server.adapter is None else server.adapter.server.title,
        notes=tuple(notes),
    )
    return banner_text(server.settings, summary)


async def _meet_backend(server: GatewayState) -> None:
    try:
        await server.meet_backend()
    finally:
        await server.backend.aclose()  # its connections belong to the loop that ends here

"""The app under uvicorn: sockets, certificates, signals, worker processes."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from dsv4.errors import Error
from dsv4.serve import app
from dsv4.serve.access.api_keys import refuse_open_file
from dsv4.serve.asgi import MOST_HEADERS, WRITE_NOW
from dsv4.serve.backend import BackendError
from dsv4.serve.backend_watch import images_in_words
from dsv4.serve.banner import ServerSummary, banner_text
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.logs import configure_logs, logger
from dsv4.serve.observe.metrics import count_together, forget_dead_workers
from dsv4.serve.observe.tracing import export_traces
from dsv4.serve.settings import SettingError, Settings, without_password
from dsv4.serve.upstreams.network_path import proxy_of
from dsv4.serve.workers.reload import check_models, reload
from dsv4.serve.workers.worker_supervisor import (
    CANNOT_START,
    REQUESTS,
    Supervisor,
    request_signals,
    requests_held,
    take_requests,
)


def check_certificate(settings: Settings) -> None:
    """Raises a `SettingError` for a certificate that cannot be used: one that does not fit its key,
    or a key with a password, for which a server cannot ask."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    refuse_open_file("tls_key", settings.tls_key, settings)
    use_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)


def use_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """Makes new connections use the current certificate. Raises a `SettingError`."""
    assert settings.tls_cert is not None
    files = f"{settings.tls_cert}, {settings.tls_key}"
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: "")
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        expected = "expected a certificate and its own key, both as PEM and without a password"
        raise SettingError("tls_cert", f"{files}: {reason}, {expected}") from None
    except OSError as error:
        raise SettingError("tls_cert", f"{files}: {error.strerror or error}") from None


class BoundedProtocol(HttpToolsProtocol):
    """HTTP with bounds on the part before the app is called: the size of a head, and its time."""

    # Set for the process before it serves.
    max_header = 64 * 1024
    head_timeout: float = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_size = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Every head has a time limit, from its first byte on; also on a connection that is used
        # again.
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head_size = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # The app refuses a request over a bound, as its protocol writes errors, and needs no
        # further headers.
        if self._head_size <= self.max_header and len(self.headers) <= MOST_HEADERS:
            super().on_header(name, value)
        self._head_size += len(name) + len(value)
        if self._head_size > 16 * self.max_header:
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._forget_head()
        super().on_headers_complete()
        if self.cycle is not None:
            # The app is called in the next turn of the loop.
            self.scope[WRITE_NOW] = _DirectWriter(self.cycle).write  # type: ignore[literal-required]
            if self.scope["http_version"] == "1.0":  # no chunks: the body ends with the connection
                self.cycle.chunked_encoding = False
                self.cycle.expected_content_length = _AnyLength()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_timeout, self.transport.close)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _AnyLength(int):
    """Stands for the rest of a body in uvicorn, however long that is."""

    def __lt__(self, other: object) -> bool:
        return False

    def __sub__(self, other: object) -> _AnyLength:
        return self


class _DirectWriter:
    """Writes pieces of a response that has begun, as uvicorn does, but without a coroutine."""

    __slots__ = ("_cycle", "_flow", "_write")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._flow = cycle.flow
        self._write = cycle.transport.write

    def write(self, data: bytes) -> bool:
        cycle = self._cycle
        if self._flow.write_paused or cycle.disconnected or cycle.response_complete:
            return False
        if not cycle.chunked_encoding:  # also False before the response begins
            return False
        size = len(data)
        head = _CHUNK_HEADS[size] if size < len(_CHUNK_HEADS) else b"%x\r\n" % size
        self._write(b"".join((head, data, b"\r\n")))
        return True


# The heads of chunks of so many bytes, because nearly all chunks are short.
_CHUNK_HEADS = tuple(b"%x\r\n" % size for size in range(1024))


# A connection may have been accepted a moment before its server stops accepting. Its request
# arrives within so many seconds and is answered: if the connection were closed, the client would
# see a reset.
_FOR_LAST_REQUESTS = 0.2


class GatewayServer(uvicorn.Server):
    """A server that drains at the first signal to stop, and stops at the second.

    The sockets stay open as long as streams run, so that new clients are told to go elsewhere: a
    connection that is not accepted would wait. A worker that retires has others beside it, which
    take new connections: it closes its sockets first, and refuses no client.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stop_at: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def _gateway(self) -> GatewayState:
        state: GatewayState = self.lifespan.state["gateway"]
        return state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._captured_signals.append(sig)
        if not self.started:
            self.should_exit = True
        elif len(self._captured_signals) == 1:
            self._begin_drain()
        else:
            self.should_exit = self.force_exit = True

    def _begin_drain(self) -> None:
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._gateway.settings.drain_timeout
            self._gateway.drain.begin()

    async def on_tick(self, counter: int) -> bool:
        if self._stop_at is not None:
            is_late = time.monotonic() > self._stop_at
            self.should_exit: bool = self.should_exit or is_late or self._gateway.drain.is_over
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self.force_exit:
            await self._accept_no_more()
        await super().shutdown(sockets)

    async def _accept_no_more(self) -> None:
        for server in self.servers:
            server.close()
        await asyncio.sleep(_FOR_LAST_REQUESTS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        for request in request_signals():
            action = getattr(self, REQUESTS[request.name])
            loop.add_signal_handler(request, self._begin, action)
        take_requests()

    async def reload(self) -> None:
        """Reloads the gateway's keys and engines, and the certificate."""
        await reload(self._gateway)
        settings = self._gateway.settings
        if isinstance(self.config.ssl, ssl.SSLContext):
            try:
                check_certificate(settings)
                use_certificate(self.config.ssl, settings)
                logger.info("reloaded the certificate")
            except SettingError as error:
                logger.error("the certificate stays as it was: %s", error)

    async def summarize(self) -> None:
        await self._gateway.summarize()

    async def retire(self) -> None:
        """Leaves new connections to other workers, and ends once its streams are done."""
        if self._gateway.settings.workers == 1:
            return  # there are no others
        await self._accept_no_more()
        for connection in list(self.server_state.connections):
            connection.shutdown()  # immediately where it is idle, else after the answer
        self._begin_drain()

    def _begin(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(action())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@requests_held()  # an early signal must not end the process
def serve(
    settings: Settings,
    say: Callable[[str], None],
    listens: Callable[[str], None] = lambda url: None,
    banner: Callable[[Settings, ServerSummary], str] = banner_text,
) -> int:
    """Serves until a signal ends it. `say` gets the text to print at the start, the `banner`.

    `listens` is called with the server's URL once connections are accepted.
    """
    check_certificate(settings)
    # Errors of the settings are reported before anything is bound.
    gateway = app(settings)
    listening = _bound_socket(settings)
    host, port = listening.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    url = f"{'https' if settings.tls_cert else 'http'}://{name}:{port}"
    try:
        say(banner(settings, _summary(gateway.state.server, url)))
    except SettingError:
        listening.close()
        raise
    listens(url)
    configure_logs(settings)
    if settings.workers > 1:
        _run_workers(settings, listening, gateway.state.server)
    else:
        _show_metrics(gateway.state.server)
        _gateway_server(settings, gateway).run(sockets=[listening])
    return 0


def _gateway_server(settings: Settings, gateway: Starlette) -> GatewayServer:
    """The server of this process, ready to run."""
    BoundedProtocol.max_header = settings.max_header
    BoundedProtocol.head_timeout = settings.body_timeout
    export_traces(settings)
    calm_collector()
    config = uvicorn.Config(
        gateway,
        http=BoundedProtocol,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        ws="none",
        log_config=None,  # `configure_logs` has done it
        access_log=settings.log_level == "debug",
        server_header=False,
        timeout_graceful_shutdown=1,  # for streams that remain when the time to drain is over
        timeout_keep_alive=75,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        backlog=2048,
    )
    return GatewayServer(config)


def _run_workers(settings: Settings, listening: socket.socket, server: GatewayState) -> None:
    """Serves in several processes until a signal ends them."""
    with count_together():
        _show_metrics(server)
        summarize = server.metrics.log_summary
        work = partial(_serve_as_worker, settings, server.follows_file, listening)
        workers = Supervisor(settings, work, summarize)
        workers.run()
        if server.heals:
            summarize()
    if workers.cannot_start:
        raise SettingError("workers", "found one that cannot start, for the reason above")


# The number of new objects after which Python looks for cycles among them, of such looks after
# which it looks at the last ones again, and of those after which it looks at everything. Ten
# thousand objects take milliseconds, which no stream notices; everything is hundreds of thousands.
_GC_THRESHOLDS = (2_000, 5, 500)


def calm_collector() -> None:
    """Makes the garbage collector skip objects that exist from the start, and run less often.

    With Python's defaults, a worker with hundreds of streams spends a twelfth of its time on it,
    and a full collection makes all streams wait for a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _show_metrics(server: GatewayState) -> None:
    if server.settings.metrics_port is not None:
        server.metrics.listen(server.settings.metrics_host, server.settings.metrics_port)


def _serve_as_worker(
    settings: Settings,
    follows_file: bool,
    listening: socket.socket,
    watch: Callable[[uvicorn.Server], None],
) -> None:
    """Runs a worker process."""
    try:
        configure_logs(settings)
        forget_dead_workers()
        gateway = app(settings)
        # The file may have been changed since the first process decided this.
        gateway.state.server.follows_file = follows_file
        server = _gateway_server(settings, gateway)
    except Exception as error:
        reason = error if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        print(f"a worker cannot start: {reason}", file=sys.stderr)
        sys.exit(CANNOT_START)
    watch(server)
    server.run(sockets=[listening])


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


def _summary(server: GatewayState, url: str) -> ServerSummary:
    """The facts about the server, with the backend's where it answers."""
    notes = []
    try:
        asyncio.run(_meet_backend(server))
    except BackendError as error:
        notes.append(f"{error.message}; it is asked again with the first request")
    if server.model.guesses_dialect:
        raise SettingError("dialect", server.model.dialect_problem)
    if server.model.dialect_problem:
        notes.append(f"{server.model.dialect_problem}; {server.model.dialect} is assumed")
    if server.behind.grammar_note:
        notes.append(server.behind.grammar_note)
    if server.model.vocabulary_problem and not server.heals:
        notes.append(f"no request can be answered: {server.model.vocabulary_problem}")
    for upstream in server.settings.upstream:
        if proxy := proxy_of(upstream, server.settings):
            places = without_password(upstream), without_password(proxy)
            notes.append("{} is reached through the proxy {}".format(*places))
    if server.settings.workers > 1 and server.settings.replay == "memory":
        notes.append("each worker remembers its own turns: --replay sqlite:PATH is shared by all")
    return ServerSummary(
        url,
        server.model,
        keys=len(server.access.keys),
        ids=server.tokenizer is not None,
        images=images_in_words(server.model.dialect, server.settings, server.behind.image_support),
        adapted_to=server.healer.title,
        notes=tuple(notes),
    )


async def _meet_backend(server: GatewayState) -> None:
    try:
        await server.behind.meet()
        if server.engines.chooses or server.settings.upstream_model:
            await check_models(server, server.engines.engines)
    finally:
        await server.engines.aclose()  # its connections belong to the loop that ends here

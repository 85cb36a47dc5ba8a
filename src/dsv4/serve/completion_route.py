"""The routes that generate: from the bytes of a request of any protocol to the run that answers it.

There are two kinds: `prompt_route.py` writes prompts for an engine, and `heal/healing_route.py`
sends requests to a chat server.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Generic

from dsv4.api import ApiError, ApiRequest, ContextOverflow
from dsv4.api.api_request import ProtocolName
from dsv4.api.ignored_fields import ignored_fields, unwritten_tasks
from dsv4.api.neutral_request import Sampling
from dsv4.api.protocols import PROTOCOLS, ApiProtocol
from dsv4.api.request_fields import JsonObject
from dsv4.errors import path_of
from dsv4.serve import asgi
from dsv4.serve.access.api_keys import Key
from dsv4.serve.backend import BackendError, Options
from dsv4.serve.body_limits import check_choices, check_counts, read_json
from dsv4.serve.completion_run import CompletionClient, CompletionRun, PreparedT
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.inspector import OnBegin
from dsv4.serve.observe.logs import RequestReport
from dsv4.serve.prepared_request import ReceivedRequest
from dsv4.serve.prompt_encoding import LARGE_BODY
from dsv4.serve.reported_route import ReportedRoute, unknown_model
from dsv4.serve.sessions.session_calls import SessionEntry


class CompletionRoute(ReportedRoute, Generic[PreparedT]):
    """The route of one protocol."""

    _run_class: type[CompletionRun[PreparedT]]  # the class that answers a request
    _keeps_responses = True  # for requests that continue one

    def __init__(self, server: GatewayState, protocol: ProtocolName) -> None:
        super().__init__(server, protocol)
        self._protocol: ProtocolName = protocol
        self._api: ApiProtocol = PROTOCOLS[protocol]

    # Methods of the two kinds.

    async def _passed_on(
        self,
        scope: asgi.Scope,
        receive: asgi.Receive,
        send: asgi.Send,
        report: RequestReport,
        data: bytes,
    ) -> int | None:
        """The status of a request that the server behind answers unchanged; None for all others."""
        return None

    def _session_of(self, scope: asgi.Scope, headers: Mapping[str, str]) -> str | None:
        """The session that a request is in, if any."""
        return self._server.sessions.session_id(scope, headers)

    def _unread(self, body: JsonObject) -> list[str]:
        """The fields of a body that are not read here."""
        dialect = self._server.model.dialect
        return list(map(path_of, ignored_fields(body, self._protocol, "body", dialect, own=False)))

    def _read_call(self, body: JsonObject) -> ApiRequest:
        """The request in a body."""
        return self._server.model.read(body, self._protocol)

    def _in_session(self, request: ReceivedRequest, session: SessionEntry) -> ReceivedRequest:
        """A request with the changes that its session makes."""
        return replace(request, call=session.applied(request.call))

    @abstractmethod
    async def _prepare(self, received: ReceivedRequest, client: CompletionClient) -> PreparedT:
        """Everything that is needed to answer a request."""

    # Common methods.

    def _error_body(self, scope: asgi.Scope, error: ApiError) -> tuple[int, JsonObject]:
        return self._api.error(error)

    async def _answer(
        self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send, report: RequestReport
    ) -> int:
        server = self._server
        headers = asgi.headers_of(scope)
        key = report.key = await server.access.authenticated(scope)
        data = await asgi.read_body(scope, receive, server.settings)
        if (status := await self._passed_on(scope, receive, send, report, data)) is not None:
            return status
        name = self._session_of(scope, headers)
        watch: AbstractContextManager[OnBegin | None] = nullcontext()
        if server.inspector is not None:
            agent = headers.get("user-agent", "")
            watch = server.inspector.watched(key.name, self._label, data, name, agent)
        async with server.access.meter.admitted(key.name, key.limits):
            with watch as on_begin:
                request = await self._read(data, key)
                choices = request.call.n
                async with (
                    server.sessions.entered(name, key, choices) as session,
                    server.access.meter.more_streams(key.name, key.limits, choices - 1),
                ):
                    received = request if session is None else self._in_session(request, session)
                    with server.gate.place(choices) as turn:
                        now = scope.get(asgi.WRITE_NOW, asgi.cannot_write)
                        ways = (receive, send, scope.get(asgi.SEND_PIECE, send), now)
                        client = CompletionClient(
                            key, headers, *ways, turn, report.given_id, session
                        )
                        return await self._run(received, client, on_begin, report)

    async def _run(
        self,
        received: ReceivedRequest,
        client: CompletionClient,
        on_begin: OnBegin | None,
        report: RequestReport,
    ) -> int:
        headers, call = client.headers, received.call
        try:
            prepared = await self._prepare(received, client)
            report.name(prepared.turn_ids[0])
            report.ignored = received.ignored
            report.prepared = prepared
            debug = self._server.settings.debug and headers.get("x-dsv4-debug") == "1"
            run = report.run = self._run_class(self._server, self._api, prepared, client, debug)
            if on_begin is not None:
                on_begin(prepared, run)
            if failure := await run.run():
                report.fail(failure)
        except ContextOverflow as error:
            if not (call.stream and reads_failures_in_streams(headers)):
                raise
            report.fail(error)
            await self._fail_in_stream(client.send, call, error)
        return 200

    async def _fail_in_stream(self, send: asgi.Send, call: ApiRequest, error: ApiError) -> None:
        """Sends an error as a stream without anything else."""
        writer = self._api.Writer(call)
        stream = asgi.EventStream(send, send, {})
        await stream.write(self._api.frames([*writer.start(), *writer.fail(error)]))
        await stream.end()

    async def _read(self, data: bytes, key: Key) -> ReceivedRequest:
        server, storage = self._server, self._server.storage
        body = original = read_json(data)
        unread = self._unread(body)
        echo = storage.responses.echo(body) if self._protocol == "responses" else {}
        keeps = self._keeps_responses and storage.turns.store is not None
        if self._protocol == "responses" and keeps:
            body = await storage.responses.continued(key.name, body)
        # It is asked again when it is needed, and a failure is reported then.
        with suppress(BackendError):
            await server.behind.meet()
        check_counts(body)
        # Checking the bytes of a picture takes longer than other streams should wait.
        is_slow = len(data) > LARGE_BODY and server.model.reads_images
        call = await asyncio.to_thread(self._read_call, body) if is_slow else self._read_call(body)
        self._check_model(call, key)
        check_choices(call.n, server.settings)
        unread += map(path_of, unwritten_tasks(body, call.request))
        if echo:
            call = replace(call, echo={**call.echo, **echo})
        server.metrics.count_ignored(self._protocol, unread)
        # Restored responses may be long even if the rest is short.
        size = len(data) if body is original else len(data) + LARGE_BODY
        left_out = (f"tools.{name}" for name in call.ignored)
        return ReceivedRequest(body, call, size, (*unread, *left_out))

    def _check_model(self, call: ApiRequest, key: Key) -> None:
        key.limits.check_model(call.model)
        names = self._server.model.names
        if self._server.settings.strict_models and call.model not in names:
            raise unknown_model(call.model, names)

    def _options(self, call: ApiRequest, tokens: int, client: CompletionClient) -> Options:
        """The options for a completion after a prompt of so many tokens."""
        options = Options(
            max_tokens=max(min(call.max_tokens, self._server.model.context - tokens), 1),
            logprobs=call.top_logprobs if call.logprobs else None,
            **{name: getattr(call.sampling, name) for name in Sampling.__slots__},
        )
        return options if client.session is None else client.session.options(options)


def reads_failures_in_streams(headers: Mapping[str, str]) -> bool:
    """Whether a client is Codex, which only prints an error that comes as a status, but handles one
    that comes in a stream."""
    return headers.get("originator", "").startswith("codex")

"""The routes that generate: a request of any protocol, from its bytes to a run that answers
it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import Special, markup
from dsv4._parse.random_ids import new_id
from dsv4.api import ApiError, ApiRequest, ContextOverflow
from dsv4.api.api_request import ProtocolName, client_path
from dsv4.api.protocols import FIELDS_READ, OPTION_FIELDS_READ, PROTOCOLS, with_flat_names
from dsv4.api.request_fields import UNSUPPORTED_FIELDS, JsonObject, json_body, unread_fields
from dsv4.errors import EncodeError, OptionError
from dsv4.grammar import Grammar, for_request
from dsv4.serve.access import Key
from dsv4.serve.asgi import (
    SEND_PIECE,
    ClientGone,
    EventStream,
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    send_json,
)
from dsv4.serve.backend import AnyBackend, BackendError, Options, is_chat
from dsv4.serve.choice_reader import estimated_tokens
from dsv4.serve.completion_run import (
    BrokenOff,
    CompletionClient,
    CompletionRun,
    PreparedRequest,
    ReceivedRequest,
    client_error,
    is_expected,
)
from dsv4.serve.forced_generation import FREE_CHOICES, forced_opening
from dsv4.serve.observe.inspector import OnBegin
from dsv4.serve.observe.logs import CLIENT_GONE, RequestReport
from dsv4.serve.request_adapter import SentRequest, sent_as_given
from dsv4.serve.server import GatewayState
from dsv4.serve.session_calls import SessionEntry
from dsv4.serve.settings import Settings
from dsv4.tokens import Tokenizer, VocabularyError

# Encoding a prompt of this many bytes takes longer than other streams should wait.
_LARGE_BODY = 200_000
MakeGrammar: TypeAlias = Callable[[], Grammar]


class CompletionRoute:
    """The route of one protocol."""

    def __init__(self, server: GatewayState, protocol: ProtocolName) -> None:
        self._server = server
        self._protocol: ProtocolName = protocol
        self._api = PROTOCOLS[protocol]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        report = RequestReport(self._protocol, scope["path"])
        with self._server.tracing.traced(headers_of(scope), report):
            await self._report(scope, receive, send, report)

    async def _report(
        self, scope: Scope, receive: Receive, send: Send, report: RequestReport
    ) -> None:
        """Answers a request, and sees that its end is counted and logged."""
        try:
            report.status = await self._answer(scope, receive, send, report)
        except ClientGone:
            report.status = CLIENT_GONE
            report.fail(ClientGone("the client went away"))
            self._server.metrics.gone.inc()
        except BrokenOff as error:
            report.fail(error)
            raise  # the client knows
        except Exception as error:
            report.status = await self._refuse(send, error, report)
            if not is_expected(error):
                raise
        finally:
            self._server.note_end(report)

    async def _refuse(self, send: Send, error: Exception, report: RequestReport) -> int:
        """An error before the first byte, in the protocol's own form."""
        self._server.metrics.count_failure(error)
        told = client_error(error)
        report.fail(told)
        status, body = self._api.error(told)
        headers = {"x-request-id": report.id, **retry_headers(status, error)}
        await send_json(send, status, body, headers)
        return status

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, report: RequestReport
    ) -> int:
        server = self._server
        headers = headers_of(scope)
        key = report.key = await server.authenticated(scope)
        data = await read_body(scope, receive, server.settings)
        name = server.sessions.named(scope, headers)
        agent = headers.get("user-agent", "")
        with (
            server.meter.admitted(key.name, key.limits),
            server.inspected_request(key.name, self._protocol, data, name, agent) as seen,
        ):
            read = await self._read(data, key)
            async with server.sessions.entered(name, key, read.call.n) as session:
                received = read if session is None else self._in_session(read, session)
                with server.gate.place() as turn:
                    send_piece = scope.get(SEND_PIECE, send)
                    client = CompletionClient(key, headers, receive, send, send_piece, turn)
                    return await self._run(received, client, seen, report)

    def _in_session(self, read: ReceivedRequest, session: SessionEntry) -> ReceivedRequest:
        """A request as its session wants it."""
        body = {**read.body, **session.sampling} if is_chat(self._server.backend) else read.body
        return replace(read, body=body, call=session.applied(read.call), session=session)

    async def _run(
        self,
        received: ReceivedRequest,
        client: CompletionClient,
        seen: OnBegin | None,
        report: RequestReport,
    ) -> int:
        server, headers, call = self._server, client.headers, received.call
        try:
            prepared = await self._prepare(received, client)
            report.id, report.facts = prepared.turn_ids[0], prepared.facts
            debug = server.settings.debug and headers.get("x-dsv4-debug") == "1"
            run = report.run = CompletionRun(server, self._api, prepared, client, debug)
            if seen is not None:
                seen(prepared, run)
            if failure := await run.run():
                report.fail(failure)
        except ContextOverflow as error:
            if not (call.stream and reads_failures_in_streams(headers)):
                raise
            report.fail(error)
            return await self._fail_in_stream(client.send, call, error)
        return 200

    async def _fail_in_stream(self, send: Send, call: ApiRequest, error: ApiError) -> int:
        """An error in a stream that has nothing else in it."""
        writer = self._api.Writer(call)
        stream = EventStream(send, {})
        await stream.write(self._api.frames([*writer.start(), *writer.fail(error)]))
        await stream.end()
        return 200

    async def _read(self, data: bytes, key: Key) -> ReceivedRequest:
        server = self._server
        body = given = read_json(data, server.settings.max_depth)
        unread = self._unread(body)
        in_thread = self._protocol == "messages" and server.threads.holds(body)
        if in_thread:
            body = await server.threads.continued(key.name, body)
        stored = server.stored_responses.echo(body) if self._protocol == "responses" else {}
        if self._protocol == "responses" and server.sampled_turns.store is not None:
            body = await server.stored_responses.continued(key.name, body)
        # It is asked again when it is needed, and a failure is reported then.
        with suppress(BackendError):
            await server.meet_backend()
        check_counts(body, server.settings)
        own = without_the_servers_own(body) if self._passes_on else body
        call = self._api.read(own, dialect=server.dialect, settings=server.api_settings)
        self._check_model(call, key)
        if stored:
            call = replace(call, echo={**call.echo, **stored})
        if is_chat(server.backend):
            call = replace(call, names=with_flat_names(call.names))
        server.metrics.count_ignored(self._protocol, unread)
        # What was kept may be long however short the rest is.
        size = len(data) if body is given else len(data) + _LARGE_BODY
        return ReceivedRequest(body, call, size, tuple(unread), in_thread)

    @property
    def _passes_on(self) -> bool:
        """Whether the backend gets bodies as they are, with all their fields."""
        return self._protocol == "chat" and is_chat(self._server.backend)

    def _unread(self, body: JsonObject) -> list[str]:
        if self._passes_on:
            return []
        spoken = self._protocol
        return unread_fields(body, FIELDS_READ[spoken], OPTION_FIELDS_READ[spoken])

    def _check_model(self, call: ApiRequest, key: Key) -> None:
        key.limits.check_model(call.model)
        if self._server.settings.strict_models and call.model != self._server.model.name:
            message = f"found {call.model!r}, expected {self._server.model.name!r}"
            raise ApiError(message, path="model", status=404, code="model_not_found")

    async def _sent(self, received: ReceivedRequest, client: CompletionClient) -> SentRequest:
        """What a chat server is sent."""
        adapter = self._server.adapter
        if adapter is None or client.headers.get("x-dsv4-adapt", "").lower() == "off":
            return sent_as_given(received.call, received.body)
        sent = await adapter.adapted(client.key.name, received.call, received.body)
        self._server.metrics.count_adaptations(sent.adapted)
        return sent

    async def _prepare(
        self, received: ReceivedRequest, client: CompletionClient
    ) -> PreparedRequest:
        server, key = self._server, client.key
        began = time.monotonic()
        call, recalled, engine, sent = received.call, 0, None, None
        if is_chat(server.backend):
            sent = await self._sent(received, client)
            call = sent.read_with(call)
        else:
            call, recalled, engine = await server.sampled_turns.recalled(key.name, call)
            server.metrics.replayed.labels("used").inc(recalled)
        prompt, ids = await encode_prompt(call, server, received.size)
        tokens = prompt_length(prompt, ids)
        shared = None if ids is None else server.prefixes.shared(key.name, ids)
        session = received.session
        options = self._options(call, tokens, *await self._grammars(call))
        return PreparedRequest(
            key=key,
            received=received,
            call=call,
            prompt=prompt,
            ids=ids,
            prompt_tokens=tokens,
            options=options if session is None else session.options(options),
            turn_ids=session.call_ids if session else tuple(_new_turn_ids(call.n)),
            written=written_ids(call, prompt, ids, server.tokenizer),
            shared=shared,
            recalled=recalled,
            engine=engine,
            began=began,
            sent=sent,
            opening=_opening(call, server.backend),
        )

    def _options(
        self, call: ApiRequest, tokens: int, grammar: Grammar | None, later: MakeGrammar | None
    ) -> Options:
        server, context = self._server, self._server.context
        if tokens >= context and not is_chat(server.backend):
            raise ContextOverflow(tokens, context)
        sampling = call.sampling
        return Options(
            max_tokens=max(min(call.max_tokens, context - tokens), 1),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            seed=sampling.seed,
            logit_bias=sampling.logit_bias,
            logprobs=call.top_logprobs if call.logprobs else None,
            grammar=grammar,
            grammar_after_reasoning=later,
        )

    async def _grammars(self, call: ApiRequest) -> tuple[Grammar | None, MakeGrammar | None]:
        """The grammar of a call that the model must write, or of the form of its answer; and what
        makes the one for a backend that applies grammars only after the reasoning."""
        form = self._server.backend.grammar_form
        request = call.request
        forced = request.tool_choice not in _FREE
        if form is None or not (forced or request.response_format):
            return None, None
        tokenizer = self._server.tokenizer
        make = partial(
            for_request,
            request,
            form=form,
            parallel=call.parallel,
            markers="tokens" if tokenizer is None else tokenizer.vocabulary.added,
        )
        try:
            # A hundred tools take a quarter of a second, in which other streams must go on.
            return await asyncio.to_thread(make), partial(make, reasoning="server")
        except ApiError:
            raise
        except ValueError as error:
            raise _unenforceable(call, error) from None


def _opening(call: ApiRequest, backend: AnyBackend) -> str:
    """What we write after the reasoning; empty where the model is free to call or not."""
    return "" if call.request.tool_choice in FREE_CHOICES else forced_opening(call, backend)


def _new_turn_ids(count: int) -> Iterator[str]:
    return (new_id("turn_") for _ in range(count))


def written_ids(
    call: ApiRequest, prompt: Prompt, ids: list[int] | None, tokenizer: Tokenizer | None
) -> int:
    """How many ids at the end of a prompt open the call that the model must write."""
    opening = prompt.ending.open
    if ids is None or tokenizer is None or not opening or call.request.tool_choice in _FREE:
        return 0
    written: list[int] = []
    for part in markup(opening).parts:
        is_special = isinstance(part, Special)
        written += [tokenizer.special_id(part)] if is_special else tokenizer.encode_text(part)
    return len(written) if ids[-len(written) :] == written else 0


# Choices that leave it to the model whether to call.
_FREE = ("auto", "none")


def check_counts(body: JsonObject, settings: Settings) -> None:
    """Refuses a body with too many messages or tools, before any of them is read."""
    messages, tools = settings.max_messages, settings.max_tools
    for name, most in (("messages", messages), ("input", messages), ("tools", tools)):
        given = body.get(name)
        listed = given if isinstance(given, list) else []
        count = len(listed) + (_in_namespaces(listed) if name == "tools" else 0)
        if count > most:
            raise ApiError(f"found {count} {name}, expected at most {most}", path=name)


def _in_namespaces(tools: list[Any]) -> int:
    inner = (tool.get("tools") for tool in tools if isinstance(tool, dict))
    return sum(len(listed) for listed in inner if isinstance(listed, list))


def retry_headers(status: int, error: Exception) -> dict[str, str]:
    """What tells a client whether, and when, to try again."""
    may_retry = status in (429, 502, 503, 504) and not getattr(error, "final", False)
    headers = {"x-should-retry": "true" if may_retry else "false"}
    if status in (429, 503):
        # Some clients give up immediately without it, and others when it is long.
        headers["retry-after"] = str(math.ceil(getattr(error, "retry_after", None) or 1))
    return headers


def _unenforceable(call: ApiRequest, error: ValueError) -> ApiError:
    """The error for a request that cannot be written as a grammar: another try would not help."""
    if not isinstance(error, (OptionError, EncodeError)):
        return ApiError(f"this cannot be enforced: {error}")
    path = client_path(call, error.location)
    return ApiError(f"this cannot be enforced: {error.problem}", path=path)


def without_the_servers_own(body: JsonObject) -> JsonObject:
    """The body of a chat request without what is the server's to decide: fields that only it knows,
    and answers at the end that nobody asks to continue, which servers continue, close or repeat."""
    unsupported = UNSUPPORTED_FIELDS["chat"]
    own = {name: value for name, value in body.items() if name not in unsupported}
    messages = own.get("messages")
    if isinstance(messages, list):
        end = len(messages)
        while end > 1 and _is_closed_answer(messages[end - 1]):
            end -= 1
        own["messages"] = messages[:end]
    return own


def _is_closed_answer(message: object) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") == "assistant"
        and not message.get("prefix")
    )


def reads_failures_in_streams(headers: Mapping[str, str]) -> bool:
    """Whether a client is Codex, which only prints an error that comes as a status, but knows what
    to do about one that comes in a stream."""
    return headers.get("originator", "").startswith("codex")


async def encode_prompt(
    call: ApiRequest, server: GatewayState, size: int
) -> tuple[Prompt, list[int] | None]:
    """The prompt of a request of `size` bytes, and its ids where there is a tokenizer."""

    if size > _LARGE_BODY:
        return await asyncio.to_thread(encoded_now, call, server)
    return encoded_now(call, server)


def encoded_now(call: ApiRequest, server: GatewayState) -> tuple[Prompt, list[int] | None]:
    """The same, in the calling thread."""
    if server.guesses_dialect:
        raise ApiError(f"The server cannot make prompts: {server.dialect_problem}.", status=500)
    prompt = call.request.encode()
    try:
        return prompt, server.ids_of(prompt)
    except VocabularyError:
        raise ApiError(
            f"The server cannot make prompts: {server.vocabulary_problem}.", status=500
        ) from None


def prompt_length(prompt: Prompt, ids: list[int] | None) -> int:
    """How many tokens a prompt has: about as many, where there are no ids."""
    return estimated_tokens(prompt.text) if ids is None else len(ids)


def read_json(data: bytes, deepest: int) -> JsonObject:
    """A body as a dict, no deeper than allowed."""
    body = json_body(data)
    if _is_deeper(body, deepest):
        raise ApiError(f"The body is nested deeper than {deepest} levels.")
    return body


def _is_deeper(body: JsonObject, deepest: int) -> bool:
    # Every value of every request is looked at here: by its class, which is the quickest question,
    # and nearly all of them are texts.
    level: list[Any] = [body.values()]
    for _ in range(deepest):
        level = [
            value.values() if value.__class__ is dict else value
            for value in chain.from_iterable(level)
            if value.__class__ is not str and (value.__class__ is dict or value.__class__ is list)
        ]
        if not level:
            return False
    return True

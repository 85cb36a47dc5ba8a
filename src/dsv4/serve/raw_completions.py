"""`POST /v1/completions`: a prompt that the client has written itself, and what follows it, as it
is. With the keys and limits of the other routes, and nothing read or repaired.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, cast

from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import markup
from dsv4._parse.events import ContentDelta, Event
from dsv4._parse.random_ids import new_id
from dsv4._parse.reasons import Ended, ended_by
from dsv4.api import ApiError, ApiRequest, ContextOverflow, Usage
from dsv4.api.errors import error_body, wrong
from dsv4.api.request_fields import JsonObject
from dsv4.serve.asgi import (
    SEND_PIECE,
    ClientGone,
    DisconnectWatch,
    EventStream,
    Receive,
    Scope,
    Send,
    json_bytes,
    read_body,
    send_json,
)
from dsv4.serve.backend import Backend, Chunk, Chunks, Options
from dsv4.serve.backends.engine_fields import fields_of
from dsv4.serve.body_limits import read_json
from dsv4.serve.choice_reader import ChoiceReader, estimated_tokens, total_usage
from dsv4.serve.client_errors import client_error
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.generation import Generation
from dsv4.serve.markup_ids import markup_ids
from dsv4.serve.observe.logs import RequestFacts, RequestReport
from dsv4.serve.reported_route import ReportedRoute
from dsv4.serve.upstreams.engine_pool import EngineLease, PromptPrefix
from dsv4.tokens import Tokenizer

# As OpenAI's.
_DEFAULT_TOKENS = 16
# What both protocols of OpenAI call by the same names.
_SHARED = ("model", "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop")
_SHARED_MORE = ("max_tokens", "stream", "stream_options", "user")
# What is not served, and what it may be all the same.
_UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "logprobs": (None, 0),
}
# A character has no more tokens than this.
_MOST_HELD = 8


class RawReader(ChoiceReader):
    """Passes text on as it comes, special tokens spelled out."""

    def __init__(self, call: ApiRequest, tokenizer: Tokenizer | None) -> None:
        super().__init__(call, tokenizer)
        self._held: list[int] = []
        self._count = 0

    def _read(self, chunk: Chunk) -> list[Event]:
        text = chunk.text
        if chunk.ids is not None and self._tokenizer is not None:
            self._count += len(chunk.ids)
            self._held += chunk.ids
            text = self._tokenizer.decode(self._held)
            if text.endswith("\ufffd") and len(self._held) < _MOST_HELD:
                return []  # the rest of a character is yet to come
            self._held = []
        return self._passed(text)

    def end(self) -> list[Event]:
        if self._held and self._tokenizer is not None:
            return self._passed(self._tokenizer.decode(self._held))
        return []

    def _passed(self, text: str) -> list[Event]:
        if not text:
            return []
        self.sampled_text.append(text)
        return [ContentDelta(text)]

    @property
    def completion_tokens(self) -> int:
        return self.counts.completion or self._count or estimated_tokens(self.sampled)

    @property
    def reasoning_tokens(self) -> int:
        return 0

    @property
    def reason(self) -> str:
        """Why it ended, in OpenAI's words."""
        return "stop" if ended_by(self.finish) in (Ended.END, Ended.STOP) else "length"


class RawCompletion:
    """One request: its prompt, and what comes of it."""

    def __init__(self, server: GatewayState, body: JsonObject) -> None:
        self._server = server
        self.prompt, self.ids = _prompt(server, body.get("prompt"))
        _refuse_images(self.prompt)
        self.call = _read_call(server, body)
        self.options = _options(server, self.call, body, self.prompt_tokens)
        self.reader = RawReader(self.call, server.tokenizer)
        self.readers = (self.reader,)
        self.id = new_id("cmpl-")
        self.created = int(time.time())
        self._lease: EngineLease | None = None

    @property
    def prompt_tokens(self) -> int:
        return len(self.ids) if self.ids is not None else estimated_tokens(self.prompt.text)

    @property
    def usage(self) -> Usage:
        return total_usage([self.reader], self.prompt_tokens)

    @property
    def facts(self) -> RequestFacts:
        """What the log and traces tell of it."""
        options = self.options
        return RequestFacts(self.call.model, options.max_tokens, options.temperature, None)

    @property
    def engine(self) -> str | None:
        """The engine that answers; None before it is asked."""
        return None if self._lease is None else self._lease.engine.url

    def open(self, choice: int) -> Chunks:
        engines = self._server.engines
        if self._lease is None:
            prefix = PromptPrefix.of_prompt(self.prompt, self.ids) if engines.chooses else None
            self._lease = EngineLease(engines, prefix)
        backend = cast(Backend, self._lease.engine.backend)
        return backend.stream(self.prompt, self.ids, self.options)

    def generation(self, turn: Any) -> Generation:
        return Generation(
            self._server.settings,
            [self.reader],
            self.open,
            turn,
            lambda choice, error: self._lease is not None and self._lease.moved_on(error),
        )

    def close(self, generation: Generation) -> None:
        generation.timer.close()
        if self._lease is not None:
            self._lease.close(self.reader.first_at is not None, generation.failure)

    # As OpenAI writes it.

    def shown(self, text: str, reason: str | None) -> JsonObject:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.call.model,
            "choices": [choice],
        }

    def shown_usage(self) -> JsonObject:
        used = self.usage
        return {
            "prompt_tokens": used.prompt,
            "completion_tokens": used.completion,
            "total_tokens": used.prompt + used.completion,
            "prompt_tokens_details": {"cached_tokens": used.cached},
        }


class RawCompletionRoute(ReportedRoute):
    """The route."""

    def __init__(self, server: GatewayState) -> None:
        super().__init__(server, "completions")

    def _error_body(self, scope: Scope, error: ApiError) -> tuple[int, JsonObject]:
        return error.status, error_body(error)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, report: RequestReport
    ) -> int:
        server = self._server
        key = report.key = await server.access.authenticated(scope)
        data = await read_body(scope, receive, server.settings)
        await server.behind.meet()
        made = RawCompletion(server, read_json(data, server.settings.max_depth))
        report.name(made.id)
        report.facts = made.facts
        key.limits.check_model(made.call.model)
        report.run = made
        async with server.access.meter.admitted(key.name, key.limits):
            with server.gate.place() as turn:
                generation = made.generation(turn)
                watch = DisconnectWatch(receive, generation.client_gone)
                try:
                    if made.call.stream:
                        head = {"x-request-id": report.id}
                        send_piece = scope.get(SEND_PIECE, send)
                        stream = EventStream(send, head, generation.timer, send_piece)
                        await self._stream(made, generation, stream, report)
                    else:
                        await self._whole(made, generation, send, report.id)
                finally:
                    await watch.close()
                    made.close(generation)
        return 200

    async def _whole(
        self, made: RawCompletion, generation: Generation, send: Send, id: str
    ) -> None:
        async def ignored(choice: int, events: list[Event]) -> None:
            return None

        await generation.run(ignored, None)
        body = made.shown(made.reader.sampled, made.reader.reason)
        shown = {**body, "usage": made.shown_usage()}
        await send_json(send, 200, shown, {"x-request-id": id})

    async def _stream(
        self,
        made: RawCompletion,
        generation: Generation,
        stream: EventStream,
        report: RequestReport,
    ) -> None:
        async def passed(choice: int, events: list[Event]) -> None:
            text = "".join(event.text for event in events if isinstance(event, ContentDelta))
            if text:
                await stream.write(_frame(made.shown(text, None)))

        async def alive() -> None:
            await stream.write(b": keep-alive\n\n")

        try:
            await generation.run(passed, alive)
        except ClientGone:
            raise
        except Exception as error:
            if not stream.has_begun:
                raise
            told = client_error(error)
            report.fail(told)
            self._server.metrics.count_failure(error)
            await stream.write(_frame(error_body(told)))
            return  # and no clean end, which clients would take for the answer
        last = {**made.shown("", made.reader.reason), "usage": made.shown_usage()}
        await stream.write(_frame(last) + b"data: [DONE]\n\n")
        await stream.end()


def _frame(body: JsonObject) -> bytes:
    return b"data: " + json_bytes(body) + b"\n\n"


def _read_call(server: GatewayState, body: JsonObject) -> ApiRequest:
    """The fields that it shares with Chat Completions, read as there."""
    for name, accepted in _UNSUPPORTED.items():
        if body.get(name) not in accepted:
            raise wrong(body[name], f"nothing else than {accepted[-1]!r}, or nothing", name)
    given = {name: body[name] for name in (*_SHARED, *_SHARED_MORE) if name in body}
    nobody = {"messages": [{"role": "user", "content": ""}]}
    return server.model.read({**given, **nobody}, "chat")


def _options(server: GatewayState, call: ApiRequest, body: JsonObject, tokens: int) -> Options:
    context, sampling = server.model.context, call.sampling
    if tokens >= context:
        raise ContextOverflow(tokens, context)
    most = call.max_tokens if body.get("max_tokens") is not None else _DEFAULT_TOKENS
    options = Options(max_tokens=min(most, context - tokens), stop=tuple(call.request.stop or ()))
    return replace(
        options,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        seed=sampling.seed,
        extra=fields_of(server.backend).read(body, is_answer=True),
    )


def _prompt(server: GatewayState, given: object) -> tuple[Prompt, list[int] | None]:
    """The prompt, from text that spells special tokens, or from ids."""
    tokenizer = server.tokenizer
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], (str, list)):
        given = given[0]
    if isinstance(given, str) and given:
        parts = markup(given).parts
        prompt = Prompt([*parts], server.model.dialect)
        return prompt, None if tokenizer is None else markup_ids(tokenizer, parts)
    if isinstance(given, list) and given and all(type(id) is int for id in given):
        if tokenizer is None:
            raise ApiError("Ids need the extra `tokens`, which is not installed.", status=501)
        try:
            return tokenizer.prompt(given), given
        except (ValueError, LookupError, OverflowError):
            raise ApiError("found ids that are not in the vocabulary", path="prompt") from None
    raise wrong(given, "one prompt, as text or as ids", "prompt")


def _refuse_images(prompt: Prompt) -> None:
    """Refuses a placeholder of an image, which no engine can replace: there is none here."""
    if any(token == prompt.dialect.image_token for _, token in prompt.runs() if token is not None):
        raise ApiError("found the placeholder of an image, expected text alone", path="prompt")

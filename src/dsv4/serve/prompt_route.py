"""Requests that an engine answers: their prompt with earlier turns as they were sampled, their
options, and the grammar for the answer. The engine continues the prompt, and the turn is kept as it
was sampled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from dsv4._encode.prompt import Prompt
from dsv4.api import ApiError, ApiRequest, ContextOverflow
from dsv4.api.api_request import client_path
from dsv4.api.request_fields import JsonObject
from dsv4.errors import EncodeError, OptionError
from dsv4.grammar import Grammar, for_request
from dsv4.serve.backend import AnyBackend, Backend, Chunks
from dsv4.serve.backends.engine_fields import fields_of
from dsv4.serve.choice_reader import ChoiceReader, CompletionReader
from dsv4.serve.completion_route import CompletionRoute
from dsv4.serve.completion_run import CompletionClient, CompletionRun
from dsv4.serve.forced_generation import (
    FREE_CHOICES,
    ForcedGeneration,
    forced_opening,
    written_text,
)
from dsv4.serve.markup_ids import markup_ids
from dsv4.serve.prepared_request import ImageFacts, PreparedRequest, ReceivedRequest, new_turn_ids
from dsv4.serve.prompt_encoding import encode_prompt
from dsv4.serve.storage.stored_turns import SampledTurn
from dsv4.serve.upstreams.engine_pool import PromptPrefix
from dsv4.tokens import Tokenizer

MakeGrammar: TypeAlias = Callable[[], Grammar]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptedRequest(PreparedRequest):
    """A request for an engine. `engine` wrote the last of its turns; `opening` begins a call that
    must follow the reasoning."""

    engine: str | None = None
    opening: str = ""


class PromptRun(CompletionRun[PromptedRequest]):
    """One generation of an engine."""

    def _new_reader(self) -> ChoiceReader:
        prepared, tokenizer = self._prepared, self._server.tokenizer
        grammar = prepared.options.grammar
        return CompletionReader(prepared.call, prepared.encoded.prompt, tokenizer, grammar)

    def _stream_of(self, backend: AnyBackend, choice: int) -> Chunks:
        engine = cast(Backend, backend)  # as any backend that is not a chat server must be
        prepared, tokenizer = self._prepared, self._server.tokenizer
        prompt, ids, *_ = prepared.encoded
        options = prepared.options
        if not prepared.opening:
            return engine.stream(prompt, ids, options)
        opening = written_text(prepared.opening, tokenizer)
        generation = ForcedGeneration(engine, prompt, ids, options, opening, tokenizer)
        return generation.chunks()

    def _new_prefix(self) -> PromptPrefix:
        prepared = self._prepared
        prompt, ids, *_ = prepared.encoded
        return PromptPrefix.of_prompt(prompt, ids, prepared.engine)

    async def _remember(self, turn: SampledTurn) -> None:
        before = [_plain_message(message) for message in self._prepared.call.request.messages]
        await self._server.storage.turns.remember(self._client.key.name, before, turn)


def _plain_message(message: object) -> Mapping[str, Any]:
    plain = getattr(message, "message", message)
    return plain if isinstance(plain, Mapping) else {}


class PromptRoute(CompletionRoute[PromptedRequest]):
    """The route of one protocol in front of an engine, which continues prompts."""

    _run_class: type[CompletionRun[PromptedRequest]] = PromptRun

    def _unread(self, body: JsonObject) -> list[str]:
        own = fields_of(self._server.backend).names
        return [name for name in super()._unread(body) if name not in own]

    async def _prepare(
        self, received: ReceivedRequest, client: CompletionClient
    ) -> PromptedRequest:
        server, key, session = self._server, client.key, client.session
        original = received.call
        if original.images:
            original = await server.images.settled(original, server.behind.image_support)
        call, recalled, engine = await server.storage.turns.recalled(key.name, original)
        server.metrics.count("replayed_turns", "used", by=recalled)
        encoded = await encode_prompt(call, received.body, server, received.size)
        prompt, ids, tokens, is_exact = encoded
        if tokens >= server.model.context:
            raise ContextOverflow(tokens, server.model.context)
        grammar, later = await self._grammars(call)
        options = replace(
            self._options(call, tokens, client),
            grammar=grammar,
            grammar_after_reasoning=later,
            extra=fields_of(server.backend).read(received.body, _is_answer(call)),
        )
        is_forced = call.request.tool_choice not in FREE_CHOICES
        return PromptedRequest(
            received=received,
            call=call,
            encoded=encoded,
            options=options,
            turn_ids=session.call_ids if session else new_turn_ids(call.n),
            opening_size=written_ids(call, prompt, ids, server.tokenizer),
            shared=server.shared_tokens(key.name, encoded),
            images=ImageFacts(call.images, call.replaced_images, tokens if is_exact else None),
            recalled=recalled,
            engine=engine,
            opening=forced_opening(call, server.backend) if is_forced else "",
        )

    async def _grammars(self, call: ApiRequest) -> tuple[Grammar | None, MakeGrammar | None]:
        """The grammar of a call that the model must write, or of the form of its answer; and a
        function that makes one for a backend that applies grammars only after the reasoning."""
        form = self._server.backend.grammar_form
        request = call.request
        is_forced = request.tool_choice not in FREE_CHOICES
        if form is None or not (is_forced or request.response_format):
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


def _is_answer(call: ApiRequest) -> bool:
    """Whether a completion is only the text of an answer."""
    request = call.request
    return not (request.thinking or request.tools or request.response_format)


def written_ids(
    call: ApiRequest, prompt: Prompt, ids: list[int] | None, tokenizer: Tokenizer | None
) -> int:
    """The number of ids at the end of a prompt that open the call that the model must write."""
    opening = prompt.ending.open
    is_free = call.request.tool_choice in FREE_CHOICES
    if ids is None or tokenizer is None or not opening or is_free:
        return 0
    opening_ids = markup_ids(tokenizer, opening)
    return len(opening_ids) if ids[-len(opening_ids) :] == opening_ids else 0


def _unenforceable(call: ApiRequest, error: ValueError) -> ApiError:
    """The error for a request that cannot be written as a grammar: another try would not help."""
    if not isinstance(error, (OptionError, EncodeError)):
        return ApiError(f"this cannot be enforced: {error}")
    path = client_path(call, error.location)
    return ApiError(f"this cannot be enforced: {error.problem}", path=path)

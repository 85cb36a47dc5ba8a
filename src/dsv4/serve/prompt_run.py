"""One request being answered by an engine: its prompt is continued, and the turn is remembered as
it was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from dsv4.serve.backend import AnyBackend, Backend, Chunks
from dsv4.serve.choice_reader import ChoiceReader, CompletionReader
from dsv4.serve.completion_run import CompletionRun, PreparedRequest
from dsv4.serve.forced_generation import ForcedGeneration
from dsv4.serve.storage.stored_turns import SampledTurn
from dsv4.serve.upstreams.engine_pool import PromptPrefix


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptedRequest(PreparedRequest):
    """A request for an engine. `engine` wrote the last of its turns; `opening` begins a call that
    must follow the reasoning."""

    engine: str | None = None
    opening: str = ""


class PromptRun(CompletionRun[PromptedRequest]):
    """One generation of an engine's."""

    def _new_reader(self) -> ChoiceReader:
        prepared, tokenizer = self._prepared, self._server.tokenizer
        grammar = prepared.options.grammar
        return CompletionReader(prepared.call, prepared.prompt, tokenizer, grammar)

    def _stream_of(self, backend: AnyBackend, choice: int) -> Chunks:
        engine = cast(Backend, backend)  # as what is no chat server must be
        prepared, tokenizer = self._prepared, self._server.tokenizer
        prompt, ids, options = prepared.prompt, prepared.ids, prepared.options
        if not prepared.opening:
            return engine.stream(prompt, ids, options)
        forced = ForcedGeneration(engine, prompt, ids, options, prepared.opening, tokenizer)
        return forced.chunks()

    def _new_prefix(self) -> PromptPrefix:
        prepared = self._prepared
        return PromptPrefix.of_prompt(prepared.prompt, prepared.ids, prepared.engine)

    def _as_client_knows(self, turn: SampledTurn) -> SampledTurn:
        return turn

    async def _remember(self, turn: SampledTurn) -> None:
        before = [_plain_message(message) for message in self._prepared.call.request.messages]
        await self._server.storage.turns.remember(self._prepared.key.name, before, turn)


def _plain_message(message: object) -> Mapping[str, Any]:
    found = getattr(message, "message", message)
    return found if isinstance(found, Mapping) else {}

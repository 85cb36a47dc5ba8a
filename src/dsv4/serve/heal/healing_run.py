"""One request being answered by a chat server, and what it got wrong put right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from dsv4.serve.backend import AnyBackend, ChatBackend, Chunks
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.completion_run import CompletionRun, PreparedRequest
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.heal.request_adapter import SentRequest
from dsv4.serve.storage.stored_turns import SampledTurn
from dsv4.serve.upstreams.engine_pool import PromptPrefix


@dataclass(frozen=True, slots=True, kw_only=True)
class HealedRequest(PreparedRequest):
    """A request for a chat server: `sent` is what it gets in place of the prompt."""

    sent: SentRequest


class HealingRun(CompletionRun[HealedRequest]):
    """One generation of a chat server's."""

    def _new_reader(self) -> ChoiceReader:
        return HealingReader(self._prepared.call, self._server.tokenizer)

    def _stream_of(self, backend: AnyBackend) -> Chunks:
        return cast(ChatBackend, backend).stream_request(self._prepared.sent.body)

    def _new_prefix(self) -> PromptPrefix:
        return PromptPrefix.of_messages(self._prepared.sent.body)

    def _as_client_knows(self, turn: SampledTurn) -> SampledTurn:
        return self._prepared.sent.kept(turn)

    async def _remember(self, turn: SampledTurn) -> None:
        adapter = self._server.adapter
        if adapter is not None:
            await adapter.remember(self._prepared.key.name, self._prepared.sent, turn)

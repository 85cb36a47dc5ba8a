"""One request being answered by a chat server, and what it got wrong put right."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import cast

from dsv4.api.protocols import ApiProtocol
from dsv4.serve.backend import AnyBackend, BackendError, ChatBackend, Chunks
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.completion_run import CompletionClient, CompletionRun, PreparedRequest
from dsv4.serve.gateway_state import GatewayState
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

    def __init__(
        self,
        server: GatewayState,
        api: ApiProtocol,
        prepared: HealedRequest,
        client: CompletionClient,
        debug: bool,
    ) -> None:
        self._healer = server.healer
        self._sent_again: set[int] = set()  # choices whose request was refused as it was
        self._adapts = client.headers.get("x-dsv4-adapt", "").lower() != "off"
        super().__init__(server, api, prepared, client, debug)

    def _new_reader(self) -> ChoiceReader:
        return HealingReader(self._prepared.call, self._server.tokenizer, self._healer.habits)

    def _stream_of(self, backend: AnyBackend, choice: int) -> Chunks:
        chat = cast(ChatBackend, backend)
        if choice in self._sent_again:
            return self._adapted_again(chat, choice)
        return chat.stream_request(self._prepared.sent.body)

    def _takes_over(self, choice: int, error: BackendError) -> bool:
        learns = self._adapts and choice not in self._sent_again
        if learns and self._healer.learns_from(error):
            self._sent_again.add(choice)
            return True
        return super()._takes_over(choice, error)

    async def _adapted_again(self, backend: ChatBackend, choice: int) -> Chunks:
        """The answer to the same request, adapted to what its refusal has shown. Names of tools
        stay as they were: the client may have seen some."""
        prepared, key = self._prepared, self._prepared.key
        received = prepared.received
        sent = await self._healer.adapter.adapted(
            key.name, received.call, received.body, renames=False
        )
        call = sent.read_with(prepared.call)
        self._prepared = replace(prepared, sent=sent, adapted=sent.adapted, call=call)
        self._readers[choice] = self._new_reader()
        async with aclosing(backend.stream_request(sent.body)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _new_prefix(self) -> PromptPrefix:
        return PromptPrefix.of_messages(self._prepared.sent.body)

    def _as_client_knows(self, turn: SampledTurn) -> SampledTurn:
        return self._prepared.sent.kept(turn)

    async def _remember(self, turn: SampledTurn) -> None:
        await self._healer.adapter.remember(self._prepared.key.name, self._prepared.sent, turn)

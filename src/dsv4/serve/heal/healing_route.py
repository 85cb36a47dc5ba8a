"""Requests that a chat server answers: adapted to what it takes, and with all their fields."""

from __future__ import annotations

import time
from dataclasses import replace

from dsv4.api import ApiRequest
from dsv4.api.protocols import with_flat_names
from dsv4.api.request_fields import UNSUPPORTED_FIELDS, JsonObject
from dsv4.serve.completion_route import CompletionRoute
from dsv4.serve.completion_run import CompletionClient, ReceivedRequest
from dsv4.serve.heal.healing_run import HealedRequest, HealingRun
from dsv4.serve.heal.request_adapter import SentRequest, sent_as_given
from dsv4.serve.images.request_images import refuse_files
from dsv4.serve.prompt_encoding import encode_prompt
from dsv4.serve.prompt_route import new_turn_ids
from dsv4.serve.sessions.session_calls import SessionEntry


class HealingRoute(CompletionRoute[HealedRequest]):
    """The route of one protocol in front of a chat server, which makes its own prompts."""

    @property
    def _passes_on(self) -> bool:
        """Whether bodies are sent as they are, with all their fields."""
        return self._protocol == "chat"

    def _unread(self, body: JsonObject) -> list[str]:
        return [] if self._passes_on else super()._unread(body)

    def _read_call(self, body: JsonObject) -> ApiRequest:
        call = super()._read_call(without_the_servers_own(body) if self._passes_on else body)
        return replace(call, names=with_flat_names(call.names))

    def _in_session(self, read: ReceivedRequest, session: SessionEntry) -> ReceivedRequest:
        applied = super()._in_session(read, session)
        return replace(applied, body={**read.body, **session.sampling})

    async def _prepare(self, received: ReceivedRequest, client: CompletionClient) -> HealedRequest:
        server, key, session = self._server, client.key, received.session
        began = time.monotonic()
        sent = await self._sent(received, client)
        call = sent.read_with(received.call)
        # The server makes a prompt of its own. This one is only counted and shown.
        prompt, ids, tokens, _ = await encode_prompt(call, server, received.size)
        options = self._options(call, tokens)
        return HealedRequest(
            key=key,
            received=received,
            call=call,
            prompt=prompt,
            ids=ids,
            prompt_tokens=tokens,
            options=options if session is None else session.options(options),
            turn_ids=session.call_ids if session else tuple(new_turn_ids(call.n)),
            shared=server.shared_tokens(key.name, prompt, ids),
            images=sent.image_facts(call),
            adapted=sent.adapted,
            began=began,
            sent=sent,
        )

    async def _sent(self, received: ReceivedRequest, client: CompletionClient) -> SentRequest:
        """What the server is sent."""
        if client.headers.get("x-dsv4-adapt", "").lower() == "off":
            sent = sent_as_given(received.call, received.body)
            refuse_files(sent.body)
            return sent
        sent = await self._server.healer.adapter.adapted(
            client.key.name, received.call, received.body
        )
        refuse_files(sent.body)
        self._server.metrics.count_adaptations(sent.adapted)
        return sent

    def _run_of(self, prepared: HealedRequest, client: CompletionClient, debug: bool) -> HealingRun:
        return HealingRun(self._server, self._api, prepared, client, debug)


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

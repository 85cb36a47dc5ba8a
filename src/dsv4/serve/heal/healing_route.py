"""Requests that a chat server answers: adapted to it, and with all their fields. Errors in its
answers are repaired.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from dsv4.api import ApiRequest
from dsv4.api.protocols import with_flat_names
from dsv4.api.request_fields import UNSUPPORTED_FIELDS, JsonObject
from dsv4.profiles.official_messages import is_web_tool
from dsv4.serve import asgi
from dsv4.serve.backend import AnyBackend, BackendError, ChatBackend, Chunks
from dsv4.serve.body_limits import read_json
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.completion_route import CompletionRoute
from dsv4.serve.completion_run import CompletionClient, CompletionRun
from dsv4.serve.heal.adapted_messages import is_file, without
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.heal.native_requests import FILES_HEADER, ROUTES, may_be_native, native_body
from dsv4.serve.heal.passed_routes import PassedRun, pass_on
from dsv4.serve.heal.request_adapter import (
    KEPT_FIELDS,
    SentRequest,
    sent_as_given,
    without_server_blocks,
)
from dsv4.serve.images.request_images import refuse_files
from dsv4.serve.observe.logs import RequestReport
from dsv4.serve.prepared_request import PreparedRequest, ReceivedRequest, new_turn_ids
from dsv4.serve.prompt_encoding import encode_prompt
from dsv4.serve.sessions.session_calls import SessionEntry
from dsv4.serve.storage.stored_turns import SampledTurn
from dsv4.serve.upstreams.engine_pool import PromptPrefix
from dsv4.serve.upstreams.passed_headers import passing_on


@dataclass(frozen=True, slots=True, kw_only=True)
class HealedRequest(PreparedRequest):
    """A request for a chat server: `outgoing` is sent in place of the prompt."""

    outgoing: SentRequest


class HealingRun(CompletionRun[HealedRequest]):
    """One generation of a chat server."""

    @cached_property
    def _sent_again(self) -> set[int]:
        """The choices whose request was refused in its first form."""
        return set()

    def _new_reader(self) -> ChoiceReader:
        prepared, server = self._prepared, self._server
        # A request that was adapted again has another prompt, which the reader makes for itself.
        prompt = None if self._sent_again else prepared.encoded.prompt
        return HealingReader(prepared.call, server.tokenizer, server.healer.habits, prompt)

    def _stream_of(self, backend: AnyBackend, choice: int) -> Chunks:
        chat = cast(ChatBackend, backend)
        if choice in self._sent_again:
            return self._adapted_again(chat, choice)
        return chat.stream_request(self._prepared.outgoing.body)

    def _takes_over(self, choice: int, error: BackendError) -> bool:
        learns = adapts(self._client.headers) and choice not in self._sent_again
        if learns and self._server.healer.learns_from(error):
            self._sent_again.add(choice)
            return True
        return super()._takes_over(choice, error)

    async def _adapted_again(self, backend: ChatBackend, choice: int) -> Chunks:
        """The answer to the same request, adapted to the rules that its refusal has shown. Names of
        tools stay as they were: the client may have seen some."""
        prepared, key = self._prepared, self._client.key
        received = prepared.received
        outgoing = await self._server.healer.adapter.adapted(
            key.name, received.call, received.body, renames=False
        )
        call = outgoing.read_with(prepared.call)
        self._prepared = replace(prepared, outgoing=outgoing, adapted=outgoing.adapted, call=call)
        self.readers[choice] = self._new_reader()
        async with aclosing(backend.stream_request(outgoing.body)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _new_prefix(self) -> PromptPrefix:
        return PromptPrefix.of_messages(self._prepared.outgoing.body)

    def _as_client_knows(self, turn: SampledTurn) -> SampledTurn:
        return self._prepared.outgoing.client_turn(turn)

    async def _remember(self, turn: SampledTurn) -> None:
        await self._server.healer.adapter.remember(
            self._client.key.name, self._prepared.outgoing, turn
        )


class HealingRoute(CompletionRoute[HealedRequest]):
    """The route of one protocol in front of a chat server, which makes its own prompts."""

    _run_class = HealingRun

    async def _passed_on(
        self,
        scope: asgi.Scope,
        receive: asgi.Receive,
        send: asgi.Send,
        report: RequestReport,
        data: bytes,
    ) -> int | None:
        if not (self._server.model.is_official and may_be_native(self._protocol, data)):
            return None
        headers = asgi.headers_of(scope)
        body = read_json(data)
        keeps = self._server.storage.turns.store is not None and body.get("store") is not False
        native = native_body(body, self._protocol, keeps)
        if native is None or report.key is None or not adapts(headers):
            return None
        report.key.limits.check_model(body.get("model"))
        report.passed_to = address = ROUTES[self._protocol]
        sent = json.dumps(native, ensure_ascii=False).encode("utf-8", "replace")
        run = PassedRun(send, sent, report.id, {"x-dsv4-passed-to": address})
        with passing_on(FILES_HEADER):
            return await pass_on(self._server, run, report, receive, "POST", address)

    def _unread(self, body: JsonObject) -> list[str]:
        # Bodies of this protocol are sent as they are, with all their fields.
        fields = [] if self._protocol == "chat" else super()._unread(body)
        return [field for field in fields if field not in KEPT_FIELDS]

    def _read_call(self, body: JsonObject) -> ApiRequest:
        is_chat = self._protocol == "chat"
        own = without_the_servers_own(body) if is_chat else without_server_blocks(body)
        if self._server.model.is_official and not own.get("tools"):
            own = without(own, "tool_choice")  # as the server does
        call = super()._read_call(own)
        return replace(call, names=with_flat_names(call.names))

    def _in_session(self, request: ReceivedRequest, session: SessionEntry) -> ReceivedRequest:
        inside = super()._in_session(request, session)
        return replace(inside, body={**request.body, **session.sampling})

    async def _prepare(self, received: ReceivedRequest, client: CompletionClient) -> HealedRequest:
        server, session = self._server, client.session
        outgoing = await self._outgoing(received, client)
        call = outgoing.read_with(received.call)
        # The server makes a prompt of its own. This one is only counted and shown.
        encoded = await encode_prompt(call, received.body, server, received.size)
        return HealedRequest(
            received=received,
            call=call,
            encoded=encoded,
            options=self._options(call, encoded.tokens, client),
            turn_ids=session.call_ids if session else new_turn_ids(call.n),
            shared=server.shared_tokens(client.key.name, encoded),
            images=outgoing.image_facts(call),
            adapted=outgoing.adapted,
            outgoing=outgoing,
        )

    async def _outgoing(self, received: ReceivedRequest, client: CompletionClient) -> SentRequest:
        """The request as it is sent to the server."""
        if not adapts(client.headers):
            outgoing = sent_as_given(received.call, received.body)
            refuse_files(outgoing.body)
            return outgoing
        outgoing = await self._server.healer.adapter.adapted(
            client.key.name, received.call, received.body
        )
        refuse_files(outgoing.body)
        self._server.metrics.count_adaptations(outgoing.adapted)
        return outgoing


def adapts(headers: Mapping[str, str]) -> bool:
    """Whether a client leaves it to the gateway to adapt its request."""
    return headers.get("x-dsv4-adapt", "").lower() != "off"


def without_the_servers_own(body: JsonObject) -> JsonObject:
    """The body of a chat request without what the server itself decides: fields that only the
    server knows; answers at the end that are not to be continued, which servers continue, close or
    repeat; and whether there is a user's message to answer."""
    unsupported = UNSUPPORTED_FIELDS["chat"]
    own = {name: value for name, value in body.items() if name not in unsupported}
    tools = own.get("tools")
    if isinstance(tools, list) and any(map(is_web_tool, tools)):
        own["tools"] = [tool for tool in tools if not is_web_tool(tool)]
    messages = own.get("messages")
    if isinstance(messages, list):
        messages = [_readable(message) for message in messages if not _is_reminder(message)]
        if messages and not any(map(_is_of_a_user, messages)):
            messages.insert(-1, {"role": "user", "content": ""})
        end = len(messages)
        while end > 1 and _is_closed_answer(messages[end - 1]):
            end -= 1
        own["messages"] = _with_lost_results(messages[:end])
    return own


def _is_of_a_user(message: Any) -> bool:
    return not isinstance(message, dict) or message.get("role") in ("user", "tool")


def _with_lost_results(messages: list[Any]) -> list[Any]:
    """The messages with empty results for calls right before an answer that is to be continued. The
    gateway does not continue it: the server decides about calls without results."""
    start = len(messages) - 1
    while start > 0 and _is_closed_answer(messages[start - 1]):
        start -= 1
    answered = messages[:start]
    for message in messages[start:]:
        answered.append(message)
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        if message is messages[-1] or not isinstance(calls, list):
            continue
        ids = [call.get("id") for call in calls if isinstance(call, dict)]
        answered += [{"role": "tool", "tool_call_id": id, "content": ""} for id in ids]
    return answered


def _is_reminder(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "latest_reminder"


def _readable(message: Any) -> Any:
    """A message without references to files, which are stored only on the server."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or not any(map(is_file, content)):
        return message
    return {**message, "content": [part for part in content if not is_file(part)]}


def _is_closed_answer(message: object) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") == "assistant"
        and not message.get("prefix")
    )

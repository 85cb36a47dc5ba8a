"""Requests on their way to a chat server: turned into Chat Completions, with incomplete turns
restored as they were sampled, and adapted to the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, cast

from dsv4._encode.inputs import fields_of
from dsv4.api import ApiRequest
from dsv4.api.neutral_request import FLAT_SEPARATOR, NAMESPACE_SEPARATOR
from dsv4.api.protocols import TurnMarks, marked_chat_body
from dsv4.api.request_fields import JsonObject
from dsv4.serve.heal.adaptations import (
    ADAPTATIONS,
    RESTORED_REASONING,
    RESTORED_TURNS,
    AdaptedServer,
    adapted,
    renamed_tool,
    server_names,
)
from dsv4.serve.heal.adapted_messages import reasoning_of, text_of
from dsv4.serve.prepared_request import NO_IMAGES, ImageFacts
from dsv4.serve.storage.stored_turns import SampledTurn, SampledTurns, says_the_same
from dsv4.types import ToolInput

_BY_ID = {adaptation.id: adaptation for adaptation in ADAPTATIONS}


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as a chat server gets it: the body, the ids of the adaptations in it, and the
    client's names of tools that were renamed. `originals` are the messages before they were
    adapted."""

    body: JsonObject
    originals: Sequence[JsonObject]
    adapted: tuple[str, ...] = ()
    names: Mapping[str, str] | None = None
    thinking: bool | None = None

    def read_with(self, call: ApiRequest) -> ApiRequest:
        """The request by which the answer is read: with the names and the mode that were sent."""
        request = call.request
        if self.thinking is not None and self.thinking != request.thinking:
            request = replace(request, thinking=self.thinking)
        if self.names:
            new_names = {client: server for server, client in self.names.items()}
            tools = [renamed_tool(fields_of(tool), new_names) for tool in request.tools or ()]
            request = replace(request, tools=cast("list[ToolInput]", tools))
            own_names = call.names
            names = {server: own_names[c] for server, c in self.names.items() if c in own_names}
            call = replace(call, names={**own_names, **names})
        return call if request is call.request else replace(call, request=request)

    def image_facts(self, call: ApiRequest) -> ImageFacts:
        """The numbers of the client's images that are sent, and that a text replaces."""
        count = call.images + call.replaced_images
        sent_count = _count_images(self.body.get("messages") or ())
        return NO_IMAGES if not count else ImageFacts(sent_count, count - sent_count)

    def client_turn(self, turn: SampledTurn) -> SampledTurn:
        """A turn of the answer, with the client's own names of tools."""
        names = self.names or {}
        calls = []
        for call in turn.calls:
            flat = call.name.replace(NAMESPACE_SEPARATOR, FLAT_SEPARATOR)
            calls.append(replace(call, name=names.get(flat, flat)))
        return replace(turn, calls=tuple(calls))


def _count_images(messages: Sequence[JsonObject]) -> int:
    contents = (message.get("content") for message in messages if isinstance(message, dict))
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


def sent_as_given(call: ApiRequest, body: JsonObject) -> SentRequest:
    """A request that is passed on without adaptations."""
    chat, _ = marked_chat_body(body, call.protocol)
    return SentRequest(chat, chat.get("messages") or ())


# Fields that the official API reads in every protocol, and that Chat Completions has no other place
# for.
KEPT_FIELDS = ("safety_check",)
# Blocks of Messages for steps that a server ran itself: other servers cannot use them.
_SERVER_BLOCKS = ("server_tool_use", "web_search_tool_result")


def without_server_blocks(body: JsonObject) -> JsonObject:
    """A request of Messages without the blocks for steps that the server ran itself."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    kept = [_without_server_blocks(message) for message in messages]
    return body if all(map(is_, kept, messages)) else {**body, "messages": kept}


def _without_server_blocks(message: Any) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    rest = [b for b in blocks if not isinstance(b, dict) or b.get("type") not in _SERVER_BLOCKS]
    return message if len(rest) == len(blocks) else {**message, "content": rest}


class RequestAdapter:
    """Adapts requests to one server, with the turns that were seen before."""

    def __init__(self, server: AdaptedServer | None, turns: SampledTurns, *, keeps: bool) -> None:
        """Without a `server`, requests are passed on unchanged. `keeps` says that turns are kept
        all the same."""
        self.server = server
        self._turns = turns
        self._keeps = keeps

    async def adapted(
        self, owner: str, call: ApiRequest, body: JsonObject, *, renames: bool = True
    ) -> SentRequest:
        """A client's request as the server takes it; tools are renamed only if it `renames`. Raises
        an `ApiError` where nothing like it would be accepted."""
        server = self.server
        if server is None:
            return sent_as_given(call, body)
        if not renames:
            server = replace(server, off=server.off | {"tool-names"})
        chat, marks = marked_chat_body(without_server_blocks(body), call.protocol)
        kept = {name: body[name] for name in KEPT_FIELDS if name in body}
        chat = {**chat, **kept} if kept else chat
        messages = chat.get("messages") or []
        exact, restorations = await self._restored(owner, messages, marks, server)
        if restorations:
            chat = {**chat, "messages": exact}
        renames = _BY_ID["tool-names"].applies(server)
        names = {new: old for old, new in server_names(chat).items()} if renames else {}
        chat, changes = adapted(chat, server)
        thinking = server.thinks(chat)
        return SentRequest(chat, messages, (*restorations, *changes), names, thinking)

    async def remember(self, owner: str, outgoing: SentRequest, turn: SampledTurn) -> None:
        """Keeps a turn of an answer, by the client's own names, for when it is sent back."""
        if self._keeps:
            await self._turns.remember(owner, _plain(outgoing.originals), turn, by_place=True)

    # Restoring.

    async def _restored(
        self, owner: str, originals: Sequence[JsonObject], marks: TurnMarks, server: AdaptedServer
    ) -> tuple[Sequence[JsonObject], tuple[str, ...]]:
        """The messages with turns restored, and the ids of the adaptations that restored them."""
        allowed = {id for id in (RESTORED_REASONING, RESTORED_TURNS) if _BY_ID[id].applies(server)}
        if not allowed:
            return originals, ()
        plain = _plain(originals)
        turns = await self._turns.turns_in(owner, plain, marks, _is_turn_or_part, in_parts=True)
        messages, ids = list(originals), set[str]()
        for n, turn in turns.items():
            messages[n], changes = _put_back(originals[n], plain[n], turn, allowed)
            ids |= changes
        return messages, tuple(id for id in (RESTORED_REASONING, RESTORED_TURNS) if id in ids)


def _plain(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages with one text in place of each list of texts."""
    return [_plain_message(message) for message in messages]


def _plain_message(message: JsonObject) -> JsonObject:
    content = message.get("content")
    text = text_of(content) if isinstance(content, list) else None
    return message if text is None else {**message, "content": text}


def _is_turn_or_part(turn: SampledTurn, message: Mapping[str, Any]) -> bool:
    """Whether a message says the same as a turn, or has only calls of that turn: clients change
    turns, and split them. The client's words are then kept, with the reasoning of this turn."""
    if says_the_same(turn, message):
        return True
    own = {call.id: call.name for call in turn.calls}
    calls = message.get("tool_calls") or ()
    theirs = [(c.get("id"), (c.get("function") or {}).get("name")) for c in calls]
    return bool(theirs) and all(own.get(id) == name for id, name in theirs)


def _put_back(
    original: JsonObject, plain: JsonObject, turn: SampledTurn, allowed: set[str]
) -> tuple[JsonObject, set[str]]:
    """A message restored as it was sampled, as far as `allowed`, and the ids of the adaptations
    that changed it."""
    message, changes = original, set()
    reasoning = reasoning_of(original)
    if RESTORED_REASONING in allowed and turn.reasoning and not reasoning.strip():
        rest = {name: value for name, value in original.items() if name != "reasoning"}
        message = {**rest, "reasoning_content": turn.reasoning}
        changes.add(RESTORED_REASONING)
    if RESTORED_TURNS in allowed and says_the_same(turn, plain):
        exact = _as_sampled(message, turn)
        if exact != message:
            message = exact
            changes.add(RESTORED_TURNS)
    return message, changes


def _as_sampled(message: JsonObject, turn: SampledTurn) -> JsonObject:
    exact = dict(message)
    if (message.get("content") or "") != turn.content:
        exact["content"] = turn.content
    if reasoning_of(message) and reasoning_of(message) != turn.reasoning:
        exact.pop("reasoning", None)
        exact["reasoning_content"] = turn.reasoning
    calls = message.get("tool_calls")
    if calls:
        exact["tool_calls"] = [
            {**theirs, "function": {**theirs["function"], "arguments": ours.arguments}}
            for theirs, ours in zip(calls, turn.calls, strict=True)
        ]
    return exact

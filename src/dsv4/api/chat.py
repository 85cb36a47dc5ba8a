"""OpenAI's Chat Completions: `read`, `Writer`, `frames`, `fold`, `whole` and `error`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dsv4._completion.events import ContentDelta, ReasoningDelta
from dsv4.api import event_writer
from dsv4.api.chat_requests import read
from dsv4.api.errors import error, error_body
from dsv4.api.event_writer import Events, EventWriter, HeldCall, Logprobs, ProtocolEvent, Usage

__all__ = ["Writer", "error", "fold", "frames", "read", "whole"]


class LastChunk(dict[str, Any]):
    """The chunk after which a stream says that it is done."""


class Comment(list[ProtocolEvent]):
    """No event, but something to send: a comment that keeps a connection alive."""


class ChatWriter(EventWriter):
    """The chunks of a completion.

    `call` is the request that is answered. `id` (made if not given), `created` (a time in seconds)
    and `model` (the request's if not given) are written into the response. `seal` is called when
    reasoning ends and returns the mark that the client is to give back with it.
    """

    id_prefix = "chatcmpl-"
    interleaves = True
    frame: Callable[[ProtocolEvent], bytes] = staticmethod(event_writer.unnamed_frame)

    def _set_up(self) -> None:
        field = self.call.settings.reasoning_field
        self._fields: tuple[str, ...] = (
            ("reasoning_content", "reasoning") if field == "both" else (field,)
        )

    def start(self, input_tokens: int = 0, cached: int | None = None) -> Events:
        """The first chunk of every choice, which gives the role."""
        self._input = Usage(prompt=input_tokens, cached=cached)
        role = {"role": "assistant", "content": ""}
        return [self._chunk(dict(role), choice) for choice in range(self.call.n)]

    def keep_alive(self) -> Events:
        """A comment, which is not an event: `frames` writes it."""
        return Comment()

    def fail(self, error: BaseException) -> Events:
        """The error object of the protocol, which must be the last thing of a stream."""
        return [error_body(error)]

    def finish(
        self, usage: Usage | None = None, reason: event_writer.FinishReason = None
    ) -> Events:
        """The last chunk of every choice, and the usage.

        `usage` are the counted tokens, `reason` is the engine's reason to stop: one for all
        choices, or a list of them.
        """
        events = [
            self._chunk({}, choice, finish=self._finish(choice, reason))
            for choice in range(self.call.n)
        ]
        counted = usage_fields(usage or self._input)
        events[-1]["usage"] = counted
        if self.call.include_usage:
            events.append({**self._head(), "choices": [], "usage": counted})
        return [*events[:-1], LastChunk(events[-1])]

    def _finish(self, choice: int, reason: event_writer.FinishReason) -> str:
        why = self._reason(choice, reason)
        return "stop" if why == "stop_string" else why

    def reasoning(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        if len(self._fields) == 1:
            self._open(ReasoningDelta, choice)
        delta = dict.fromkeys(self._fields, text)
        return [self._chunk(delta, choice, self._logprobs("reasoning_content", logprobs))]

    def content(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        self._open(ContentDelta, choice)
        return [self._chunk({"content": text}, choice, self._logprobs("content", logprobs))]

    def _open(self, event: type, choice: int) -> None:
        if self.template_event is not event or self.template_choice != choice:
            field = "content" if event is ContentDelta else self._fields[0]
            self.set_template(event, choice, self._chunk({field: "\0"}, choice))

    def call_start(self, call: HeldCall, choice: int) -> Events:
        self.drop_template()
        started = {"id": call.id, "type": "function"}
        function = {"name": event_writer.full_tool_name(call.tool), "arguments": ""}
        return [self._call_chunk(call, choice, {**started, "function": function})]

    def call_arguments(self, call: HeldCall, text: str, choice: int) -> Events:
        return [self._call_chunk(call, choice, {"function": {"arguments": text}})] if text else []

    def call_delta(self, call: HeldCall, choice: int) -> ProtocolEvent:
        return self._call_chunk(call, choice, {"function": {"arguments": "\0"}})

    def call_end(self, call: HeldCall, choice: int) -> Events:
        return []

    def _head(self) -> ProtocolEvent:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
        }

    def _chunk(
        self,
        delta: dict[str, Any],
        choice: int,
        logprobs: dict[str, Any] | None = None,
        finish: str | None = None,
    ) -> ProtocolEvent:
        chosen = {"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return {**self._head(), "choices": [chosen]}

    def _call_chunk(self, call: HeldCall, choice: int, delta: dict[str, Any]) -> ProtocolEvent:
        return self._chunk({"tool_calls": [{"index": call.position, **delta}]}, choice)

    def _logprobs(self, field: str, logprobs: Logprobs) -> dict[str, Any] | None:
        if not self.call.logprobs or logprobs is None:
            return None
        return {"content": None, "refusal": None, field: list(logprobs)}


Writer = ChatWriter


def frames(events: Iterable[ProtocolEvent]) -> bytes:
    """The bytes of `events`, as server-sent events."""
    if isinstance(events, Comment):
        return event_writer.KEEP_ALIVE_FRAME
    return b"".join(
        event_writer.unnamed_frame(event) + event_writer.DONE_FRAME
        if isinstance(event, LastChunk)
        else event_writer.unnamed_frame(event)
        for event in events
    )


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Usage as Chat Completions writes it, with the fields that DeepSeek adds."""
    fields: dict[str, Any] = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if usage.cached is None:  # a zero would say that nothing was cached
        return fields
    return {
        **fields,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "prompt_cache_hit_tokens": usage.cached,
        "prompt_cache_miss_tokens": usage.prompt - usage.cached,
    }


def fold(events: Iterable[ProtocolEvent]) -> dict[str, Any]:
    """The whole completion, put together from its chunks, `events`."""
    head: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        if not head:
            fields = ("id", "object", "created", "model")
            head = {field: event.get(field) for field in fields}
        if event.get("usage"):
            head["usage"] = event["usage"]
        for chunk in event.get("choices") or ():
            index = chunk.get("index") or 0
            _fold_choice(choices.setdefault(index, _new_choice(index)), chunk)
    whole = [_finished(choices[index]) for index in sorted(choices)]
    usage = head.pop("usage", None)
    return {**head, "object": "chat.completion", "choices": whole, "usage": usage}


def _new_choice(index: int) -> dict[str, Any]:
    return {"index": index, "texts": {}, "calls": {}, "logprobs": {}, "finish_reason": "stop"}


def _fold_choice(choice: dict[str, Any], chunk: dict[str, Any]) -> None:
    """Adds a chunk to a choice. Other servers write null for an empty field, or leave it out."""
    for field, value in (chunk.get("delta") or {}).items():
        if field == "tool_calls":
            for call in value or ():
                _fold_call(choice["calls"], call)
        elif field != "role" and value is not None:
            choice["texts"].setdefault(field, []).append(value)
    for field, tokens in (chunk.get("logprobs") or {}).items():
        if tokens:
            choice["logprobs"].setdefault(field, []).extend(tokens)
    if chunk.get("finish_reason"):
        choice["finish_reason"] = chunk["finish_reason"]


def _fold_call(calls: dict[int, dict[str, Any]], delta: dict[str, Any]) -> None:
    function = delta.get("function") or {}
    call = calls.setdefault(delta.get("index") or 0, {"id": None, "name": None, "parts": []})
    call["id"] = call["id"] or delta.get("id")
    call["name"] = call["name"] or function.get("name")
    call["parts"].append(function.get("arguments") or "")


def _finished(choice: dict[str, Any]) -> dict[str, Any]:
    texts = {field: "".join(parts) for field, parts in choice["texts"].items()}
    message: dict[str, Any] = {"role": "assistant", "content": texts.pop("content", ""), **texts}
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": "".join(call["parts"])},
        }
        for _, call in sorted(choice["calls"].items())
    ]
    if calls:
        message["tool_calls"] = calls
        message["content"] = message["content"] or None
    logprobs = choice["logprobs"]
    return {
        "index": choice["index"],
        "message": message,
        "logprobs": {"content": None, "refusal": None, **logprobs} if logprobs else None,
        "finish_reason": choice["finish_reason"],
    }


whole: event_writer.WholeResponse = event_writer.WholeResponse(ChatWriter, fold)
"""The response of a request that does not stream: the writer's events, folded.

It takes the request, the parser's events (where several choices are wanted, a list of them for
each), and by name `usage` and `reason` as `Writer.finish`, `id`, `created`, `model` and `seal` as
`Writer` takes them."""

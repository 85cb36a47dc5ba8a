"""Anthropic's Messages: `read`, `Writer`, `frames`, `fold`, `whole` and `error`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from dsv4._completion.events import ContentDelta, ReasoningDelta
from dsv4.api import event_writer
from dsv4.api.errors import ApiError, ContextOverflow, as_api_error
from dsv4.api.event_writer import Events, EventWriter, HeldCall, Logprobs, ProtocolEvent, Usage
from dsv4.api.messages_requests import read
from dsv4.api.neutral_request import mark_id

__all__ = ["Writer", "error", "fold", "frames", "read", "whole"]


STOP_REASONS = {
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "stop_string": "stop_sequence",
    "stop": "end_turn",
}
# Python converts no integers of more than about 4,300 digits.
MAX_INTEGER_DIGITS = 4_000
# The kinds of open blocks: the event that continues one, the type of its deltas and the field of
# their text.
THINKING_BLOCK = (ReasoningDelta, "thinking_delta", "thinking")
TEXT_BLOCK = (ContentDelta, "text_delta", "text")


class MessagesWriter(EventWriter):
    """The stream events of a message.

    `call` is the request that is answered. `id` (made if not given), `created` (a time in seconds)
    and `model` (the request's if not given) are written into the response. `seal` is called when
    reasoning ends and returns the mark that the client is to give back with it.
    """

    id_prefix = "msg_"
    frame: Callable[[ProtocolEvent], bytes] = staticmethod(event_writer.named_frame)

    def _set_up(self) -> None:
        self._index = -1  # the index of the open or last block
        self._open: tuple[type, str, str] | None = None

    def start(self, input_tokens: int = 0, cached: int | None = None) -> Events:
        """The message without its content, with the number of tokens of the prompt."""
        self._input = Usage(prompt=input_tokens, cached=cached)
        message: dict[str, Any] = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_fields(self._input),
        }
        return [{"type": "message_start", "message": message}]

    def keep_alive(self) -> Events:
        """A ping."""
        return [{"type": "ping"}]

    def fail(self, error: BaseException) -> Events:
        """An error event, which must be the last thing of a stream."""
        return [error_body(error)]

    def finish(
        self, usage: Usage | None = None, reason: event_writer.FinishReason = None
    ) -> Events:
        """The end of the open block, the reason why the message ends, and the usage.

        `usage` are the counted tokens, `reason` is the engine's reason to stop.
        """
        outcome = self.outcomes[0]
        why = self._reason(0, reason)
        delta = {
            "stop_reason": STOP_REASONS[why],
            "stop_sequence": outcome.stop if why == "stop_string" else None,
        }
        counted = usage_fields(usage or self._input)
        end = {"type": "message_delta", "delta": delta, "usage": counted}
        return [*self._close(), end, {"type": "message_stop"}]

    def reasoning(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        return [
            *self._turn_to(THINKING_BLOCK, block),
            self._delta("thinking_delta", "thinking", text),
        ]

    def content(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        block = {"type": "text", "text": ""}
        return [*self._turn_to(TEXT_BLOCK, block), self._delta("text_delta", "text", text)]

    def call_start(self, call: HeldCall, choice: int) -> Events:
        block = {
            "type": "tool_use",
            "id": call.id,
            "name": event_writer.full_tool_name(call.tool),
            "input": {},
        }
        return [*self._close(), self._start_block(block)]

    def call_arguments(self, call: HeldCall, text: str, choice: int) -> Events:
        return [self._delta("input_json_delta", "partial_json", text)] if text else []

    def call_delta(self, call: HeldCall, choice: int) -> ProtocolEvent:
        return self._delta("input_json_delta", "partial_json", "\0")

    def call_end(self, call: HeldCall, choice: int) -> Events:
        return [{"type": "content_block_stop", "index": self._index}]

    def call_cut(self, call: HeldCall, choice: int) -> Events:
        return self.call_end(call, choice)

    # One block is open at a time.

    def _turn_to(self, what: tuple[type, str, str], block: dict[str, Any]) -> Events:
        if self._open is what:
            return []
        events = [*self._close(), self._start_block(block)]
        self._open = what
        self.set_template(what[0], 0, self._delta(what[1], what[2], "\0"))
        return events

    def _start_block(self, block: dict[str, Any]) -> ProtocolEvent:
        self._index += 1
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, kind: str, field: str, text: str) -> ProtocolEvent:
        delta = {"type": kind, field: text}
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> Events:
        if self._open is None:
            return []
        events = []
        if self._open is THINKING_BLOCK:
            signature = self._signature()
            events.append(self._delta("signature_delta", "signature", signature))
        self._open = None
        self.drop_template()
        return [*events, {"type": "content_block_stop", "index": self._index}]

    def _signature(self) -> str:
        """The signature of thinking. Clients give it back, and some drop thinking without one."""
        return self._sealed() or mark_id(self.id)


Writer = MessagesWriter


def frames(events: Iterable[ProtocolEvent]) -> bytes:
    """The bytes of `events`, as server-sent events."""
    return b"".join(map(event_writer.named_frame, events))


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Usage as Messages writes it: cached tokens are not counted as input. Their number is null if
    it is unknown."""
    return {
        "input_tokens": usage.prompt - (usage.cached or 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }


def fold(events: Iterable[ProtocolEvent]) -> dict[str, Any]:
    """The whole message, put together from the `events` of a stream."""
    message: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    parts: list[list[str]] = []
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            message = dict(event["message"])
        elif kind == "content_block_start":
            blocks.append(dict(event["content_block"]))
            parts.append([])
        elif kind == "content_block_delta":
            _fold_delta(blocks[-1], parts[-1], event["delta"])
        elif kind == "message_delta":
            message.update(event["delta"])
            message["usage"] = event["usage"]
    message["content"] = [
        _finished(block, "".join(p)) for block, p in zip(blocks, parts, strict=True)
    ]
    return message


DELTA_FIELDS = {
    "thinking_delta": "thinking",
    "text_delta": "text",
    "input_json_delta": "partial_json",
}


def _fold_delta(block: dict[str, Any], parts: list[str], delta: dict[str, Any]) -> None:
    if delta["type"] == "signature_delta":
        block["signature"] = delta["signature"]
    else:
        parts.append(delta[DELTA_FIELDS[delta["type"]]])


def _finished(block: dict[str, Any], text: str) -> dict[str, Any]:
    if block["type"] == "tool_use":
        return {**block, "input": _parse_arguments(text or "{}")}
    return {**block, block["type"]: text}


def _parse_arguments(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_maybe_float)
    except ValueError:  # an integer with more digits than Python converts: it stays text
        return json.loads(text, parse_int=_maybe_number, parse_float=_maybe_float)


def _maybe_float(text: str) -> float | str:
    """The number in a text. One too large for a Python float is not valid JSON: it stays text."""
    number = float(text)
    return number if math.isfinite(number) else text


def _maybe_number(digits: str) -> int | str:
    return int(digits) if len(digits) < MAX_INTEGER_DIGITS else digits


whole: event_writer.WholeResponse = event_writer.WholeResponse(MessagesWriter, fold)
"""The response of a request that does not stream: the writer's events, folded.

It takes the request, the parser's events (where several choices are wanted, a list of them for
each), and by name `usage` and `reason` as `Writer.finish`, `id`, `created`, `model` and `seal` as
`Writer` takes them."""


def error(exception: BaseException) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body of an answer that is an error, for `exception`."""
    return as_api_error(exception).status, error_body(exception)


def error_body(exception: BaseException) -> dict[str, Any]:
    """An error as Anthropic writes it."""
    api_error = as_api_error(exception)
    error: dict[str, Any] = {"type": api_error.type, "message": _anthropic_message(api_error)}
    if api_error.details is not None:
        error["details"] = dict(api_error.details)
    return {"type": "error", "error": error}


def _anthropic_message(error: ApiError) -> str:
    if not isinstance(error, ContextOverflow):
        return str(error)
    return f"prompt is too long: {error.tokens} tokens > {error.limit} maximum"

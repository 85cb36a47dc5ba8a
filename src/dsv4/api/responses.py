"""OpenAI's Responses: `read`, `Writer`, `frames`, `fold`, `whole` and `error`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from dsv4._completion.events import ContentDelta, ReasoningDelta
from dsv4.api import event_writer
from dsv4.api.errors import ApiError, ContextOverflow, as_api_error, error, error_body
from dsv4.api.event_writer import Events, EventWriter, HeldCall, Logprobs, ProtocolEvent, Usage
from dsv4.api.neutral_request import CUSTOM_INPUT, mark_text
from dsv4.api.request_fields import maybe_json
from dsv4.api.responses_requests import read

__all__ = ["Writer", "error", "fold", "frames", "read", "whole"]


# The text of a custom tool's call, which the model writes as the only parameter of a call.


INPUT_OPENING = f'{{"{CUSTOM_INPUT}": "'
# The complete part of a JSON string, up to its end: without the closing quote, half an escape, or
# the first of two escapes that spell one character.
_HEX = "[0-9a-fA-F]"
_PAIR = rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_COMPLETE = re.compile(rf'(?:[^"\\]+|\\[^u]|{_PAIR}|\\u(?![dD][89abAB]){_HEX}{{4}})*')


def custom_input(arguments: str) -> str:
    """The text in complete arguments. If the model wrote anything else, all of the arguments."""
    value = maybe_json(arguments)
    text = value.get(CUSTOM_INPUT) if isinstance(value, dict) and len(value) == 1 else None
    return text if isinstance(text, str) else arguments


class CustomInputStream:
    """Does the same as `custom_input` piece by piece, for arguments sent as they are generated."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._waiting = ""
        self._state = "opening"

    def feed(self, text: str) -> str:
        """The raw text that a piece of arguments adds."""
        if self._state == "closed":
            return ""
        self._waiting += text
        if self._state == "opening" and not self._opens():
            return ""
        piece = self._next_piece()
        self._pieces.append(piece)
        return piece

    @property
    def text(self) -> str:
        """The text returned so far."""
        return "".join(self._pieces)

    def rest(self, arguments: str) -> str:
        """The missing rest of the text, once the arguments are complete."""
        whole, start = custom_input(arguments), self.text
        rest = whole[len(start) :] if whole.startswith(start) else ""
        self._pieces.append(rest)
        return rest

    def _opens(self) -> bool:
        if len(self._waiting) < len(INPUT_OPENING):
            return False
        if not self._waiting.startswith(INPUT_OPENING):
            self._state = "closed"
            return False
        self._waiting = self._waiting[len(INPUT_OPENING) :]
        self._state = "open"
        return True

    def _next_piece(self) -> str:
        match = _COMPLETE.match(self._waiting)
        end = match.end() if match else 0
        escaped, self._waiting = self._waiting[:end], self._waiting[end:]
        if self._waiting[:1] == '"':
            self._state = "closed"
        return str(json.loads(f'"{escaped}"', strict=False)) if escaped else ""


# The parser's events -> stream events, the last with the whole response.


# The reasons why an answer is incomplete, as Responses names them.
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class OpenItem:
    """An open reasoning or message item, with one part that grows."""

    def __init__(self, kind: type, id: str, index: int) -> None:
        self.kind = kind
        self.id = id
        self.index = index
        self.texts: list[str] = []
        self.logprobs: list[dict[str, Any]] = []
        # The bytes of a delta: before its number, between number and text, and after the text.
        self.template: tuple[bytes, bytes, bytes] = (b"", b"", b"")

    @property
    def thinks(self) -> bool:
        return self.kind is ReasoningDelta

    @property
    def place(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index, "content_index": 0}

    def part(self, text: str) -> dict[str, Any]:
        if self.thinks:
            return {"type": "reasoning_text", "text": text}
        logprobs = [_with_bytes(token) for token in self.logprobs]
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        if self.thinks:
            head = {"id": self.id, "type": "reasoning", "status": status, "summary": []}
        else:
            head = {"id": self.id, "type": "message", "status": status, "role": "assistant"}
        return {**head, "content": content}


class ResponsesWriter(EventWriter):
    """The stream events of a response.

    `call` is the request that is answered. `id` (made if not given), `created` (a time in seconds)
    and `model` (the request's if not given) are written into the response. `seal` is called when
    reasoning ends and returns the mark that the client is to give back with it.
    """

    id_prefix = "resp_"
    frame: Callable[[ProtocolEvent], bytes] = staticmethod(event_writer.named_frame)

    def _set_up(self) -> None:
        self._count = -1  # the number of the last event
        self._output: list[dict[str, Any]] = []  # the finished items
        self._open: OpenItem | None = None
        self._inputs: CustomInputStream | None = None  # the custom call that is being sent

    def start(self, input_tokens: int = 0, cached: int | None = None) -> Events:
        """The response without its output, twice, as clients expect it."""
        self._input = Usage(prompt=input_tokens, cached=cached)
        return [
            self._event("response.created", response=self._response("in_progress")),
            self._event("response.in_progress", response=self._response("in_progress")),
        ]

    def keep_alive(self) -> Events:
        """The response in progress, once more: a comment would not reset the timers of clients."""
        return [self._event("response.in_progress", response=self._response("in_progress"))]

    def fail(self, error: BaseException) -> Events:
        """The response with the error, which must be the last thing of a stream."""
        response = self._response("failed", list(self._output))
        response["error"] = _failure_details(as_api_error(error))
        return [self._event("response.failed", response=response)]

    def finish(
        self, usage: Usage | None = None, reason: event_writer.FinishReason = None
    ) -> Events:
        """The end of the open item, and the whole response.

        `usage` are the counted tokens, `reason` is the engine's reason to stop.
        """
        outcome = self.outcomes[0]
        missing = INCOMPLETE.get(self._reason(0, reason))
        status = "completed" if missing is None else "incomplete"
        events = self._close(status)
        output = list(self._output)
        if status == "incomplete":
            unsent = (call for call in outcome.cut if call.position is None)
            output += (self._item(call, "incomplete", call.parts) for call in unsent)
        response = self._response(status, output, usage or self._input)
        if status == "incomplete":
            response["incomplete_details"] = {"reason": missing}
        return [*events, self._event(f"response.{status}", response=response)]

    # Text: one item is open at a time.

    def reasoning(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        events = self._turn_to(ReasoningDelta)
        return [*events, self._delta(text, ())]

    def content(self, text: str, choice: int, logprobs: Logprobs) -> Events:
        events = self._turn_to(ContentDelta)
        return [*events, self._delta(text, logprobs if self.call.logprobs else None)]

    def _turn_to(self, kind: type) -> Events:
        if self._open is not None and self._open.kind is kind:
            return []
        events = self._close("completed")
        prefix = "rs" if kind is ReasoningDelta else "msg"
        prose = OpenItem(kind, f"{prefix}_{self._name}_{len(self._output)}", len(self._output))
        item = prose.item("in_progress", [])
        events += (
            self._event("response.output_item.added", output_index=prose.index, item=item),
            self._event("response.content_part.added", **prose.place, part=prose.part("")),
        )
        self._open = prose
        self.template_event: type | None = kind
        prose.template = self._template(prose)
        return events

    def _delta(self, text: str, logprobs: Logprobs) -> ProtocolEvent:
        prose = self._open
        assert prose is not None
        prose.texts.append(text)
        if prose.thinks:
            return self._event("response.reasoning_text.delta", **prose.place, delta=text)
        prose.logprobs += logprobs or ()
        probabilities = [_without_bytes(token) for token in logprobs or ()]
        kind = "response.output_text.delta"
        return self._event(kind, **prose.place, delta=text, logprobs=probabilities)

    def _template(self, prose: OpenItem) -> tuple[bytes, bytes, bytes]:
        number, self._count = self._count, 10**15  # a number that occurs nowhere else
        frame = event_writer.named_frame(self._delta("\0", None))
        self._count = number
        prose.texts.clear()
        before, _, rest = frame.partition(b"%d" % (10**15 + 1))
        between, _, after = rest.rpartition(event_writer.in_quotes("\0"))
        return before, between, after

    def _close(self, status: str) -> Events:
        prose, self._open = self._open, None
        self.drop_template()
        if prose is None:
            return []
        text = "".join(prose.texts)
        part = prose.part(text)
        item = prose.item(status, [part])
        if prose.thinks:
            item["encrypted_content"] = self._sealed() or mark_text(text)
            text_event = self._event("response.reasoning_text.done", **prose.place, text=text)
        else:
            probabilities = [_without_bytes(token) for token in prose.logprobs]
            kind = "response.output_text.done"
            text_event = self._event(kind, **prose.place, text=text, logprobs=probabilities)
        part_event = self._event("response.content_part.done", **prose.place, part=part)
        return [text_event, part_event, self._item_done(item, prose.index)]

    # Calls.

    def call_start(self, call: HeldCall, choice: int) -> Events:
        events = self._close("completed")
        item = self._item(call, "in_progress", [])
        index = len(self._output)
        events.append(self._event("response.output_item.added", output_index=index, item=item))
        self._inputs = (
            CustomInputStream() if call.tool.kind == "custom" and self._streamed else None
        )
        return events

    def call_arguments(self, call: HeldCall, text: str, choice: int) -> Events:
        if call.tool.kind == "custom":
            text = custom_input(text) if self._inputs is None else self._inputs.feed(text)
        return [self._call_delta(call, text)] if text else []

    def call_end(self, call: HeldCall, choice: int) -> Events:
        events: Events = []
        if self._inputs is not None:
            rest = self._inputs.rest("".join(call.parts))
            events += [self._call_delta(call, rest)] if rest else []
        item = self._item(call, "completed", call.parts)
        place = {"item_id": item["id"], "output_index": len(self._output)}
        if call.tool.kind == "custom":
            if self._inputs is not None:
                item["input"] = self._inputs.text
            kind = "response.custom_tool_call_input.done"
            events.append(self._event(kind, **place, input=item["input"]))
        else:
            kind, whole = "response.function_call_arguments.done", item["arguments"]
            events.append(self._event(kind, **place, name=item["name"], arguments=whole))
        return [*events, self._item_done(item, place["output_index"])]

    def call_cut(self, call: HeldCall, choice: int) -> Events:
        return [self._item_done(self._item(call, "incomplete", call.parts), len(self._output))]

    def _call_delta(self, call: HeldCall, text: str) -> ProtocolEvent:
        custom = call.tool.kind == "custom"
        what = "custom_tool_call_input" if custom else "function_call_arguments"
        place = {"item_id": _item_id(call), "output_index": len(self._output)}
        return self._event(f"response.{what}.delta", **place, delta=text)

    def _item(self, call: HeldCall, status: str, parts: list[str]) -> dict[str, Any]:
        tool, arguments = call.tool, "".join(parts)
        head = {"id": _item_id(call), "status": status, "call_id": call.id, "name": tool.name}
        if tool.namespace is not None:
            head["namespace"] = tool.namespace
        if tool.kind == "custom":
            text = custom_input(arguments) if arguments else ""
            return {"type": "custom_tool_call", **head, "input": text}
        return {"type": "function_call", **head, "arguments": arguments}

    # Frames.

    def text_frame(self, text: str, written: bytes = b"") -> bytes:
        """The frame of `text` as a further piece of the open item, numbered like every event. The
        text is also kept for the end of the item. `written` is as in the base class."""
        prose = self._open
        assert prose is not None
        prose.texts.append(text)
        self._count = number = self._count + 1
        before, between, after = prose.template
        written = written or event_writer.in_quotes(text)
        return b"".join((before, b"%d" % number, between, written, after))

    # Events and the response they belong to.

    @property
    def _name(self) -> str:
        return self.id.removeprefix(self.id_prefix)

    def _event(self, kind: str, **fields: object) -> ProtocolEvent:
        self._count += 1
        return {"type": kind, "sequence_number": self._count, **fields}

    def _item_done(self, item: dict[str, Any], index: int) -> ProtocolEvent:
        self._output.append(item)
        return self._event("response.output_item.done", output_index=index, item=item)

    def _response(
        self, status: str, output: list[dict[str, Any]] | None = None, usage: Usage | None = None
    ) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            **self.call.echo,
            "output": output or [],
            "usage": None if usage is None else usage_fields(usage),
        }


Writer = ResponsesWriter


def _item_id(call: HeldCall) -> str:
    prefix = "ctc" if call.tool.kind == "custom" else "fc"
    return f"{prefix}_{call.id.removeprefix('call_')}"


def _without_bytes(token: dict[str, Any]) -> dict[str, Any]:
    """A token's probabilities as a delta has them: without bytes."""
    top = [{"token": t["token"], "logprob": t["logprob"]} for t in token.get("top_logprobs") or ()]
    return {"token": token["token"], "logprob": token["logprob"], "top_logprobs": top}


def _with_bytes(token: dict[str, Any]) -> dict[str, Any]:
    """A token's probabilities as a part has them: with bytes."""
    top = [_byte_form(t) for t in token.get("top_logprobs") or ()]
    return {**_byte_form(token), "top_logprobs": top}


def _byte_form(token: dict[str, Any]) -> dict[str, Any]:
    values = token.get("bytes")
    data = list(token["token"].encode("utf-8", "replace")) if values is None else values
    return {"token": token["token"], "bytes": data, "logprob": token["logprob"]}


def _failure_details(error: ApiError) -> dict[str, Any]:
    """The error of a failed response. Clients treat some codes as final, and retry after others."""
    if isinstance(error, ContextOverflow) or error.code is not None:
        code = error.code
    elif error.status == 429:
        code = "rate_limit_exceeded"
    else:
        code = "invalid_prompt" if 400 <= error.status < 500 else "server_error"
    return {"code": code, "message": error_body(error)["error"]["message"]}


def frames(events: Iterable[ProtocolEvent]) -> bytes:
    """The bytes of `events`, as server-sent events."""
    return b"".join(map(event_writer.named_frame, events))


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Usage as Responses writes it, with all the details that it requires: the cached tokens are a
    number even if they are unknown."""
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached or 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def fold(events: Iterable[ProtocolEvent]) -> dict[str, Any]:
    """The whole response, which the last of `events` holds."""
    response: dict[str, Any] = {}
    for event in events:
        response = event.get("response", response)
    return response


whole: event_writer.WholeResponse = event_writer.WholeResponse(ResponsesWriter, fold)
"""The response of a request that does not stream: the writer's events, folded.

It takes the request, the parser's events (where several choices are wanted, a list of them for
each), and by name `usage` and `reason` as `Writer.finish`, `id`, `created`, `model` and `seal` as
`Writer` takes them."""

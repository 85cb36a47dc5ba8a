"""Answers in the form in which a server sent them, whole or as events, in any protocol."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dsv4._format.tokens import ASSISTANT, THINK_END, THINK_START
from dsv4._why.pasted_kinds import NotUnderstood, PastedAnswer, PastedError
from dsv4._why.written_values import json_or_python
from dsv4.api import Settings, read
from dsv4.api.api_request import ProtocolName, chosen_dialect
from dsv4.api.protocols import PROTOCOLS
from dsv4.errors import Error

_SETTINGS = Settings(last_answer="finish")
_ASKED: dict[str, Any] = {"role": "user", "content": ""}
PROTOCOL_WORDS: dict[ProtocolName, str] = {
    "chat": "Chat Completions",
    "messages": "Messages",
    "responses": "Responses",
}


# Repairs of left-over reasoning, which are not signs of a call.
OF_REASONING = ("stray_think", "think_in_content")

# A parser needs some seconds for a longer text.
_LONGEST_PARSED = 300_000
_SIGNS_OF_MARKUP = ("dsml", "invoke", "think>", "tool")


def part_to_parse(text: str) -> str:
    """The part of a text that shows whether markup is left in it; empty if nothing suggests it."""
    lowered = text.lower()
    begins = [lowered.find(sign) for sign in _SIGNS_OF_MARKUP if sign in lowered]
    return text[: min(begins) + _LONGEST_PARSED] if begins else ""


def ends_reasoning(text: str) -> bool:
    """Whether a text has the end of reasoning where a model writes it. In the middle of a line it
    is only mentioned, unless the text begins with reasoning."""
    before, tag, after = text.partition(THINK_END)
    is_amid = before[-1:] not in ("", "\n", ".", "!", "?") and after[:1] not in ("", "\n", "\r")
    return bool(tag) and (not is_amid or before.lstrip().startswith(THINK_START))


def read_choices(value: dict[str, Any]) -> Iterator[tuple[str, PastedAnswer]]:
    """The answers of a response, each with the place of its choice."""
    choices = value.get("choices")
    for n, choice in enumerate(choices if isinstance(choices, list) else ()):
        answer = read_answer({**value, "choices": [choice]})
        if isinstance(answer, PastedAnswer):
            yield f"choices[{n}]", answer


def read_answer(value: object) -> PastedAnswer | NotUnderstood | None:
    """The model's answer in a response of any protocol; None for a value that is not a response."""
    answer = _answer_turns(value)
    if answer is None or not isinstance(value, dict):
        return None
    protocol, turns, notes = answer
    field = "input" if protocol == "responses" else "messages"
    model = value.get("model")
    dialect, unknown = chosen_dialect(None, model if isinstance(model, str) else None)
    form = f"an answer of {PROTOCOL_WORDS[protocol]}"
    try:
        request = read(
            {field: [_ASKED, *turns]}, protocol=protocol, dialect=dialect, settings=_SETTINGS
        ).request
        written = [turn for turn in request.messages if isinstance(turn, Mapping)]
        thinks = any(turn.get("reasoning_content") for turn in written)
        prompt = replace(request, thinking=thinks).encode().text
    except Error as error:
        return NotUnderstood(form, f"It looks like an answer, but cannot be read: {error}")
    _, _, text = prompt.partition(str(ASSISTANT))
    text = text.removeprefix(str(THINK_START if thinks else THINK_END))
    return PastedAnswer(
        text,
        THINK_END in text,
        None if unknown or model is None else str(dialect),
        tuple(notes),
        form,
        protocol,
        written[-1] if len(written) > 1 else {},
        finish_reason(value),
        value,
    )


def _answer_turns(value: object) -> tuple[ProtocolName, list[Any], list[str]] | None:
    """The protocol of a response, and its turns as a request would send them back."""
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    if isinstance(choices, list) and choices:
        first = choices[0] if isinstance(choices[0], dict) else {}
        message = first.get("message")
        if isinstance(first.get("text"), str):  # a response of /v1/completions
            message = {"content": first["text"]}
        if not isinstance(message, dict):
            return None
        more = [f"This is the first of {len(choices)} choices."] if len(choices) > 1 else []
        return "chat", [{**message, "role": "assistant"}], more
    if isinstance(value.get("response"), dict):  # an event that holds the response
        return _answer_turns(value["response"])
    if isinstance(value.get("output"), list) and "input" not in value:
        return "responses", value["output"], []
    if value.get("role") == "assistant" and isinstance(value.get("content"), (str, list)):
        is_anthropic = value.get("type") == "message"
        return "messages" if is_anthropic else "chat", [value | {"role": "assistant"}], []
    return None


def finish_reason(response: Mapping[str, Any]) -> str:
    """The reason why an answer ended, as its protocol names it; empty if it gives none."""
    held = response.get("response")
    if isinstance(held, dict):
        return finish_reason(held)
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else response
    details = response.get("incomplete_details")
    reasons = (
        first.get("finish_reason") if isinstance(first, dict) else None,
        response.get("stop_reason"),
        details.get("reason") if isinstance(details, dict) else None,
        response.get("status") if "output" in response else None,
    )
    return next((reason for reason in reasons if isinstance(reason, str)), "")


# Server-sent events, as `curl` prints a stream, as a log has them after other words, and as Python
# prints the bytes of each.
_DATA = re.compile(r"(?:^|[\s>|\]])data: ?(.*)$")
_PRINTED_DATA = re.compile(r"b?(['\"])(?:event|data|id|retry)?: ?")


def read_events(text: str) -> PastedAnswer | PastedError | NotUnderstood | None:
    """The answer or error in a stream of events; None for a text that is not a stream."""
    if "data:" not in text:
        return None
    lines = [line for line in _data_lines(text) if line != "[DONE]"]
    values = [json_or_python(line) for line in lines]
    events = [value for value in values if isinstance(value, dict)]
    if not any(map(is_event, events)):
        return None
    found = read_event_values(events)
    # The last event may be cut.
    unread = sum(not isinstance(value, dict) for value in values[:-1])
    return replace(found, unread=unread) if isinstance(found, PastedAnswer) else found


def _data_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        found = _DATA.search(line.strip())
        printed = None if found else _PRINTED_DATA.search(line)
        inside = _unprinted(line[printed.start() :]) if printed else ()
        for match in (found, *map(_DATA.search, inside)):
            if match:
                yield match[1].strip()


def _unprinted(line: str) -> list[str]:
    """The lines of a text or of bytes that `repr` has printed."""
    try:
        value = ast.literal_eval(line.strip().rstrip(","))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [line]
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.splitlines()


def is_event(value: object) -> bool:
    """Whether a value is an event of one of the protocols."""
    if not isinstance(value, dict):
        return False
    choices = value.get("choices")
    if isinstance(choices, list) and choices:
        return isinstance(choices[0], dict) and "delta" in choices[0]
    kind = value.get("type")
    is_typed = isinstance(kind, str) and kind.startswith(("response.", "message_", "content_block"))
    return is_typed or value.get("object") == "chat.completion.chunk" or is_error_event(value)


def is_error_event(value: Mapping[str, Any]) -> bool:
    return bool(value.get("error")) and "choices" not in value


def read_event_values(
    events: list[dict[str, Any]],
) -> PastedAnswer | PastedError | NotUnderstood:
    """The answer, put together from its events."""
    form = "a stream of events"
    failed = next(filter(is_error_event, events), None)
    if failed is not None:
        text = json.dumps(failed, ensure_ascii=False)
        return PastedError(text, form=f"an error in {form}")
    events = [event for event in events if event.get("type") != "ping"]
    kind = str(events[0].get("type", "")) if events else ""
    protocol: ProtocolName = "chat"
    if kind:
        protocol = "responses" if kind.startswith("response.") else "messages"
    try:
        if protocol == "chat":
            events = list(map(_whole_chunk, events))
        folded = PROTOCOLS[protocol].fold(events)
        if protocol == "responses" and not folded.get("output"):
            folded["output"] = _items_of(events)
        answer = read_answer(folded)
    except (Error, KeyError, TypeError, ValueError, AttributeError, IndexError):
        answer = None
    if not isinstance(answer, PastedAnswer):
        return NotUnderstood(form, "It looks like a stream of events, but cannot be read as one.")
    form = f"{form} of {PROTOCOL_WORDS[protocol]}"
    return replace(answer, form=form, finish=_streamed_finish(events), is_streamed=True)


def _items_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of Responses in a stream that breaks off, as far as it has them."""
    items: dict[int, dict[str, Any]] = {}
    for event in events:
        at, delta = event.get("output_index"), event.get("delta")
        if not isinstance(at, int):
            continue
        if isinstance(event.get("item"), dict):
            items[at] = dict(event["item"])
        elif isinstance(delta, str) and at in items:
            _append(items[at], event["type"], delta)
    return list(items.values())


def _append(item: dict[str, Any], kind: str, delta: str) -> None:
    if kind == "response.function_call_arguments.delta":
        item["arguments"] = item.get("arguments", "") + delta
    elif kind in ("response.output_text.delta", "response.reasoning_text.delta"):
        type_ = kind.split(".")[1]
        blocks = [*(item.get("content") or ()), {"type": type_, "text": delta}]
        item["content"] = [{"type": type_, "text": "".join(each["text"] for each in blocks)}]


def _whole_chunk(event: dict[str, Any]) -> dict[str, Any]:
    """A chunk with the fields that some servers leave out."""
    head = {"id": "", "object": "", "created": 0, "model": None}
    rest = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
    choices = [{**rest, **choice} for choice in event.get("choices") or ()]
    for choice in choices:
        delta = choice["delta"] or {}
        choice["delta"] = {name: value for name, value in delta.items() if value is not None}
    return {**head, **event, "choices": choices}


def _streamed_finish(events: list[dict[str, Any]]) -> str:
    """The finish reason in the events themselves: the folded answer always has one."""
    for event in reversed(events):
        delta = event.get("delta")
        if event.get("type") == "response.failed":
            return "failed"
        reason = finish_reason(event) or finish_reason(delta if isinstance(delta, dict) else {})
        if reason and reason != "in_progress":
            return reason
    return ""

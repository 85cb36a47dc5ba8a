"""The events of a chat answer, whatever the form of the server: the parts that each choice adds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import Chunk, Logprob, read_digits, read_finish
from dsv4.serve.backends import vllm
from dsv4.serve.heal.chat_delta import (
    BESIDE_DELTAS,
    LastMessage,
    MessageSoFar,
    OtherChoice,
    delta_by_any_name,
    speaks,
    with_known_names,
)
from dsv4.serve.heal.unknown_fields import OUTSIDE, unread

# Fields whose names contain one of these hold counts: `usageMetadata`, `token_usage`, `stats`.
_LIKE_USAGE = re.compile("usage|meta|stats", re.IGNORECASE)
# Fields that a choice may have besides a delta.
_BESIDE = (*BESIDE_DELTAS, "text")
_OTHERS = frozenset((*_BESIDE, "message"))
# Stands for the number of a choice before there is one.
_NO_NUMBER = -1
# Fields for a reason. `stop_reason` is vLLM's for a stop string too, but then beside the first.
_REASONS = ("finish_reason", "stop_reason", "done_reason")
_ENDS = frozenset(_REASONS)
# Fields in which an event of another route has its text.
_OTHER_ROUTES = (*OUTSIDE, "event.result", "event.data", "event.token")


class ChatEvents:
    """Reads the events of one answer.

    One choice was asked for. Content under another number is a part of the same answer, or repeats
    it: `OtherChoice`. A message after deltas repeats all of it: `LastMessage`.
    """

    def __init__(self) -> None:
        self._number = _NO_NUMBER  # of the first choice with content
        # Whether the content comes in deltas, and not in messages in their place; None until then.
        self._has_deltas: bool | None = None
        self._is_in_text = False  # after the first delta, and before a finish reason

    def read(self, event: JsonObject) -> Chunk | list[Chunk]:
        """The pieces in an event. Raises a `TypeError` or the like for an event of another form."""
        choices = event.get("choices")
        if type(choices) is list and len(choices) == 1 and self._is_in_text:
            choice = choices[0]
            delta = choice.get("delta")
            is_open = not choice.get("finish_reason", True)
            is_plain = delta and is_open and choice.get("logprobs") is None
            is_plain = is_plain and "finish_reason" not in delta and _is_usual(tuple(event))
            if is_plain and choice.get("index") == self._number and _OTHERS.isdisjoint(choice):
                chunk = Chunk(delta=delta, id=event.get("id"))
                return vllm.with_end(chunk, choice, event)
        return self._read_slowly(event)

    def _read_slowly(self, event: JsonObject) -> list[Chunk]:
        chunks = [chunk for choice in _choices(event) for chunk in self._of_choice(choice, event)]
        if not any(chunk.delta for chunk in chunks):
            chunks.insert(0, Chunk(delta=_said_outside(event)))
        for chunk in chunks:
            chunk.id = event.get("id")
        is_told = any(chunk.finish for chunk in chunks)
        self._is_in_text = bool(self._has_deltas) and not is_told
        choice = {} if is_told else _with_reason({}, event)
        vllm.with_end(chunks[-1], choice, _with_usage(event))
        return chunks

    def _of_choice(self, fields: JsonObject, event: JsonObject) -> list[Chunk]:
        choice = with_known_names(fields)
        number = read_digits(choice.get("index")) or 0  # a choice without a number is the only one
        said = self._said(choice)
        if said and self._number == _NO_NUMBER:
            self._number = number
        if self._number not in (_NO_NUMBER, number):
            other = number or self._number  # 0 stands for the first choice with content
            said = [
                delta if isinstance(delta, LastMessage) else OtherChoice(other, delta)
                for delta in said
            ]
        others = unread(choice, "choice")
        if said:  # one of the others may be the part that was read
            others = {name: others[name] for name in OUTSIDE if name in others}
        if others or not said:
            said = [*said, others]
        chunks = [Chunk(delta=delta) for delta in said]
        chunks[0].logprobs = _chat_logprobs(choice.get("logprobs"))
        places = (choice, choice.get("delta"), choice.get("message"), event)
        vllm.with_end(chunks[-1], _with_reason(choice, *places), {})
        return chunks

    def _said(self, choice: JsonObject) -> list[JsonObject]:
        """The parts that a choice adds: a delta; a whole message, in an answer that is one event;
        or a text, from a server that treats every route as completions."""
        said: list[JsonObject] = []
        delta, message = _without_role(choice.get("delta")), _without_role(choice.get("message"))
        if not (speaks(delta) or speaks(message) or any(choice.get(name) for name in _BESIDE)):
            delta = {**delta, **delta_by_any_name(choice)}
        if delta:
            self._has_deltas = True
            said.append(delta)
        if message:
            # Beside an empty delta, the end may come before the deltas that it repeats.
            reason = _with_reason(choice, delta, message).get("finish_reason")
            is_end = read_finish(reason) is not None and isinstance(choice.get("delta"), dict)
            says_all = is_end if self._has_deltas is None else self._has_deltas
            said.append(LastMessage(message) if says_all else MessageSoFar(message))
        beside = {name: choice[name] for name in BESIDE_DELTAS if choice.get(name)}
        if beside and not any(each.get(name) for each in said for name in beside):
            if said and not isinstance(said[0], LastMessage):
                said[0] = {**said[0], **beside}
            else:
                said.append(beside)
        elif choice.get("text") and not any(each.get("content") for each in said):
            said.append({"content": choice["text"]})
        if said and self._has_deltas is None:
            self._has_deltas = not isinstance(choice.get("message"), dict)
        return said


@lru_cache(64)
def _is_usual(names: tuple[str, ...]) -> bool:
    """Whether an event has its counts and its end, if any, in the usual fields."""
    others = [name for name in names if name != "usage"]
    return _ENDS.isdisjoint(others) and not any(map(_LIKE_USAGE.search, others))


def _said_outside(event: JsonObject) -> JsonObject:
    """The content of an event beside its choices, under unknown names: it may be the whole
    answer."""
    fields = {f"event.{name}": value for name, value in event.items()}
    said = {name: fields[name] for name in _OTHER_ROUTES if fields.get(name)}
    return {**said, **unread(event, "event")}


def _with_reason(choice: JsonObject, *places: object) -> JsonObject:
    """A choice with its finish reason, which some servers write in its delta, beside the choices,
    or under a name of other protocols."""
    if choice.get("finish_reason"):
        return choice
    for place in places:
        fields = with_known_names(place) if isinstance(place, dict) else {}
        names = _REASONS if "finish_reason" not in choice else _REASONS[:1]
        for reason in filter(None, map(fields.get, names)):
            return {**choice, "finish_reason": reason}
    return choice


def _with_usage(event: JsonObject) -> JsonObject:
    """An event with its counts in the usual field; some servers write them under another name."""
    if event.get("usage") is not None:
        return event
    found = [event[name] for name in event if _LIKE_USAGE.search(name)]
    inner = [value.get("usage") for value in found if isinstance(value, dict)]
    for value in (event, *found, *inner):
        if vllm.has_counts(value):
            return {**event, "usage": value}
    return event


def _without_role(part: JsonObject | None) -> JsonObject:
    """A delta or a message; empty for one with only a role, which has no content yet."""
    return part if part and any(part[name] for name in part if name != "role") else {}


def _choices(event: JsonObject) -> Iterator[JsonObject]:
    choices = event.get("choices") or []
    if isinstance(choices, dict):  # one, or several by their numbers
        is_by_number = all(name.isdecimal() for name in choices)
        choices = [_at(name, choices[name]) for name in choices] if is_by_number else [choices]
    for choice in choices:
        if not isinstance(choice, dict):
            raise TypeError("a choice is an object")
        if choice:  # an empty choice has no content, not even a number
            yield choice


def _at(number: str, choice: object) -> object:
    """A choice with the number that is its key."""
    return {"index": number, **choice} if isinstance(choice, dict) else choice


def _chat_logprobs(value: object) -> tuple[Logprob, ...]:
    """The log-probabilities of a choice; empty where they have another form, because most requests
    do not ask for them."""
    if not isinstance(value, dict):
        return ()
    try:
        return tuple(
            Logprob(
                entry["token"],
                entry["logprob"],
                tuple((top["token"], top["logprob"]) for top in entry.get("top_logprobs") or ()),
            )
            for field in ("reasoning_content", "content")
            for entry in value.get(field) or ()
        )
    except (TypeError, KeyError, AttributeError):
        return ()

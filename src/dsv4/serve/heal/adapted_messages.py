"""The changes to the messages of a Chat Completions request that make a server accept them and read
them as they were meant. `adaptations.py` has the table of which server needs which.

Each function returns the same messages where nothing is to be changed. The client's own objects are
never modified.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any, TypeAlias, TypeVar

from dsv4.api import ApiError
from dsv4.api.api_request import reminder
from dsv4.api.request_content import BLANK_LINE, RAW_ARGUMENTS, UNSUPPORTED_IMAGE, unsupported_text
from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import read_object
from dsv4.serve.settings import MissingReasoning, SystemPlace

ValueT = TypeVar("ValueT")
ChatMessages: TypeAlias = Sequence[JsonObject]
MessageChange: TypeAlias = Callable[[JsonObject], JsonObject]

# Stands for reasoning that is lost: an empty text would say that there was none.
SPACE = " "


def each_changed(values: Sequence[ValueT], change: Callable[[ValueT], ValueT]) -> Sequence[ValueT]:
    """The values after `change`; the same sequence where it changes none."""
    return _unless_same([change(value) for value in values], values)


def _unless_same(new: Sequence[ValueT], old: Sequence[ValueT]) -> Sequence[ValueT]:
    return old if len(new) == len(old) and all(map(is_, new, old)) else new


def with_value(fields: JsonObject, name: str, value: object) -> JsonObject:
    """The fields with this value for `name`; the same dict where it has that value already."""
    return fields if fields.get(name) is value else {**fields, name: value}


def without(fields: JsonObject, *names: str) -> JsonObject:
    """The fields without those named; the same dict where it has none of them."""
    rest = {name: value for name, value in fields.items() if name not in names}
    return fields if len(rest) == len(fields) else rest


# Roles.


def developer_as_system(message: JsonObject) -> JsonObject:
    return {**message, "role": "system"} if message.get("role") == "developer" else message


def placed_systems(messages: ChatMessages, place: SystemPlace) -> ChatMessages:
    """The messages with later system messages as the user's reminders, or in front of all
    others."""
    start = next((n for n, m in enumerate(messages) if m.get("role") != "system"), len(messages))
    later = messages[start:]
    if place == "in_place" or not any(message.get("role") == "system" for message in later):
        return messages
    if place == "reminder":
        return [*messages[:start], *map(_as_reminder, later)]
    systems = [message for message in later if message.get("role") == "system"]
    others = [message for message in later if message.get("role") != "system"]
    return [*messages[:start], *systems, *others]


def _as_reminder(message: JsonObject) -> JsonObject:
    if message.get("role") != "system":
        return message
    return dict(reminder(text_of(readable_parts(message, images=False).get("content")) or ""))


# Content.


def text_of(content: object) -> str | None:
    """The text of a content field, its parts joined with a blank line; None where it has other
    parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return None
    parts = (part.get("text") if isinstance(part, dict) else part for part in content)
    texts = [text for text in parts if isinstance(text, str)]
    return BLANK_LINE.join(texts) if len(texts) == len(content) else None


def is_file(part: object) -> bool:
    """Whether a part refers to a file that the server has."""
    return isinstance(part, dict) and part.get("type") == "file" and "file_id" in part


def readable_parts(message: JsonObject, *, images: bool, files: bool = False) -> JsonObject:
    """A message whose parts are texts, with `images` and `files` where the model reads them. No
    server accepts those in an assistant's message."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    if message.get("role") == "latest_reminder":  # the only role whose content is a text everywhere
        texts = (_readable_part(False, False, part)["text"] for part in content)
        return {**message, "content": BLANK_LINE.join(map(str, texts))}
    answers = message.get("role") == "assistant"
    read = partial(_readable_part, images and not answers, files and not answers)
    return with_value(message, "content", each_changed(content, read))


def _readable_part(images: bool, files: bool, part: Any) -> Any:
    if files and is_file(part):
        return part
    if not isinstance(part, dict):
        return {"type": "text", "text": str(part)}
    kind = part.get("type")
    if kind == "text":
        return part
    if kind == "image_url" and images:
        source = part.get("image_url")
        return part if isinstance(source, dict) else {**part, "image_url": {"url": source}}
    if kind == "refusal":
        return {"type": "text", "text": str(part.get("refusal") or "")}
    text = UNSUPPORTED_IMAGE if kind == "image_url" else unsupported_text(str(kind))
    return {"type": "text", "text": text}


# Fields that clients leave out, or write in another way.


def complete_messages(messages: ChatMessages) -> ChatMessages:
    """The messages with every field that servers ask for, and none that they refuse."""
    complete = each_changed(messages, _complete_message)
    if not any(message.get("prefix") for message in complete[:-1]):
        return complete
    return [*(without(message, "prefix") for message in complete[:-1]), complete[-1]]


def _complete_message(message: JsonObject) -> JsonObject:
    if message.get("role") != "assistant":
        return message if message.get("content") is not None else {**message, "content": ""}
    if calls := message.get("tool_calls"):
        return with_value(message, "tool_calls", each_changed(calls, _complete_call))
    message = without(message, "tool_calls")
    return message if message.get("content") is not None else {**message, "content": ""}


def _complete_call(call: JsonObject) -> JsonObject:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        text = "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        call = {**call, "function": {**function, "arguments": text}}
    return call if call.get("type") == "function" else {**call, "type": "function"}


def with_object_arguments(message: JsonObject) -> JsonObject:
    """A message whose calls all have JSON objects as arguments; other text becomes one argument."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return with_value(message, "tool_calls", each_changed(calls, _with_object_arguments))


def _with_object_arguments(call: JsonObject) -> JsonObject:
    function = call.get("function") or {}
    text = function.get("arguments")
    if not isinstance(text, str) or not text or read_object(text) is not None:
        return call
    raw = json.dumps({RAW_ARGUMENTS: text}, ensure_ascii=False)
    return {**call, "function": {**function, "arguments": raw}}


# Turns.


def joined_turns(messages: ChatMessages) -> ChatMessages:
    """The messages with an answer's text and its calls in one message, where a client has split
    that turn into two."""
    new_messages: list[JsonObject] = []
    for message in messages:
        last = new_messages[-1] if new_messages else {}
        if _goes_on(last, message):
            joined = {**last, "tool_calls": message["tool_calls"]}
            if message.get("reasoning_content") is not None:
                joined["reasoning_content"] = message["reasoning_content"]
            new_messages[-1] = joined
        else:
            new_messages.append(message)
    return _unless_same(new_messages, messages)


def _goes_on(last: JsonObject, message: JsonObject) -> bool:
    """Whether a message has the calls of the turn whose text is the message before it."""
    both = last.get("role") == message.get("role") == "assistant"
    if not both or last.get("tool_calls") or not message.get("tool_calls"):
        return False
    thoughts = [each.get("reasoning_content") for each in (last, message)]
    is_same = None in thoughts or thoughts[0] == thoughts[1]
    return is_same and not message.get("content") and not last.get("prefix")


# Calls and their results.


def paired_results(messages: ChatMessages) -> ChatMessages:
    """The messages with exactly one result for each call, directly behind it. A missing result is
    empty; a result without a call becomes a user's message."""
    return _unless_same(list(_paired(messages)), messages)


def _paired(messages: ChatMessages) -> Iterator[JsonObject]:
    waiting: dict[str, JsonObject | None] = {}  # calls of the last turn, and their results
    between: list[JsonObject] = []  # messages that stood between them
    for message in messages:
        role, id = message.get("role"), message.get("tool_call_id")
        if role == "tool" and isinstance(id, str) and waiting.get(id, message) is None:
            waiting[id] = message
        elif role == "tool":
            between.append({"role": "user", "content": message.get("content") or ""})
        elif role == "assistant":
            yield from _results(waiting)
            yield from between
            yield message
            waiting, between = {str(c.get("id")): None for c in message.get("tool_calls") or ()}, []
        elif waiting and None in waiting.values():
            between.append(message)
        else:
            yield from _results(waiting)
            yield from between
            yield message
            waiting, between = {}, []
    yield from _results(waiting)
    yield from between


def _results(waiting: Mapping[str, JsonObject | None]) -> Iterable[JsonObject]:
    # In the order of the calls; a missing result is empty.
    return (
        {"role": "tool", "tool_call_id": id, "content": ""} if result is None else result
        for id, result in waiting.items()
    )


def distinct_ids(messages: ChatMessages, everywhere: bool = False) -> ChatMessages:
    """The messages with different ids for the calls of each turn, or of all turns if `everywhere`.
    Results for a repeated id are matched in order."""
    new_messages: list[JsonObject] = []
    used = set[str]()
    waiting: dict[object, list[str]] = {}  # the new ids of an old one, in the order of their calls
    for message in messages:
        if message.get("role") == "assistant" and message.get("tool_calls"):
            message, waiting = _with_distinct_ids(message, used if everywhere else set[str]())
        elif message.get("role") == "tool" and waiting.get(message.get("tool_call_id")):
            message = with_value(
                message, "tool_call_id", waiting[message.get("tool_call_id")].pop(0)
            )
        new_messages.append(message)
    return _unless_same(new_messages, messages)


def _with_distinct_ids(
    message: JsonObject, used: set[str]
) -> tuple[JsonObject, dict[object, list[str]]]:
    calls = message["tool_calls"]
    new_ids: dict[object, list[str]] = {}
    new_calls = []
    for call in calls:
        old = call.get("id")
        new = old if isinstance(old, str) else "call"
        number = 1
        while new in used or (new != old and any(each.get("id") == new for each in calls)):
            number += 1
            new = f"{old if isinstance(old, str) else 'call'}_{number}"
        used.add(new)
        new_ids.setdefault(old, []).append(new)
        new_calls.append(call if new == old else {**call, "id": new})
    return with_value(message, "tool_calls", _unless_same(new_calls, calls)), new_ids


def sorted_ids(messages: ChatMessages) -> ChatMessages:
    """The messages with ids of parallel calls that sort in the order of the calls."""
    new_messages: list[JsonObject] = []
    new_ids: dict[str, str] = {}
    for message in messages:
        if message.get("role") == "assistant":
            ids = [str(call.get("id")) for call in message.get("tool_calls") or ()]
            new_ids = {} if ids == sorted(ids) else _numbered(ids)
            if new_ids:
                calls = zip(message["tool_calls"], ids, strict=True)
                new_calls = [{**call, "id": new_ids[id]} for call, id in calls]
                message = {**message, "tool_calls": new_calls}
        elif message.get("tool_call_id") in new_ids:
            message = {**message, "tool_call_id": new_ids[message["tool_call_id"]]}
        new_messages.append(message)
    return _unless_same(new_messages, messages)


def _numbered(ids: Sequence[str]) -> dict[str, str]:
    width = len(str(len(ids)))
    return {id: f"{n:0{width}}_{id}" for n, id in enumerate(ids)}


def renamed_tools(message: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """A message that calls tools by other names."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return with_value(message, "tool_calls", each_changed(calls, partial(_renamed_call, names)))


def _renamed_call(names: Mapping[str, str], call: JsonObject) -> JsonObject:
    new = names.get((call.get("function") or {}).get("name", ""))
    return call if new is None else {**call, "function": {**call["function"], "name": new}}


# Reasoning.


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The reasoning of a message, under either of its names."""
    for field in ("reasoning_content", "reasoning"):
        if isinstance(message.get(field), str) and message[field]:
            return str(message[field])
    return ""


def with_read_field(message: JsonObject) -> JsonObject:
    """A message with its reasoning in the field that the server reads."""
    if "reasoning" not in message or message.get("role") != "assistant":
        return message
    rest, reasoning = without(message, "reasoning"), reasoning_of(message)
    return {**rest, "reasoning_content": reasoning} if reasoning else rest


def with_reasoning_everywhere(
    messages: ChatMessages, otherwise: MissingReasoning, tools: bool
) -> ChatMessages:
    """The messages with reasoning in every turn that must have some: those after the user's last
    message, where there are `tools` or calls. An empty text counts."""
    users = (n for n, message in enumerate(messages) if message.get("role") == "user")
    start = max(users, default=-1) + 1
    if not (tools or any(message.get("tool_calls") for message in messages[start:])):
        return messages
    new_messages = list(messages)
    for n, message in enumerate(messages[start:], start):
        if message.get("role") != "assistant" or message.get("reasoning_content") is not None:
            continue
        if otherwise == "refuse":
            problem = (
                "found a turn without reasoning, expected it: the server refuses such a turn, "
                "and this gateway has not seen it"
            )
            raise ApiError(problem, path=f"messages[{n}].reasoning_content")
        reasoning = SPACE if otherwise == "space" else ""
        new_messages[n] = {**message, "reasoning_content": reasoning}
    return _unless_same(new_messages, messages)

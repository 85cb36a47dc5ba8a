"""The messages in a line of a data set, under the names of this format: trainers and data sets have
others for content, reasoning, calls and weights.

Fields that are not read stay in a message, so that they are named or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from dsv4._inputs.input_files import InputError
from dsv4._inputs.request_bodies import lacks_reasoning
from dsv4._inputs.session_entries import dict_of, list_of, objects_of
from dsv4.api.own_bodies import (
    CALL_ARGUMENTS,
    is_of_model,
    is_sharegpt,
    json_of,
    role_of,
    sharegpt_messages,
    with_arguments,
)
from dsv4.errors import Location, mismatch, path_of

Line: TypeAlias = Mapping[str, Any]


class MessagePlace(NamedTuple):
    """The place of a message in a line, and the names that the line has for its fields.

    A field whose name is empty is the place itself: the text in `output` is a message's content.
    """

    location: Location
    names: Mapping[str, str] | None = None

    def of(self, rest: Location) -> Location:
        """The place in the line of something in the message."""
        if not rest or self.names is None:
            return (*self.location, *rest)
        name = self.names.get(str(rest[0]), str(rest[0]))
        return (*self.location, *((name,) if name else ()), *rest[1:])


class PlacedMessage(NamedTuple):
    """A message, and its place in the line."""

    message: Any
    place: MessagePlace


Transcript: TypeAlias = list[PlacedMessage]


def bare_messages(transcript: Transcript) -> list[Any]:
    return [placed.message for placed in transcript]


# Lists of messages.

_TURN_NAMES = {"content": "value", "role": "from", "tool_calls": "value"}
TEXT_NAMES = {"content": "", "role": ""}


def is_turns(value: object) -> bool:
    """Whether a value is a list of ShareGPT's turns."""
    return isinstance(value, list) and is_sharegpt({"conversations": value})


def is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def listed_messages(value: Sequence[Any], location: Location) -> Transcript:
    """The messages in a list of messages, of ShareGPT's turns, or of texts that alternate between
    user and assistant."""
    messages, names = value, None
    if value and is_turns(value):
        messages, names = sharegpt_messages({"conversations": value}, location), _TURN_NAMES
    elif is_texts(value):
        roles, names = ("user", "assistant"), TEXT_NAMES
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(value)]
    places = [MessagePlace((*location, n), names) for n in range(len(messages))]
    return [
        PlacedMessage(_plain_message(message, place.location), place)
        for message, place in zip(messages, places, strict=True)
    ]


# Trainers' names for `weight`, and whether a 1 under each means that a message is trained on.
# `mask` is not listed: it may mean either.
WEIGHTS = {
    **dict.fromkeys(("weight", "loss", "train", "training", "trainable", "is_trainable"), True),
    **dict.fromkeys(("train_on_turn", "loss_mask", "step_loss_mask", "loss_scale"), True),
    **dict.fromkeys(("loss_weight", "loss_multiplier", "train_mask"), True),
    **dict.fromkeys(("masked", "no_loss", "mask_loss"), False),
}
# Fields with reasoning as text.
REASONING = (
    *("reasoning_content", "reasoning", "thinking", "think", "thought", "thoughts", "cot"),
    *("rationale", "chain_of_thought", "reasoning_text"),
)
# Fields with reasoning as lists of blocks: OpenRouter's, and litellm's.
_REASONING_LISTS = {"reasoning_details": "text", "thinking_blocks": "thinking"}
# Fields that a message may have in place of its content.
_CONTENTS = ("text", "message", "parts", "refusal")
_READ_OTHERWISE = frozenset(
    (*WEIGHTS, *REASONING[2:], *_REASONING_LISTS, *_CONTENTS, "function_call")
)
_UNUSUAL = _READ_OTHERWISE | {"value"}


def _plain_message(message: object, place: Location) -> object:
    """A message with the names of this format in place of other trainers' names."""
    if not isinstance(message, dict):
        return message
    calls = message.get("tool_calls")
    if _UNUSUAL.isdisjoint(message) and _are_plain(calls):
        return message
    where = path_of(place)
    if message.get("value") is not None and message.get("content") is None and "role" in message:
        raise InputError(
            f"{where}.value: found it beside role, expected content, or from and value"
        )
    if message.get("function_call"):
        hint = "dsv4 check --fix writes it as tool_calls"
        raise InputError(f"{where}.function_call: found OpenAI's older form of a call ({hint})")
    read, weight = _content_field(message), _weight(message, where)
    is_answer = message.get("role") == "assistant"
    used = {name for name in _READ_OTHERWISE if message.get(name) is None}
    mine = _READ_OTHERWISE & message.keys() if is_answer else ()
    used.update(name for name in mine if _is_reasoning(message, name))
    if is_answer:
        used.update(WEIGHTS)
    plain = {name: value for name, value in message.items() if name not in {*used, read}}
    if read is not None:
        plain["content"] = message[read]
    if is_answer and (reasoning := _message_reasoning(message, where)):
        plain["reasoning_content"] = reasoning
    if weight is not None and is_answer:
        plain["weight"] = weight
    if "tool_calls" in message:
        plain["tool_calls"] = _plain_calls(calls, f"{where}.tool_calls")
    return plain


def _content_field(message: Line) -> str | None:
    """Another field than `content` that has a message's content, None if there is none."""
    if message.get("content") not in (None, "", []):
        return None
    return next((name for name in _CONTENTS if isinstance(message.get(name), (str, list))), None)


# Reasoning.


def _is_reasoning(message: Line, name: str) -> bool:
    """Whether a field has reasoning that is read."""
    value = message[name]
    if name not in _REASONING_LISTS:
        return name in REASONING and isinstance(value, str)
    field = _REASONING_LISTS[name]
    return isinstance(value, list) and all(isinstance(b.get(field), str) for b in objects_of(value))


def _message_reasoning(message: Line, where: str) -> str | None:
    """The reasoning of a message, under any of its names. Raises where two differ."""
    found = [message[name] for name in REASONING if isinstance(message.get(name), str)]
    for name, field in _REASONING_LISTS.items():
        texts = [block.get(field) for block in objects_of(message.get(name))]
        found.append("\n\n".join(text for text in texts if isinstance(text, str)))
    return only_reasoning(found, where)


def only_reasoning(texts: Iterable[str], where: str) -> str | None:
    """The reasoning in texts under several names. Raises where two differ."""
    found = [text for text in texts if text]
    if any(text != found[0] for text in found):
        raise InputError(f"{where}: found reasoning under two names, expected it once")
    return found[0] if found else None


# Weights.


def _weight(message: Line, where: str) -> int | None:
    """The weight that a message gives itself: 1 if it is trained on, 0 if not, or None."""
    weights = set()
    for name, trained in WEIGHTS.items():
        value = message.get(name)
        if value is None:
            continue
        if value not in (0, 1) or isinstance(value, (list, dict)):
            raise InputError(f"{where}.{name}: {mismatch(value, '0 or 1')}")
        weights.add(int(value == trained))
    if len(weights) > 1:
        raise InputError(f"{where}: found two weights, expected one")
    return weights.pop() if weights else None


def weight_lists(line: Line) -> list[str]:
    """The fields with a list of weights, one for each message."""
    return [name for name in line if WEIGHTS.get(name) and isinstance(line[name], list)]


def weighed_by_lists(transcript: Transcript, line: Line) -> Transcript:
    """The messages with the weights of the lists beside them."""
    for name in weight_lists(line):
        weights = line[name]
        if len(weights) != len(transcript) or any(each not in (0, 1) for each in weights):
            raise InputError(f"{name}: {mismatch(weights, '0 or 1 for each message')}")
        transcript = [
            _weighed(placed, int(weights[n]), (name, n)) for n, placed in enumerate(transcript)
        ]
    return transcript


def _weighed(placed: PlacedMessage, weight: int, location: Location) -> PlacedMessage:
    """A message with its weight from a list. Raises if it has a different one itself."""
    message, place = placed
    is_answer = isinstance(message, dict) and is_of_model(message)
    if not isinstance(message, dict) or not (weight or is_answer):
        return placed
    if is_answer and message.get("weight", weight) != weight:
        problem = f"found {weight}, which differs from another weight of this message"
        raise InputError(f"{path_of(location)}: {problem}")
    return PlacedMessage({**message, "weight": weight}, place)


# Calls. Fields that are not read are named, except the number that streaming gives a call.

_CALL_FIELDS = frozenset(("id", "type", "function", "custom", "namespace", "index"))
_FUNCTION_FIELDS = frozenset(("type", "name", "arguments", "namespace", "id"))


def _are_plain(calls: object) -> bool:
    if isinstance(calls, list):
        return all(map(_is_plain_call, calls))
    return not isinstance(calls, str)


def _is_plain_call(call: Any) -> bool:
    """Whether a call has only fields that are read."""
    function = dict_of(call).get("function")
    if not isinstance(function, dict):  # refused elsewhere
        return True
    return _CALL_FIELDS.issuperset(call) and _FUNCTION_FIELDS.issuperset(function)


def _plain_calls(calls: object, where: str) -> object:
    """The calls of a message, which may be JSON text, with arguments in the field that is read."""
    if isinstance(calls, str):
        calls = json_of(calls, where) if calls.strip() else None
    if not isinstance(calls, list):
        return calls
    return [_plain_call(call, f"{where}[{n}]") for n, call in enumerate(calls)]


def _plain_call(call: Any, where: str) -> Any:
    if _is_plain_call(call):
        return call
    rest = {name: value for name, value in call.items() if name not in CALL_ARGUMENTS}
    return {**rest, "function": with_arguments(call["function"], where, beside=call)}


# Parts of messages that nothing reads, or that are read in another order.

# A field with such a name defines what is trained on: it must not be ignored. `labels` are those of
# single tokens.
OF_TRAINING = re.compile(
    r"loss|mask|weight|train|learn|supervis|^skip$|^labels$|^(?:is_)?targets?$|_only$",
    re.IGNORECASE,
)
# Blocks that only their server can read.
_SEALED = ("redacted_thinking",)
# The order in which a prompt has the blocks of an answer.
_ORDER_OF_BLOCKS = ("thinking", "text", "tool_use")


def has_moved_blocks(body: object) -> bool:
    """Whether an answer has its blocks in another order than a prompt."""
    for message in _messages_in(body):
        content = message.get("content") if role_of(message) == "assistant" else None
        kinds = [block.get("type") for block in objects_of(content)]
        order = [_ORDER_OF_BLOCKS.index(kind) for kind in kinds if kind in _ORDER_OF_BLOCKS]
        if order != sorted(order):
            return True
    return False


def _messages_in(body: object) -> list[Any]:
    """The messages of a request, which may be just a list of them."""
    return list_of(body.get("messages") if isinstance(body, dict) else body)


def unread_inside(body: object) -> Iterator[str]:
    """The places of unread parts of messages: fields about training in objects of their own, fields
    of calls that nothing reads, and blocks that cannot be read."""
    for n, message in enumerate(_messages_in(body)):
        for name, value in dict_of(message).items():
            if isinstance(value, (dict, list)):
                yield from (f"messages[{n}].{name}{each}" for each in _unread_of_field(name, value))
    for n, item in enumerate(list_of(dict_of(body).get("input"))):
        if lacks_reasoning(item):
            names = ("summary", "encrypted_content")
            yield from (f"input[{n}].{name}" for name in names if item.get(name))


def _unread_of_field(name: str, value: dict[str, Any] | list[Any]) -> Iterator[str]:
    """The parts of a field of a message that nothing reads, by their places in the field."""
    if name == "tool_calls":
        yield from _unread_of_calls(value)
    elif name == "content" and isinstance(value, list):
        kinds = (part.get("type") for part in objects_of(value))
        yield from (f".{kind}" for kind in kinds if kind in _SEALED)
    elif name not in ("content", "tools") and isinstance(value, dict):
        yield from (f".{each}" for each in value if OF_TRAINING.search(str(each)))


def _unread_of_calls(calls: object) -> Iterator[str]:
    """The fields of calls that nothing reads, by their places in the list."""
    for n, call in enumerate(list_of(calls)):
        inside = ("function.", dict_of(call).get("function"), _FUNCTION_FIELDS)
        for prefix, fields, read in (("", call, _CALL_FIELDS), inside):
            for name, value in dict_of(fields).items():
                if name not in read and value not in (None, [], {}):
                    yield f"[{n}].{prefix}{name}"

"""The shapes that lines of data sets have: how each is recognised, and what it becomes.

`SHAPES` is the table; docs/datasets.md shows it to users. A line that fits several shapes is read
if all of them mean the same tokens, and refused with their names otherwise: Magpie's lines have
`instruction`, `response` and the same as `conversations`, which is no question of taste.

In a data set a last answer is complete, whatever the protocol of the line takes it for: only a line
that says `prefix` or `wo_eos` leaves it open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4._inputs.input_files import InputError
from dsv4._inputs.request_bodies import LastAnswer, ReadBody, RequestOverrides, lacks_reasoning
from dsv4.api.api_request import BodyRules, ProtocolName
from dsv4.api.body_reader import recognise
from dsv4.api.ignored_fields import FIELDS_READ
from dsv4.api.own_bodies import (
    CALL_ARGUMENTS,
    is_of_model,
    is_pair,
    is_sharegpt,
    json_of,
    role_of,
    sharegpt_messages,
    with_arguments,
)
from dsv4.errors import Error, Location, mismatch, path_of, short_repr
from dsv4.request import Request

Line: TypeAlias = Mapping[str, Any]


class RecognisedLine(dict[str, Any]):
    """A line, and what it is, which every shape asks: found once.

    `is_anthropic` says whether it has what only Anthropic's Messages have. A `system` text is no
    such thing: many data sets have it beside OpenAI's messages.
    """

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        recognised = recognise(line)
        self.rules: BodyRules = recognised.rules
        if isinstance(line.get("system"), str):
            recognised = recognise({n: value for n, value in line.items() if n != "system"})
        self.is_anthropic = recognised.protocol == "messages"


# What a line is read as, and what it becomes.


class MessagePlace(NamedTuple):
    """Where a message stands in a line, and under which names the line has its fields.

    A field whose name is empty is the place itself: the text in `output` is a message's content.
    """

    location: Location
    names: Mapping[str, str] | None = None

    def of(self, rest: Location) -> Location:
        """The place of something in the message."""
        if not rest or self.names is None:
            return (*self.location, *rest)
        name = self.names.get(str(rest[0]), str(rest[0]))
        return (*self.location, *((name,) if name else ()), *rest[1:])


@dataclass(frozen=True)
class LineConversation:
    """The conversation in a line: a request, and where the line has each of its messages, if that
    is not where the request has it.

    `before_answer` messages stand before the answer, where the line keeps them apart. `rules` are
    those that the request is read by, in its `protocol`, and `is_open` says that the line leaves
    its end open.
    """

    body: Mapping[str, Any]
    places: tuple[MessagePlace, ...] = ()
    before_answer: int | None = None
    rules: BodyRules = "released"
    protocol: ProtocolName = "chat"
    is_open: bool = False

    @cached_property
    def request(self) -> Request:
        return self.read(RequestOverrides()).request

    def read(self, overrides: RequestOverrides) -> ReadBody:
        """The request, with options that hold for all lines."""
        last_answer: LastAnswer = "keep" if self.is_open else "finish"
        return overrides.read(dict(self.body), last_answer, self.rules, self.protocol, is_line=True)

    def location(self, location: Location) -> Location:
        """A place in the request, as the line has it."""
        if self.rules == "body":
            location = self.read(RequestOverrides()).place(location)
        return self.place(location)

    def place(self, location: Location) -> Location:
        """A place in the body, as the line has it."""
        index = location[1] if len(location) > 1 and location[0] == "messages" else None
        if not isinstance(index, int) or not index < len(self.places):
            return location
        return self.places[index].of(location[2:])


class LineShape(NamedTuple):
    """A shape of lines: its name, the fields that every line of it has, whether a line with these
    fits it, and how such a line is read."""

    name: str
    fields: tuple[str, ...]
    fits: Callable[[RecognisedLine], bool]
    read: Callable[[RecognisedLine], LineConversation]


class LinePair(NamedTuple):
    """Two conversations, of which the one that is chosen has the better answer.

    They differ from the message `start` on.
    """

    chosen: LineConversation
    rejected: LineConversation
    start: int


class LabelledAnswer(NamedTuple):
    """A conversation whose answer, from the message `start` on, is good or bad."""

    conversation: LineConversation
    label: bool
    start: int


class PlacedMessage(NamedTuple):
    """A message, and where it stands in the line."""

    message: Any
    place: MessagePlace


Transcript: TypeAlias = list[PlacedMessage]


def _messages(transcript: Transcript) -> list[Any]:
    return [placed.message for placed in transcript]


def _conversation(
    transcript: Transcript,
    line: Line,
    used: Iterable[str],
    before_answer: int | None = None,
    rules: BodyRules = "released",
) -> LineConversation:
    """Messages with the options of the line. `used` are the fields that the messages are made of.
    What else a line may have its conversation in stays, so that it is named."""
    _refuse_beside_messages(line)
    silent = {*used, *SYSTEM_FIELDS, "tools"}
    beside = [name for name in line if name in LINE_FIELDS and name not in silent]
    if beside:
        silent.update(_repeated(beside, line, transcript))
    if "messages" in line and "messages" not in silent:  # whose place is taken
        raise InputError(f"messages: {mismatch(line['messages'], 'a list of messages')}")
    tools = _tools(line)
    options = {name: value for name, value in line.items() if name not in silent}
    body = {**options, **({"tools": tools} if tools else {}), "messages": _messages(transcript)}
    return LineConversation(
        body, tuple(placed.place for placed in transcript), before_answer, rules
    )


# Messages under one of these fields.
_LISTS = ("messages", "conversations", "conversation")
# A system prompt beside the messages.
SYSTEM_FIELDS = ("system", "system_prompt", "system_message", "instructions")
# A question under one of these fields, and an answer under one of those.
_QUESTIONS = ("prompt", "instruction", "query", "question", "input")
_ANSWERS = ("completion", "output", "response", "answer")
# What belongs to an instruction: Alpaca's name for it, and Dolly's.
_ADDITIONS = ("input", "context")
# The reasoning of the answer in a field beside it.
_REASONING = (
    *("reasoning_content", "reasoning", "thinking", "think", "thought", "thoughts", "cot"),
    *("rationale", "chain_of_thought", "reasoning_text"),
)
_REASONING_NAMES = frozenset(_REASONING)
_PAIRS = ("chosen", "rejected")
_OPENAI_PAIRS = ("preferred_output", "non_preferred_output")
_LABELS = ("label", "kto_tag")

CONVERSATION_FIELDS = frozenset((*_LISTS, *_QUESTIONS, *_ANSWERS, *_PAIRS, *_OPENAI_PAIRS))
"""The fields of which one has a conversation, or some together."""
LINE_FIELDS: frozenset[str] = CONVERSATION_FIELDS.union(_ADDITIONS, _LABELS, SYSTEM_FIELDS) | {
    *("history", "rejected_response", "tools", "functions")
}
"""The fields that tell shapes apart, or that one of them reads."""


# Lines.


def line_conversation(value: object) -> LineConversation:
    """The conversation in a line. Raises an `InputError` where none, or more than one, is meant."""
    line = _as_object(value)
    _refuse_other_data(line)
    return _only_meaning(line)


def line_conversations(value: object) -> list[LineConversation]:
    """The conversations in a line of any kind: one, or two that differ in their answer."""
    if isinstance(value, dict) and _is_pair(value):
        pair = line_pair(value)
        return [pair.chosen, pair.rejected]
    if isinstance(value, dict) and any(isinstance(value.get(name), bool) for name in _LABELS):
        return [line_with_label(value).conversation]
    return [line_conversation(value)]


def _is_pair(line: Line) -> bool:
    return is_pair(line) or line.get("rejected_response") is not None


def _as_object(value: object) -> Line:
    if isinstance(value, list):
        return {"conversations" if _is_turns(value) and value else "messages": value}
    if isinstance(value, dict):
        texts = [n for n in _LISTS if isinstance(value.get(n), str) and value[n][:1] == "["]
        parsed = {name: json_of(value[name], name) for name in texts}
        if value.get("tools"):  # whose fields tell whose request a line is
            parsed["tools"] = _tools(value)
        return {**value, **parsed} if parsed else value
    raise InputError(mismatch(value, "a list of messages or an object"))


def _refuse_other_data(line: Line) -> None:
    if _is_pair(line):
        raise InputError("found a pair of answers, which --preferences reads")
    for name in _LABELS:
        label = line.get(name)
        if label is not None and (isinstance(label, bool) or label != 1):
            found = f"found an answer with the label {short_repr(label)}"
            raise InputError(f"{name}: {found}, which --kto reads")


# What other programs put into the prompt from beside the messages; SmolLM3 does it by its template,
# and Step-DPO's lines have the steps that both answers continue.
PICTURE_FIELDS = ("image", "images", "videos", "audios")
_BESIDE_MESSAGES: tuple[Location, ...] = (
    *((name,) for name in PICTURE_FIELDS),
    ("chat_template_kwargs", "custom_instructions"),
    ("chat_template_kwargs", "xml_tools"),
    ("chat_template_kwargs", "python_tools"),
    ("initial_reason_steps",),
)
_NAMES_BESIDE_MESSAGES = frozenset(location[0] for location in _BESIDE_MESSAGES)


def _refuse_beside_messages(line: Line) -> None:
    if _NAMES_BESIDE_MESSAGES.isdisjoint(line):
        return
    for location in _BESIDE_MESSAGES:
        value: Any = line
        for name in location:
            value = value.get(name) if isinstance(value, dict) else None
        if value:
            problem = mismatch(value, "it in the messages")
            raise InputError(f"{path_of(location)}: {problem}")


def _only_meaning(fields: Line) -> LineConversation:
    line = RecognisedLine(fields)
    fitting = [shape for shape in _shapes_with(frozenset(line)) if shape.fits(line)]
    if not fitting:
        raise InputError(_nothing_fits(line))
    first, *others = ((shape.name, shape.read(line)) for shape in fitting)
    for name, other in others:
        if not _same_training(first[1], other):
            both = f"found {first[0]} and {name} in one line"
            problem = f"{both}, which mean different tokens or weights"
            raise InputError(f"{problem}: expected one of them")
    return first[1]


def _nothing_fits(line: Line) -> str:
    if "role" in line:
        return 'found an object without "messages": put the messages in a list'
    for name in _LISTS:
        if name in line:
            return f"{name}: found {short_repr(line[name])}, expected a list of messages"
    fields = ", ".join(sorted(map(str, line))[:8]) or "no fields"
    expected = "messages, conversations, or a question and its answer, as instruction and output"
    return f"found an object with {fields}, expected {expected}"


def _same_training(one: LineConversation, other: LineConversation) -> bool:
    """Whether both are the same tokens, and the same of these are trained on."""
    try:
        if one.request == other.request:
            return True
        return _weighed_texts(one.request) == _weighed_texts(other.request)
    except Error:  # one of them cannot be encoded
        return False


def _weighed_texts(request: Request) -> list[tuple[str, str, bool]]:
    """The texts of a prompt, who wrote each, and whether its message has the weight 0."""
    messages: Iterable[Any] = request.messages
    skipped = {n for n, m in enumerate(messages) if _is_dict(m) and m.get("weight") == 0}
    pieces = request.encode().pieces
    return [(p.text, p.origin, p.origin == "model" and p.message in skipped) for p in pieces]


# Lists of messages.


def _is_turns(value: object) -> bool:
    """Whether a list has ShareGPT's turns."""
    return isinstance(value, list) and is_sharegpt({"conversations": value})


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _is_list(line: Line, field: str) -> bool:
    return isinstance(line.get(field), list)


def _fits_list(field: str, line: RecognisedLine) -> bool:
    if not _is_list(line, field):
        return False
    if any(name in line and _fits_answer(field, name, line) for name in _ANSWERS):
        return False
    return not (field == "messages" and line.is_anthropic)


def _read_list(field: str, line: RecognisedLine) -> LineConversation:
    listed = _listed(line[field], (field,))
    for name in _ANSWERS[:3]:
        if name in line:
            _refuse_other_answer(listed, line, name, field)
    masks = _masks(line)
    for name in masks:
        listed = _masked(listed, line[name], name)
    whole = _with_system(line, listed)
    return _conversation(whole, line, (field, *masks), rules=_rules(field, line))


def _refuse_other_answer(listed: Transcript, line: Line, name: str, field: str) -> None:
    last = listed[-1].message if listed else None
    said = last.get("content") if isinstance(last, dict) else None
    if isinstance(line[name], str) and line[name] not in ("", said):
        raise InputError(f"{name}: found another answer than in {field}, expected one")


def _repeated(names: Iterable[str], line: Line, transcript: Transcript) -> Iterator[str]:
    """Those of these fields that are empty, or only repeat what messages say."""
    found = [name for name in names if name != "context" or not line[name]]
    texts = [m.get("content") for m in _messages(transcript) if _is_dict(m)] if found else []
    said = [text for text in texts if isinstance(text, str)]
    return (name for name in found if _is_copy(line[name], name, said))


def _is_copy(value: object, name: str, said: Sequence[str]) -> bool:
    if name in _LISTS and isinstance(value, list):  # a shape of its own, which must mean the same
        return True
    if value in (None, "", [], {}):
        return True
    return isinstance(value, str) and any(value in text for text in said)


def _masks(line: Line) -> list[str]:
    """The fields with a list of weights, one for each message."""
    return [name for name in line if _WEIGHTS.get(name) and isinstance(line[name], list)]


def _masked(transcript: Transcript, mask: list[Any], name: str) -> Transcript:
    """The messages with the weights of a list beside them."""
    if len(mask) != len(transcript) or any(each not in (0, 1) for each in mask):
        raise InputError(f"{name}: found {short_repr(mask)}, expected 0 or 1 for each message")
    weighed = zip(transcript, mask, strict=True)
    return [_weighed(placed, int(weight), (name, n)) for n, (placed, weight) in enumerate(weighed)]


def _weighed(placed: PlacedMessage, weight: int, location: Location) -> PlacedMessage:
    """A message with the weight that a list has for it. Raises where it has another one."""
    message, place = placed
    is_answer = _is_dict(message) and is_of_model(message)
    if not _is_dict(message) or not (weight or is_answer):
        return placed
    if is_answer and message.get("weight", weight) != weight:
        problem = f"found {weight}, which differs from another weight of this message"
        raise InputError(f"{path_of(location)}: {problem}")
    return PlacedMessage({**message, "weight": weight}, place)


def _rules(field: str, line: RecognisedLine) -> BodyRules:
    return line.rules if field == "messages" else "released"


_TURN_NAMES = {"content": "value", "role": "from", "tool_calls": "value"}
_TEXT_NAMES = {"content": "", "role": ""}


def _listed(value: Sequence[Any], location: Location) -> Transcript:
    """A list of messages, of ShareGPT's turns, or of texts of user and assistant in turn."""
    messages, names = value, None
    if value and _is_turns(value):
        messages, names = sharegpt_messages({"conversations": value}, location), _TURN_NAMES
    elif _is_texts(value):
        roles, names = ("user", "assistant"), _TEXT_NAMES
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(value)]
    places = [MessagePlace((*location, n), names) for n in range(len(messages))]
    return [
        PlacedMessage(_plain_message(message, place.location), place)
        for message, place in zip(messages, places, strict=True)
    ]


# Names that trainers have for `weight`, and whether 1 says under them that a message is trained on,
# or that it is not. A `mask` may mean either.
_WEIGHTS = {
    **dict.fromkeys(("weight", "loss", "train", "training", "trainable", "is_trainable"), True),
    **dict.fromkeys(("train_on_turn", "loss_mask", "step_loss_mask", "loss_scale"), True),
    **dict.fromkeys(("loss_weight", "loss_multiplier", "train_mask"), True),
    **dict.fromkeys(("masked", "no_loss", "mask_loss"), False),
}
# Reasoning as lists of blocks: OpenRouter's, and litellm's.
_REASONING_LISTS = {"reasoning_details": "text", "thinking_blocks": "thinking"}
# What a message may have in place of its content.
_CONTENTS = ("text", "message", "parts", "refusal")
_READ_OTHERWISE = frozenset(
    (*_WEIGHTS, *_REASONING[2:], *_REASONING_LISTS, *_CONTENTS, "function_call")
)
_UNUSUAL = _READ_OTHERWISE | {"value"}
# A field with such a name says what is trained on: it must not be passed over. `labels` are those
# of single tokens.
OF_TRAINING = re.compile(
    r"loss|mask|weight|train|learn|supervis|^skip$|^labels$|^(?:is_)?targets?$|_only$",
    re.IGNORECASE,
)


# The order in which a prompt has the blocks of an answer.
_ORDER_OF_BLOCKS = ("thinking", "text", "tool_use")


def has_moved_blocks(body: object) -> bool:
    """Whether an answer has its blocks in another order than a prompt has."""
    messages = body.get("messages") if isinstance(body, dict) else body
    listed = messages if isinstance(messages, list) else []
    answers = [m.get("content") for m in listed if role_of(m) == "assistant"]
    orders = [
        [_ORDER_OF_BLOCKS.index(b["type"]) for b in blocks if _is_block(b, _ORDER_OF_BLOCKS)]
        for blocks in answers
        if isinstance(blocks, list)
    ]
    return any(order != sorted(order) for order in orders)


def _is_block(block: object, kinds: Sequence[str]) -> bool:
    return isinstance(block, dict) and block.get("type") in kinds


# Blocks of which nobody but their server can read anything.
_SEALED = ("redacted_thinking",)


def unread_inside(body: object) -> Iterator[str]:
    """What messages hold of training in objects of their own, what is not read of calls, and blocks
    that cannot be read."""
    messages = body.get("messages") if isinstance(body, dict) else body
    for n, message in enumerate(messages if isinstance(messages, list) else []):
        for name, value in message.items() if _is_dict(message) else {}.items():
            if isinstance(value, str):
                continue
            if name not in ("content", "tool_calls", "tools") and isinstance(value, dict):
                inside = (each for each in value if OF_TRAINING.search(str(each)))
                yield from (f"messages[{n}].{name}.{each}" for each in inside)
            elif name == "tool_calls":
                yield from (f"messages[{n}].{name}{each}" for each in _unread_of_calls(value))
            elif name == "content" and isinstance(value, list):
                kinds = [part.get("type") for part in value if isinstance(part, dict)]
                yield from (f"messages[{n}].content.{kind}" for kind in kinds if kind in _SEALED)
    items = body.get("input") if isinstance(body, dict) else None
    for n, item in enumerate(items if isinstance(items, list) else []):
        if lacks_reasoning(item):
            names = ("summary", "encrypted_content")
            yield from (f"input[{n}].{name}" for name in names if item.get(name))


def _plain_message(message: object, place: Location) -> object:
    """A message with the names of this format for what other trainers call otherwise."""
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
    # What is not read stays, so that it is named or refused.
    read, weight = _content_field(message), _weight(message, where)
    is_answer = message.get("role") == "assistant"
    used = {name for name in _READ_OTHERWISE if message.get(name) is None}
    mine = _READ_OTHERWISE & message.keys() if is_answer else ()
    used.update(name for name in mine if _is_reasoning(message, name))
    if is_answer:
        used.update(_WEIGHTS)
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


# What is read of a call. What else there is, but for the number that streaming gives it, is named.
_CALL_FIELDS = frozenset(("id", "type", "function", "custom", "namespace", "index"))
_FUNCTION_FIELDS = frozenset(("type", "name", "arguments", "namespace", "id"))


def _are_plain(calls: object) -> bool:
    if isinstance(calls, list):
        return all(map(_is_plain_call, calls))
    return not isinstance(calls, str)


def _is_plain_call(call: Any) -> bool:
    """Whether a call has nothing but what is read."""
    function = call.get("function") if _is_dict(call) else None
    if not isinstance(function, dict):  # which is refused
        return True
    return _CALL_FIELDS.issuperset(call) and _FUNCTION_FIELDS.issuperset(function)


def _plain_calls(calls: object, where: str) -> object:
    """The calls of a message, which may be JSON text, with their arguments where they are read."""
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


def _unread_of_calls(calls: object) -> Iterator[str]:
    """The fields of calls that nothing reads, by their places in the list."""
    for n, call in enumerate(calls if isinstance(calls, list) else []):
        function = call.get("function") if _is_dict(call) else None
        inside = ("function.", function, _FUNCTION_FIELDS)
        for prefix, fields, read in (("", call, _CALL_FIELDS), inside):
            others = fields.items() if isinstance(fields, dict) else ()
            for name, value in others:
                if name not in read and value not in (None, [], {}):
                    yield f"[{n}].{prefix}{name}"


def _content_field(message: Line) -> str | None:
    """The field that has a message's content under another name."""
    if message.get("content") not in (None, "", []):
        return None
    return next((name for name in _CONTENTS if isinstance(message.get(name), (str, list))), None)


def _is_reasoning(message: Line, name: str) -> bool:
    """Whether a field has reasoning that is read."""
    value = message[name]
    if name not in _REASONING_LISTS:
        return name in _REASONING and isinstance(value, str)
    blocks = [block for block in value if _is_dict(block)] if isinstance(value, list) else [{}]
    return all(isinstance(block.get(_REASONING_LISTS[name]), str) for block in blocks)


def _message_reasoning(message: Line, where: str) -> str | None:
    """The reasoning of a message, under whichever name. Raises where two differ."""
    found = [message[name] for name in _REASONING if isinstance(message.get(name), str)]
    for name, field in _REASONING_LISTS.items():
        blocks = message.get(name)
        texts = [b.get(field) for b in blocks if _is_dict(b)] if isinstance(blocks, list) else []
        found.append("\n\n".join(text for text in texts if isinstance(text, str)))
    return _only_reasoning(found, where)


def _only_reasoning(texts: Iterable[str], where: str) -> str | None:
    """The reasoning that texts under several names are. Raises where two differ."""
    found = [text for text in texts if text]
    if any(text != found[0] for text in found):
        raise InputError(f"{where}: found reasoning under two names, expected it once")
    return found[0] if found else None


def _weight(message: Line, where: str) -> int | None:
    """Whether a message is trained on, as its author says it: 1, 0, or None."""
    weights = set()
    for name, trained in _WEIGHTS.items():
        value = message.get(name)
        if value is None:
            continue
        if value not in (0, 1) or isinstance(value, (list, dict)):
            raise InputError(f"{where}.{name}: {mismatch(value, '0 or 1')}")
        weights.add(int(value == trained))
    if len(weights) > 1:
        raise InputError(f"{where}: found two weights, expected one")
    return weights.pop() if weights else None


def _with_system(line: Line, transcript: Transcript) -> Transcript:
    """The messages after the system prompt that stands beside them, if there is one."""
    names = [name for name in SYSTEM_FIELDS if line.get(name)]
    if not names:
        return transcript
    name = names[0]
    for other in names:
        if line[other] != line[name]:
            raise InputError(f"found {name} and {other}, expected one system prompt")
    message = {"role": "system", "content": line[name]}
    if _messages(transcript[:1]) == [message] and not _is_request(line):
        return transcript
    return [PlacedMessage(message, MessagePlace((name,), _TEXT_NAMES)), *transcript]


def _is_request(line: Line) -> bool:
    """Whether a line has fields that only a request to a server has, besides `system`."""
    return recognise({n: v for n, v in line.items() if n != "system"}).rules == "body"


def _tools(line: Line) -> Any:
    """The tools, which may be JSON text, all of them or each."""
    tools = line.get("tools")
    if line.get("functions") and not tools:
        hint = "dsv4 check --fix writes them as tools"
        raise InputError(f"functions: found OpenAI's older form of tools ({hint})")
    if isinstance(tools, str):
        tools = json_of(tools, "tools") if tools.strip() else None
    if isinstance(tools, list):
        tools = [
            json_of(tool, f"tools[{n}]") if isinstance(tool, str) else tool
            for n, tool in enumerate(tools)
        ]
    return tools or None


# Requests of other protocols.


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_openai(line: Line) -> bool:
    """Whether messages have what only OpenAI's have."""
    messages = line["messages"]
    return any(role_of(m) == "tool" or (_is_dict(m) and m.get("tool_calls")) for m in messages)


def _fits_messages(line: RecognisedLine) -> bool:
    return line.is_anthropic and _is_list(line, "messages")


def _fits_both(line: RecognisedLine) -> bool:
    return line.is_anthropic and _is_list(line, "messages") and _is_openai(line)


def _fits_responses(line: Line) -> bool:
    """Whether a line has items, or is a request with a text as `input`."""
    if "messages" in line or "instruction" in line:
        return False
    if isinstance(line.get("output"), str):
        return "instructions" in line
    if isinstance(line["input"], str) and line.keys() <= FIELDS_READ["responses"]:
        return True
    answered = any(line.get(name) is not None for name in _ANSWERS)
    return _is_list(line, "output") or (_is_list(line, "input") and not answered)


def _read_messages(line: Line) -> LineConversation:
    return _converted(line, "messages", line["messages"])


def _read_responses(line: Line) -> LineConversation:
    """The items of a request, and those of its response, if the line has it too."""
    items, output = line["input"], line.get("output")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise InputError(f"input: found {short_repr(items)}, expected text or a list of items")
    if isinstance(output, list):
        items = [*items, *output]
    rest = {name: value for name, value in line.items() if name != "output"}
    return _converted({**rest, "input": items}, "responses", items)


def _converted(
    line: Line, protocol: Literal["messages", "responses"], turns: Sequence[Any]
) -> LineConversation:
    _refuse_beside_messages(line)
    field = "messages" if protocol == "messages" else "input"
    for n, turn in enumerate(turns):
        if _is_dict(turn) and _WEIGHTS.keys() & turn.keys():
            raise InputError(f"{field}[{n}]: found a weight, which {protocol} has no place for")
    last = turns[-1] if turns and _is_dict(turns[-1]) else {}
    is_open = bool(last.get("prefix") or last.get("wo_eos"))
    masks = _masks(line)
    if masks:
        listed = [PlacedMessage(turn, MessagePlace((field, n))) for n, turn in enumerate(turns)]
        for name in masks:
            listed = _masked(listed, line[name], name)
        rest = {name: value for name, value in line.items() if name not in masks}
        line = {**rest, field: _messages(listed)}
    return LineConversation(line, rules="body", protocol=protocol, is_open=is_open)


# A question and its answer.


def _question_fields(line: Line) -> list[str]:
    """The fields that may have the question. An `input` belongs to the instruction beside it."""
    names = [name for name in _QUESTIONS if line.get(name)]
    return [n for n in names if n != "input"] if "instruction" in names else names


def _fits_answer(question: str, answer: str, line: Line) -> bool:
    value = line.get(answer)
    if not isinstance(value, (str, list)):
        return False
    if question in _LISTS:
        return bool(value) and _ends_without_answer(line[question])
    if question not in _question_fields(line):
        return False
    return not (question == "input" and isinstance(value, list))  # those are items


def _ends_without_answer(turns: object) -> bool:
    last = turns[-1] if isinstance(turns, list) and turns and _is_dict(turns[-1]) else {}
    return last.get("role", last.get("from")) in ("user", "human", "tool", "observation")


def _read_answer(question: str, answer: str, line: RecognisedLine) -> LineConversation:
    before = _before_answer(line, question)
    if question == "prompt":  # of which trainers train nothing, not even answers in it
        before = [PlacedMessage(_unweighed(message), place) for message, place in before]
    used = (answer, *_question_uses(line, question), *_reasoning_uses(line, answer))
    whole, rules = before + _answer(line, answer), _rules(question, line)
    return _conversation(whole, line, used, len(before), rules)


def _unweighed(message: Any) -> Any:
    """A message of a prompt, of which nothing is trained on unless it says so itself."""
    return {"weight": 0, **message} if role_of(message) == "assistant" else message


# BELLE's lines and Anthropic's: "Human: Hi\nAssistant: Hello\nHuman: Bye\nAssistant:".
_FIRST_TURN, _LAST_TURN = re.compile(r"\s*(?:Human|User)\s*[:：]"), re.compile(r"Assistant\s*[:：]")


def _is_transcript(text: str) -> bool:
    last_line = text.rstrip().rpartition("\n")[2].strip()
    return bool(_LAST_TURN.fullmatch(last_line) and _FIRST_TURN.match(text))


def _before_answer(line: Line, question: str) -> Transcript:
    """The system prompt, earlier rounds, and the question."""
    value = line[question]
    if isinstance(value, list):
        return _with_system(line, _listed(value, (question,)))
    if not isinstance(value, str):
        expected = "expected text or a list of messages"
        raise InputError(f"{question}: found {short_repr(value)}, {expected}")
    if _is_transcript(value):
        raise InputError(
            f"{question}: found several turns in one text, expected a list of messages"
        )
    if question == "instruction":
        value = "\n".join([value, *_addition(line)])
    elif line.get("context") and isinstance(line["context"], str):
        raise InputError(f"context: found text beside {question}, expected it beside instruction")
    message = {"role": "user", "content": value}
    question_message = PlacedMessage(message, MessagePlace((question,), _TEXT_NAMES))
    return _with_system(line, [*_history(line), question_message])


def _addition(line: Line) -> list[str]:
    """What belongs to an instruction, if there is anything."""
    added = {name: line[name] for name in _ADDITIONS if line.get(name)}
    for name, value in added.items():
        if not isinstance(value, str):
            raise InputError(f"{name}: found {short_repr(value)}, expected text")
        if value != next(iter(added.values())):
            raise InputError(f"found {' and '.join(added)}, which differ: expected one of them")
    return list(added.values())[:1]


def _question_uses(line: Line, question: str) -> tuple[str, ...]:
    """The fields that a question is made of. A list has its history in it."""
    if isinstance(line[question], list):
        return (question,)
    return (question, "history", *(_ADDITIONS if question == "instruction" else ()))


def _history(line: Line) -> Transcript:
    """Earlier rounds, as pairs of texts."""
    rounds = line.get("history") or []
    if not isinstance(rounds, list) or not all(_is_texts(r) and len(r) == 2 for r in rounds):
        raise InputError(f"history: found {short_repr(rounds)}, expected pairs of texts")
    listed = (_listed(texts, ("history", n)) for n, texts in enumerate(rounds))
    return [placed for each in listed for placed in each]


def _reasoning_fields(line: Line) -> Iterator[str]:
    """The fields with the answer's reasoning. "on" and "off" are Nemotron's switch, and an object
    is a request's."""
    for name in () if _REASONING_NAMES.isdisjoint(line) else _REASONING:
        value = line.get(name)
        if isinstance(value, str) and value not in ("on", "off", "enabled", "disabled"):
            yield name


def _reasoning_uses(line: Line, answer: str) -> Iterable[str]:
    """The fields that are an answer's reasoning. A list has its own."""
    return _reasoning_fields(line) if isinstance(line[answer], str) else ()


def _answer(line: Line, field: str) -> Transcript:
    if field == "answer" and line.get("solution") not in (None, "", line[field]):
        raise InputError("found answer and solution in one line, expected one of them")
    answer = _answer_turns(line[field], (field,))
    texts = [line[name] for name in _reasoning_uses(line, field)]
    if (reasoning := _only_reasoning(texts, "the line")) is not None:
        answer[0].message["reasoning_content"] = reasoning
    return answer


def _answer_turns(value: object, location: Location) -> Transcript:
    """An answer: a text, a message, or a list of messages."""
    if isinstance(value, str):
        message = {"role": "assistant", "content": value}
        return [PlacedMessage(message, MessagePlace(location, _TEXT_NAMES))]
    turns = [value] if isinstance(value, dict) else value
    # Several texts are other wordings of an answer, as question answering has them.
    if not isinstance(turns, list) or not turns or _is_texts(turns):
        where = path_of(location)
        expected = "expected text, a message or a list of messages"
        raise InputError(f"{where}: found {short_repr(value)}, {expected}")
    listed = _listed(turns, location)
    if turns != value:
        message, place = listed[0]
        return [PlacedMessage(message, MessagePlace(location, place.names))]
    return listed


# The table.


def _shapes() -> Iterator[LineShape]:
    for field in _LISTS:
        fits, read = partial(_fits_list, field), partial(_read_list, field)
        yield LineShape(f"a list in {field}", (field,), fits, read)
    yield LineShape("Anthropic's blocks", ("messages",), _fits_messages, _read_messages)
    yield LineShape("OpenAI's calls", ("messages",), _fits_both, partial(_read_list, "messages"))
    yield LineShape("Responses items", ("input",), _fits_responses, _read_responses)
    for question in (*_LISTS, *_QUESTIONS):
        for answer in _ANSWERS:
            fits = partial(_fits_answer, question, answer)
            read = partial(_read_answer, question, answer)
            yield LineShape(f"{question} with {answer}", (question, answer), fits, read)


SHAPES = tuple(_shapes())


@lru_cache
def _shapes_with(fields: frozenset[str]) -> tuple[LineShape, ...]:
    """The shapes that a line with these fields may have."""
    return tuple(shape for shape in SHAPES if fields.issuperset(shape.fields))


# Preference data: two answers to one prompt, or two conversations that begin alike.


def line_pair(value: object) -> LinePair:
    """The pair in a line. Raises an `InputError` where there is none."""
    if not isinstance(value, dict):
        expected = 'expected an object with "chosen" and "rejected"'
        raise InputError(f"found {short_repr(value)}, {expected}")
    line, used, before, chosen, rejected = _pair_parts(_as_object(value))
    chosen, before_chosen = _without_copy(before, chosen)
    rejected, before_rejected = _without_copy(before, rejected)
    if before_chosen != before_rejected:
        raise InputError("rejected: found an answer, expected a conversation, as chosen is one")
    before = _with_system(line, before_chosen) if before_chosen else before_chosen
    if not before:
        chosen, rejected = _with_system(line, chosen), _with_system(line, rejected)
    if _messages(chosen) == _messages(rejected):
        raise InputError("rejected: found what is chosen too, expected another answer")
    start = len(before) or _parting(chosen, rejected)
    _refuse_other_lists(line, used, before + chosen)
    used = {*used, *_repeated(line.keys() & LINE_FIELDS, line, before + chosen + rejected)}
    better, worse = (_conversation(before + side, line, used) for side in (chosen, rejected))
    return LinePair(better, worse, start)


class PairParts(NamedTuple):
    """What a pair is made of, in each of its layouts: the line, the fields that are read here, what
    is before, both answers."""

    line: Line
    used: Collection[str]
    before: Transcript
    chosen: Transcript
    rejected: Transcript


def _pair_parts(line: Line) -> PairParts:
    if _OPENAI_PAIRS[0] in line:
        inner = _input_of_pair(line)
        before = inner.get("messages") or []
        if not isinstance(before, list):
            raise InputError(f"input.messages: {mismatch(before, 'a list of messages')}")
        chosen, rejected = (_answer_turns(line.get(name), (name,)) for name in _OPENAI_PAIRS)
        listed = _listed(before, ("input", "messages"))
        return PairParts(inner, ("messages",), listed, chosen, rejected)
    if "rejected_response" in line and _is_list(line, "messages"):
        whole = _listed(line["messages"], ("messages",))
        if role_of(whole[-1].message if whole else None) != "assistant":
            raise InputError("messages: found no answer at their end, expected the one to choose")
        rejected = _answer_turns(line["rejected_response"], ("rejected_response",))
        return PairParts(line, ("messages", "rejected_response"), whole[:-1], whole[-1:], rejected)
    if not all(name in line for name in _PAIRS):
        fields = ", ".join(sorted(map(str, line))[:8])
        raise InputError(f'found an object with {fields}, expected "chosen" and "rejected"')
    chosen, rejected = (_answer_turns(line[name], (name,)) for name in _PAIRS)
    uses, before = _pair_prompt(line)
    return PairParts(line, (*_PAIRS, *uses), before, chosen, rejected)


def _input_of_pair(line: Line) -> Line:
    """OpenAI's `input`, with what stands beside it."""
    inner = line.get("input")
    inner = inner if isinstance(inner, dict) else {}
    beside = {name: line[name] for name in line if name not in ("input", *_OPENAI_PAIRS)}
    for name in beside.keys() & inner.keys():
        if beside[name] != inner[name]:
            raise InputError(f"{name}: found another in input, expected one of them")
    return {**beside, **inner}


def _refuse_other_lists(line: Line, used: Collection[str], whole: Transcript) -> None:
    """Raises where a list of messages beside a pair is not how its conversation begins."""
    expected = _messages(whole)
    without_system = expected[1:] if role_of(expected[0]) == "system" else expected
    for name in _LISTS:
        if name not in used and _is_list(line, name):
            listed = _messages(_listed(line[name], (name,)))
            if listed not in (expected[: len(listed)], without_system[: len(listed)]):
                raise InputError(f"{name}: found another conversation than in the pair")


def _pair_prompt(line: Line) -> tuple[Iterable[str], Transcript]:
    """The messages before both answers, without the system prompt beside them, and the fields that
    they are made of."""
    bare = {name: value for name, value in line.items() if name not in SYSTEM_FIELDS}
    questions = _question_fields(line)
    if any(line[name] != line[questions[0]] for name in questions):
        raise InputError(f"found {questions[0]} and {questions[1]}, expected one question")
    if questions:
        uses = _question_uses(line, questions[0])
        return (*questions, *uses), _before_answer(bare, questions[0])
    field = next((name for name in _LISTS if _is_list(line, name)), None)
    return ((), []) if field is None else ((field,), _listed(line[field], (field,)))


def _without_copy(before: Transcript, side: Transcript) -> tuple[Transcript, Transcript]:
    """A side of a pair, and what is before it. A conversation has its prompt in it, so that the one
    beside it is a copy."""
    name, first = side[0].place.location[0], role_of(side[0].message)
    if first not in ("system", "user"):
        if not before:
            raise InputError(f"{name}: found an answer, and no prompt before it")
        return side, before
    if _messages(side[: len(before)]) == _messages(before):
        return side[len(before) :], before
    texts = [m.get("content") for m in _messages(side) if role_of(m) == "user"]
    question = before[0].message if len(before) == 1 else None
    if isinstance(question, dict) and question.get("content") in texts:
        return side, []
    place = before[0].place.location[0]
    raise InputError(f"{name}: found a conversation that does not begin with {place}")


def _parting(chosen: Transcript, rejected: Transcript) -> int:
    """How many messages two conversations begin with alike. They part at an answer."""
    pairs = enumerate(zip(_messages(chosen), _messages(rejected), strict=False))
    start = next((n for n, (a, b) in pairs if a != b), min(len(chosen), len(rejected)))
    for name, side in zip(_PAIRS, (chosen, rejected), strict=True):
        role = role_of(side[start].message) if start < len(side) else None
        if role != "assistant":
            words = f"found {short_repr(role)}" if role is not None else "found no message"
            problem = f"{words}, expected both conversations to part at an answer"
            raise InputError(f"{name}[{start}]: {problem}")
    return start


# Answers with a label, for KTO.


def line_with_label(value: object) -> LabelledAnswer:
    """The answer and its label in a line. Raises an `InputError` where there is none."""
    line = _as_object(value)
    name = next((name for name in _LABELS if name in line), None)
    label = line.get(name) if name is not None else None
    if any(line.get(other) not in (None, label) for other in _LABELS):
        raise InputError(f"found {' and '.join(_LABELS)}, which differ: expected one of them")
    if not isinstance(label, bool):
        problem = "found none" if name is None else f"found {short_repr(label)}"
        raise InputError(f"{name or 'label'}: {problem}, expected true or false")
    read = _only_meaning({field: value for field, value in line.items() if field not in _LABELS})
    messages = read.request.messages
    if not isinstance(messages, list):
        problem = short_repr(messages)
        raise InputError(f"messages: found {problem}, expected a list of messages")
    start = len(messages) - 1 if read.before_answer is None else read.before_answer
    if role_of(messages[start] if 0 <= start < len(messages) else None) != "assistant":
        raise InputError("found no answer at the end of the conversation, expected one")
    return LabelledAnswer(read, label, start)

"""The shapes that lines of data sets have: how to recognise each, and how to read it.

`SHAPES` is the table; docs/datasets.md shows it to users. A line that fits several shapes is read
if all of them mean the same tokens, and refused with their names otherwise: Magpie's lines have
`instruction`, `response` and the same text as `conversations`, which is not ambiguous.

In a data set a last answer is complete, whatever it means in the protocol of the line: only a line
that says `prefix` or `wo_eos` leaves it open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

from dsv4._inputs.input_files import InputError
from dsv4._inputs.line_messages import (
    REASONING,
    TEXT_NAMES,
    WEIGHTS,
    Line,
    MessagePlace,
    PlacedMessage,
    Transcript,
    bare_messages,
    is_texts,
    is_turns,
    listed_messages,
    only_reasoning,
    weighed_by_lists,
    weight_lists,
)
from dsv4._inputs.request_bodies import LastAnswer, ReadBody, RequestOverrides
from dsv4._inputs.session_entries import dict_of
from dsv4.api.api_request import BodyRules, ProtocolName
from dsv4.api.body_reader import recognise
from dsv4.api.ignored_fields import FIELDS_READ
from dsv4.api.own_bodies import is_pair, json_of, role_of
from dsv4.errors import Error, Location, mismatch, path_of, short_repr
from dsv4.request import Request


class RecognisedLine(dict[str, Any]):
    """A line, and the facts that every shape needs, computed once.

    `is_anthropic` says whether it has something that only Anthropic's Messages have. A `system`
    text does not count: many data sets have it beside OpenAI's messages.
    """

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        recognised = recognise(line)
        self.rules: BodyRules = recognised.rules
        if isinstance(line.get("system"), str):
            recognised = recognise({n: value for n, value in line.items() if n != "system"})
        self.is_anthropic = recognised.protocol == "messages"


# The results of reading a line, and the form of its readers.


@dataclass(frozen=True)
class LineConversation:
    """The conversation in a line: a request, and the place of each of its messages in the line, if
    that differs from the place in the request.

    `before_answer` is the number of messages before the answer, if the line keeps them apart.
    `rules` are those that the request is read by, in its `protocol`, and `is_open` says that the
    line leaves its end open.
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
        """The request, with options that apply to all lines."""
        last_answer: LastAnswer = "keep" if self.is_open else "finish"
        return overrides.read(dict(self.body), last_answer, self.rules, self.protocol, is_line=True)

    def location(self, location: Location) -> Location:
        """The place in the line of a place in the request."""
        if self.rules == "body":
            location = self.read(RequestOverrides()).place(location)
        return self.place(location)

    def place(self, location: Location) -> Location:
        """The place in the line of a place in the body."""
        index = location[1] if len(location) > 1 and location[0] == "messages" else None
        if not isinstance(index, int) or not index < len(self.places):
            return location
        return self.places[index].of(location[2:])


class LineShape(NamedTuple):
    """A shape of lines: its name, the fields that every line of it has, a function that tells
    whether a line with these fits, and a function that reads it."""

    name: str
    fields: tuple[str, ...]
    fits: Callable[[RecognisedLine], bool]
    read: Callable[[RecognisedLine], LineConversation]


class LinePair(NamedTuple):
    """Two conversations, of which the chosen one has the better answer.

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


def _conversation(
    transcript: Transcript,
    line: Line,
    used: Iterable[str],
    before_answer: int | None = None,
    rules: BodyRules = "released",
) -> LineConversation:
    """The conversation of messages and the options of the line. `used` are the fields that the
    messages come from. Other fields that could hold a conversation stay, so that they are named."""
    _refuse_beside_messages(line)
    silent = {*used, *SYSTEM_FIELDS, "tools"}
    beside = [name for name in line if name in LINE_FIELDS and name not in silent]
    if beside:
        repeated = _repeated(beside, line, transcript)
        silent.update(n for n in repeated if line[n] != "" or n not in _NAMED_THOUGH_EMPTY)
    if "messages" in line and "messages" not in silent:  # the body needs this field
        raise InputError(f"messages: {mismatch(line['messages'], 'a list of messages')}")
    tools = _tools(line)
    options = {name: value for name, value in line.items() if name not in silent}
    body = {**options, **({"tools": tools} if tools else {}), "messages": bare_messages(transcript)}
    return LineConversation(
        body, tuple(placed.place for placed in transcript), before_answer, rules
    )


# Fields with messages.
_LISTS = ("messages", "conversations", "conversation")
# Fields with a system prompt beside the messages.
SYSTEM_FIELDS = ("system", "system_prompt", "system_message", "instructions")
# Fields with a question, and fields with an answer.
_QUESTIONS = ("prompt", "instruction", "query", "question", "input")
_ANSWERS = ("completion", "output", "response", "answer")
# Fields with a text that belongs to an instruction: Alpaca's name for it, and Dolly's.
_ADDITIONS = ("input", "context")
_PAIRS = ("chosen", "rejected")
_OPENAI_PAIRS = ("preferred_output", "non_preferred_output")
_LABELS = ("label", "kto_tag")

# An empty text in one of these may be meant as an empty answer. Not an empty `input`: Alpaca's rows
# have it, and it would say that the line is a request.
_NAMED_THOUGH_EMPTY = frozenset((*_QUESTIONS, *_ANSWERS, *_PAIRS, *_OPENAI_PAIRS, "history")) - {
    "input"
}

CONVERSATION_FIELDS = frozenset((*_LISTS, *_QUESTIONS, *_ANSWERS, *_PAIRS, *_OPENAI_PAIRS))
"""The fields that hold a conversation, each by itself or several together."""
LINE_FIELDS: frozenset[str] = CONVERSATION_FIELDS.union(_ADDITIONS, _LABELS, SYSTEM_FIELDS) | {
    *("history", "rejected_response", "tools", "functions")
}
"""The fields that tell shapes apart, or that one of them reads."""


# Lines.


def line_conversation(value: object) -> LineConversation:
    """The conversation in a line. Raises an `InputError` if the line has none, or more than one."""
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
        return {"conversations" if is_turns(value) and value else "messages": value}
    if isinstance(value, dict):
        texts = [n for n in _LISTS if isinstance(value.get(n), str) and value[n][:1] == "["]
        parsed = {name: json_of(value[name], name) for name in texts}
        if value.get("tools"):  # their fields help to recognise the protocol of a line
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


# Fields beside the messages that other programs put into the prompt. SmolLM3's template does so,
# and Step-DPO's lines have the steps that both answers continue.
PICTURE_FIELDS = ("image", "images", "videos", "audios")
_BESIDE_MESSAGES: tuple[tuple[str, ...], ...] = (
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
            value = dict_of(value).get(name)
        if value:
            raise InputError(f"{path_of(location)}: {mismatch(value, 'it in the messages')}")


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
            return f"{name}: {mismatch(line[name], 'a list of messages')}"
    fields = ", ".join(sorted(map(str, line))[:8]) or "no fields"
    expected = "messages, conversations, or a question and its answer, as instruction and output"
    return f"found an object with {fields}, expected {expected}"


def _same_training(one: LineConversation, other: LineConversation) -> bool:
    """Whether both mean the same tokens, with the same ones trained on."""
    try:
        if one.request == other.request:
            return True
        return _weighed_texts(one.request) == _weighed_texts(other.request)
    except Error:  # one of them cannot be encoded
        return False


def _weighed_texts(request: Request) -> list[tuple[str, str, bool]]:
    """The texts of a prompt, the origin of each, and whether its message has the weight 0."""
    messages: Iterable[Any] = request.messages
    skipped = {n for n, m in enumerate(messages) if isinstance(m, dict) and m.get("weight") == 0}
    pieces = request.encode().pieces
    return [(p.text, p.origin, p.origin == "model" and p.message in skipped) for p in pieces]


# Lists of messages.


def _is_list(line: Line, field: str) -> bool:
    return isinstance(line.get(field), list)


def _fits_list(field: str, line: RecognisedLine) -> bool:
    if not _is_list(line, field):
        return False
    if any(name in line and _fits_answer(field, name, line) for name in _ANSWERS):
        return False
    return not (field == "messages" and line.is_anthropic)


def _read_list(field: str, line: RecognisedLine) -> LineConversation:
    listed = listed_messages(line[field], (field,))
    for name in _ANSWERS[:3]:
        if name in line:
            _refuse_other_answer(listed, line, name, field)
    whole = _with_system(line, weighed_by_lists(listed, line))
    return _conversation(whole, line, (field, *weight_lists(line)), rules=_rules(field, line))


def _refuse_other_answer(listed: Transcript, line: Line, name: str, field: str) -> None:
    said = dict_of(listed[-1].message).get("content") if listed else None
    if isinstance(line[name], str) and line[name] not in ("", said):
        raise InputError(f"{name}: found another answer than in {field}, expected one")


def _repeated(names: Iterable[str], line: Line, transcript: Transcript) -> Iterator[str]:
    """The fields among `names` that are empty, or only repeat texts of messages."""
    found = [name for name in names if name != "context" or not line[name]]
    texts = (dict_of(placed.message).get("content") for placed in transcript) if found else ()
    said = [text for text in texts if isinstance(text, str)]
    return (name for name in found if _is_copy(line[name], name, said))


def _is_copy(value: object, name: str, said: Sequence[str]) -> bool:
    if name in _LISTS and isinstance(value, list):  # another shape, whose meaning is compared
        return True
    if value in (None, "", [], {}):
        return True
    return isinstance(value, str) and any(value in text for text in said)


def _rules(field: str, line: RecognisedLine) -> BodyRules:
    return line.rules if field == "messages" else "released"


def _with_system(line: Line, transcript: Transcript) -> Transcript:
    """The messages, after the system prompt that the line has beside them, if there is one."""
    names = [name for name in SYSTEM_FIELDS if line.get(name)]
    if not names:
        return transcript
    name = names[0]
    for other in names:
        if line[other] != line[name]:
            raise InputError(f"found {name} and {other}, expected one system prompt")
    message = {"role": "system", "content": line[name]}
    if bare_messages(transcript[:1]) == [message] and not _is_request(line):
        return transcript
    return [PlacedMessage(message, MessagePlace((name,), TEXT_NAMES)), *transcript]


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


def _is_openai(line: Line) -> bool:
    """Whether messages have something that only OpenAI's have."""
    messages = line["messages"]
    return any(role_of(m) == "tool" or dict_of(m).get("tool_calls") for m in messages)


def _fits_messages(line: RecognisedLine) -> bool:
    return line.is_anthropic and _is_list(line, "messages")


def _fits_both(line: RecognisedLine) -> bool:
    return _fits_messages(line) and _is_openai(line)


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


def _read_responses(line: Line) -> LineConversation:
    """The items of a request, and those of its response, if the line has it too."""
    items, output = line["input"], line.get("output")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise InputError(f"input: {mismatch(items, 'text or a list of items')}")
    if isinstance(output, list):
        items = [*items, *output]
    rest = {name: value for name, value in line.items() if name != "output"}
    return _read_request("responses", "input", {**rest, "input": items})


def _read_request(protocol: ProtocolName, field: str, line: Line) -> LineConversation:
    """The request in a line, in a protocol that has its turns in a `field`."""
    _refuse_beside_messages(line)
    turns = line[field]
    for n, turn in enumerate(turns):
        if WEIGHTS.keys() & dict_of(turn).keys():
            raise InputError(f"{field}[{n}]: found a weight, which {protocol} has no place for")
    last = dict_of(turns[-1]) if turns else {}
    is_open = bool(last.get("prefix") or last.get("wo_eos"))
    lists = weight_lists(line)
    if lists:
        placed = [PlacedMessage(turn, MessagePlace((field, n))) for n, turn in enumerate(turns)]
        rest = {name: value for name, value in line.items() if name not in lists}
        line = {**rest, field: bare_messages(weighed_by_lists(placed, line))}
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
    return not (question == "input" and isinstance(value, list))  # a list has items of Responses


def _ends_without_answer(turns: object) -> bool:
    last = dict_of(turns[-1]) if isinstance(turns, list) and turns else {}
    return last.get("role", last.get("from")) in ("user", "human", "tool", "observation")


def _read_answer(question: str, answer: str, line: RecognisedLine) -> LineConversation:
    before = _before_answer(line, question)
    if question == "prompt":  # trainers do not train on it, not even on answers in it
        before = [PlacedMessage(_unweighed(message), place) for message, place in before]
    used = (answer, *_question_uses(line, question), *_reasoning_uses(line, answer))
    whole, rules = before + _answer(line, answer), _rules(question, line)
    return _conversation(whole, line, used, len(before), rules)


def _unweighed(message: Any) -> Any:
    """A message of a prompt, which is not trained on unless it says so itself."""
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
        return _with_system(line, listed_messages(value, (question,)))
    if not isinstance(value, str):
        raise InputError(f"{question}: {mismatch(value, 'text or a list of messages')}")
    if _is_transcript(value):
        raise InputError(
            f"{question}: found several turns in one text, expected a list of messages"
        )
    if question == "instruction":
        value = "\n".join([value, *_addition(line)])
    elif line.get("context") and isinstance(line["context"], str):
        raise InputError(f"context: found text beside {question}, expected it beside instruction")
    message = {"role": "user", "content": value}
    question_message = PlacedMessage(message, MessagePlace((question,), TEXT_NAMES))
    return _with_system(line, [*_history(line), question_message])


def _addition(line: Line) -> list[str]:
    """The text that belongs to an instruction, if there is any."""
    added = {name: line[name] for name in _ADDITIONS if line.get(name)}
    for name, value in added.items():
        if not isinstance(value, str):
            raise InputError(f"{name}: {mismatch(value, 'text')}")
        if value != next(iter(added.values())):
            raise InputError(f"found {' and '.join(added)}, which differ: expected one of them")
    return list(added.values())[:1]


def _question_uses(line: Line, question: str) -> tuple[str, ...]:
    """The fields that a question is read from. A list includes its history."""
    if isinstance(line[question], list):
        return (question,)
    return (question, "history", *(_ADDITIONS if question == "instruction" else ()))


def _history(line: Line) -> Transcript:
    """Earlier rounds, as pairs of texts."""
    rounds = line.get("history") or []
    if not isinstance(rounds, list) or not all(is_texts(r) and len(r) == 2 for r in rounds):
        raise InputError(f"history: {mismatch(rounds, 'pairs of texts')}")
    listed = (listed_messages(texts, ("history", n)) for n, texts in enumerate(rounds))
    return [placed for each in listed for placed in each]


def _reasoning_fields(line: Line) -> Iterator[str]:
    """The fields with the answer's reasoning. "on" and "off" are Nemotron's switch, and an object
    is the switch of a request."""
    for name in REASONING:
        value = line.get(name)
        if isinstance(value, str) and value not in ("on", "off", "enabled", "disabled"):
            yield name


def _reasoning_uses(line: Line, answer: str) -> Iterable[str]:
    """The fields with an answer's reasoning. An answer that is a list includes its own."""
    return _reasoning_fields(line) if isinstance(line[answer], str) else ()


def _answer(line: Line, field: str) -> Transcript:
    if field == "answer" and line.get("solution") not in (None, "", line[field]):
        raise InputError("found answer and solution in one line, expected one of them")
    answer = _answer_turns(line[field], (field,))
    texts = [line[name] for name in _reasoning_uses(line, field)]
    if (reasoning := only_reasoning(texts, "the line")) is not None:
        answer[0].message["reasoning_content"] = reasoning
    return answer


def _answer_turns(value: object, location: Location) -> Transcript:
    """An answer: a text, a message, or a list of messages."""
    if isinstance(value, str):
        message = {"role": "assistant", "content": value}
        return [PlacedMessage(message, MessagePlace(location, TEXT_NAMES))]
    turns = [value] if isinstance(value, dict) else value
    # A list of texts has alternative wordings of an answer, as data of question answering does.
    if not isinstance(turns, list) or not turns or is_texts(turns):
        expected = "text, a message or a list of messages"
        raise InputError(f"{path_of(location)}: {mismatch(value, expected)}")
    listed = listed_messages(turns, location)
    if turns != value:
        message, place = listed[0]
        return [PlacedMessage(message, MessagePlace(location, place.names))]
    return listed


# The table.


def _shapes() -> Iterator[LineShape]:
    for field in _LISTS:
        fits, read = partial(_fits_list, field), partial(_read_list, field)
        yield LineShape(f"a list in {field}", (field,), fits, read)
    read = partial(_read_request, "messages", "messages")
    yield LineShape("Anthropic's blocks", ("messages",), _fits_messages, read)
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
    """The pair in a line. Raises an `InputError` if there is none."""
    if not isinstance(value, dict):
        raise InputError(mismatch(value, 'an object with "chosen" and "rejected"'))
    line, used, before, chosen, rejected = _pair_parts(_as_object(value))
    chosen, before_chosen = _without_copy(before, chosen)
    rejected, before_rejected = _without_copy(before, rejected)
    if before_chosen != before_rejected:
        raise InputError("rejected: found an answer, expected a conversation, as chosen is one")
    before = _with_system(line, before_chosen) if before_chosen else before_chosen
    if not before:
        chosen, rejected = _with_system(line, chosen), _with_system(line, rejected)
    if bare_messages(chosen) == bare_messages(rejected):
        raise InputError("rejected: found what is chosen too, expected another answer")
    start = len(before) or _parting(chosen, rejected)
    _refuse_other_lists(line, used, before + chosen)
    used = {*used, *_repeated(line.keys() & LINE_FIELDS, line, before + chosen + rejected)}
    better, worse = (_conversation(before + side, line, used) for side in (chosen, rejected))
    return LinePair(better, worse, start)


class PairParts(NamedTuple):
    """The parts of a pair, the same for all layouts: the line, the fields that are read here, the
    messages before the answers, both answers."""

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
        listed = listed_messages(before, ("input", "messages"))
        return PairParts(inner, ("messages",), listed, chosen, rejected)
    if "rejected_response" in line and _is_list(line, "messages"):
        whole = listed_messages(line["messages"], ("messages",))
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
    """OpenAI's `input`, with the fields beside it."""
    inner = dict_of(line.get("input"))
    beside = {name: line[name] for name in line if name not in ("input", *_OPENAI_PAIRS)}
    for name in beside.keys() & inner.keys():
        if beside[name] != inner[name]:
            raise InputError(f"{name}: found another in input, expected one of them")
    return {**beside, **inner}


def _refuse_other_lists(line: Line, used: Collection[str], whole: Transcript) -> None:
    """Raises if a list of messages beside a pair is not the beginning of its conversation."""
    expected = bare_messages(whole)
    without_system = expected[1:] if role_of(expected[0]) == "system" else expected
    for name in _LISTS:
        if name not in used and _is_list(line, name):
            listed = bare_messages(listed_messages(line[name], (name,)))
            if listed not in (expected[: len(listed)], without_system[: len(listed)]):
                raise InputError(f"{name}: found another conversation than in the pair")


def _pair_prompt(line: Line) -> tuple[Iterable[str], Transcript]:
    """The fields that hold the messages before both answers, and these messages, without the system
    prompt beside them."""
    bare = {name: value for name, value in line.items() if name not in SYSTEM_FIELDS}
    questions = _question_fields(line)
    if any(line[name] != line[questions[0]] for name in questions):
        raise InputError(f"found {questions[0]} and {questions[1]}, expected one question")
    if questions:
        uses = _question_uses(line, questions[0])
        return (*questions, *uses), _before_answer(bare, questions[0])
    field = next((name for name in _LISTS if _is_list(line, name)), None)
    return ((), []) if field is None else ((field,), listed_messages(line[field], (field,)))


def _without_copy(before: Transcript, side: Transcript) -> tuple[Transcript, Transcript]:
    """A side of a pair, and the messages before it. If the side is a conversation, it includes its
    prompt, so that the prompt beside it is a copy."""
    name, first = side[0].place.location[0], role_of(side[0].message)
    if first not in ("system", "user"):
        if not before:
            raise InputError(f"{name}: found an answer, and no prompt before it")
        return side, before
    if bare_messages(side[: len(before)]) == bare_messages(before):
        return side[len(before) :], before
    texts = [m.get("content") for m in bare_messages(side) if role_of(m) == "user"]
    question = before[0].message if len(before) == 1 else None
    if isinstance(question, dict) and question.get("content") in texts:
        return side, []
    place = before[0].place.location[0]
    raise InputError(f"{name}: found a conversation that does not begin with {place}")


def _parting(chosen: Transcript, rejected: Transcript) -> int:
    """The number of messages that two conversations have in common at their beginning. Raises if
    the first differing message is not an answer."""
    pairs = enumerate(zip(bare_messages(chosen), bare_messages(rejected), strict=False))
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
    """The answer and its label in a line. Raises an `InputError` if there is none."""
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
        raise InputError(f"messages: {mismatch(messages, 'a list of messages')}")
    start = len(messages) - 1 if read.before_answer is None else read.before_answer
    if role_of(messages[start] if 0 <= start < len(messages) else None) != "assistant":
        raise InputError("found no answer at the end of the conversation, expected one")
    return LabelledAnswer(read, label, start)

"""Reads a delta of a chat server, whatever its form: its reasoning, its text, its calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from dsv4.errors import short_repr
from dsv4.serve.backend import BackendError, read_digits, read_object, usual_case

# Whether a text is reasoning, and the text.
SpokenText: TypeAlias = tuple[bool, str]


class LastMessage(dict[str, Any]):
    """A whole message after deltas: it repeats what they said, and sometimes adds to it."""


class MessageSoFar(dict[str, Any]):
    """A message in place of a delta: some servers write all of the answer so far in each."""


class OtherChoice(dict[str, Any]):
    """A delta of another choice than the first one. Only one was asked for, so it is a part of the
    same answer or repeats it. `number` is never 0, which stands for the first choice."""

    def __init__(self, number: int, delta: Mapping[str, Any]) -> None:
        super().__init__(delta)
        self.number = number


# A server that sends two of these sends the same text in both.
_REASONING = (
    *("reasoning_content", "reasoning", "thinking", "reasoning_text", "thought"),
    *("reasoning_details", "thinking_blocks"),
)
# Fields that mark the content beside them as reasoning, where their value is not a text.
_FLAGS = (*_REASONING, "is_reasoning", "is_thinking")
_KINDS = ("role", "type", "channel", "phase")
_THINKS = ("reasoning", "thinking", "thought", "analysis")
# A refusal has no other place in the protocols here.
_CONTENT = ("content", "refusal")
_CALLS = ("tool_calls", "function_call")
# Fields that some servers write beside a delta instead of in it.
BESIDE_DELTAS = (*_CONTENT, *_CALLS, "reasoning_content")
# Fields of a delta or a choice that are not a part of the answer.
NO_PART = ("role", "name", "index", "finish_reason", "logprobs")
# Fields of a choice that hold the answer.
_HOLDERS = ("delta", "message", "text")
# Fields within a delta that are not a part of the answer, but may hold one.
INNER = frozenset(("delta", "message"))
_SAID = frozenset((*_REASONING, *_CONTENT, *_CALLS))
KNOWN_FIELDS = _SAID.union(NO_PART, _HOLDERS)
# The types of parts in a list, and whether they are reasoning. A part without a type is text.
_PARTS: dict[str | None, bool] = {
    **dict.fromkeys(("text", "output_text", "refusal", "summary_text", None), False),
    **dict.fromkeys(("text_delta", "input_text"), False),
    **dict.fromkeys(("thinking", "reasoning", "reasoning_text", "reasoning_content"), True),
    "thinking_delta": True,
    **dict.fromkeys(("reasoning.text", "reasoning.summary"), True),
}
# The fields of a part that hold its text, and those of them that are reasoning.
_THOUGHTS = ("thinking", "reasoning_content", "reasoningContent", "reasoningText")
PART_TEXTS = ("text", "value", "parts", "summary", "refusal", "content", *_THOUGHTS)
# Types of parts without text: encrypted ones and references have nothing to show, and calls are
# read by `call_pieces`.
_WITHOUT_TEXT = ("reasoning.encrypted", "redacted_thinking", "reference", "tool_use")
# Fields of a part beside its text; an event may have only these.
_OPAQUE = frozenset(("type", "id", "index", "format", "signature", "redactedContent", "closed"))


def with_known_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields under the names that are known here. Some servers write `toolCalls` and
    `finishReason`; some have their own names for a field that they send nowhere else."""
    if KNOWN_FIELDS.issuperset(fields):
        return {**fields}
    known: dict[str, Any] = {}
    for name, value in fields.items():
        usual = name if name in KNOWN_FIELDS else _known_name(name, fields)
        if known.get(usual):  # two unknown names for one field: the second value is kept
            usual = name
        if value or not known.get(usual):
            known[usual] = value
    return known


def has_text_by_name(name: str) -> bool:
    """Whether a field has a name that some servers use for text or reasoning."""
    usual = usual_case(name).lstrip("_")
    return any(others.fullmatch(usual) for others, names in _OTHER_NAMES if names != _CALLS)


def _known_name(name: str, fields: Mapping[str, Any]) -> str:
    usual = usual_case(name).lstrip("_")
    if usual not in KNOWN_FIELDS:
        for others, names in _OTHER_NAMES:
            if others.fullmatch(usual):
                usual = names[0] if not any(map(fields.get, names)) else name
    return usual if usual in KNOWN_FIELDS and not fields.get(usual) else name


# Names that proxies give to reasoning, text and calls, and what they stand for.
_OTHER_NAMES = (
    (
        re.compile(
            "((internal|model|delta)_)?(reasoning|thinking|thoughts?|think|cot|chain_of_thought)"
            "(_(content|text|output|delta|process|trace))?"
        ),
        _REASONING,
    ),
    (
        re.compile("(delta|output|response|generated)_(content|text)|text_delta"),
        ("content", "text"),
    ),
    (re.compile("(tool|function)_calls?(_chunks?|_deltas?)?|tool_uses?"), _CALLS),
)


def unknown_fields(delta: Mapping[str, Any]) -> list[str]:
    """The names of fields that have content and cannot be read here."""
    return [
        name
        for name, value in delta.items()
        if (name not in KNOWN_FIELDS or name in INNER)
        and value
        and (isinstance(value, (str, list)) or looks_like_calls(value) or _has_text(value))
    ]


def delta_by_any_name(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The delta of a choice that has it under an unknown name and nowhere else."""
    for name, value in choice.items():
        if name not in KNOWN_FIELDS and isinstance(value, dict):
            fields = with_known_names(value)
            says = not _SAID.isdisjoint(fields) or not INNER.isdisjoint(fields)
            calls = any(map(looks_like_calls, fields.values()))
            if says or calls or isinstance(fields.get("text"), str):
                return fields
    return {}


def speaks(fields: Mapping[str, Any]) -> bool:
    """Whether a delta or a message has content under a known name."""
    return any(value for name, value in with_known_names(fields).items() if name in _SAID)


def _has_text(value: object) -> bool:
    """Whether a value has the form of a part with text."""
    return isinstance(value, dict) and any(value.get(name) for name in PART_TEXTS)


def looks_like_calls(value: object) -> bool:
    """Whether a value has the form of calls, whatever the field is called."""
    values = [value, *value.values()] if isinstance(value, dict) else value
    for each in values if isinstance(values, list) else ():
        if not isinstance(each, dict):
            continue
        if "function" in each or any(map(_is_made, (each, *each.values()))):
            return True
    return False


def _is_made(value: object) -> bool:
    """Whether a value has the name and the arguments of a call."""
    return (
        isinstance(value, dict) and "name" in value and ("arguments" in value or "input" in value)
    )


def has_thoughts(value: object) -> bool:
    """Whether a value has parts that are marked as reasoning, whatever the field is called."""
    try:
        return any(is_reasoning for is_reasoning, _ in _texts(value, ""))
    except BackendError:
        return False


def spoken_texts(delta: Mapping[str, Any]) -> Iterator[SpokenText]:
    """The texts of a delta, in the order of its fields. Raises a `BackendError` for a value that is
    not a text: nothing that a server sends is skipped."""
    thoughts: list[str] = []
    for name in _REASONING:
        value = delta.get(name)
        if value and value is not True:  # `True` is only a flag for the content
            thought = "".join(text for _, text in _texts(value, name))
            if not any(thought in other for other in thoughts):
                thoughts.append(thought)
    for thought in thoughts:
        yield True, thought
    is_thought = not thoughts and _says_that_it_thinks(delta)
    for is_reasoning, text in _texts_at("content", delta) or _texts_at("text", delta):
        yield is_thought or is_reasoning, text
    yield from _texts_at("refusal", delta)


def _says_that_it_thinks(delta: Mapping[str, Any]) -> bool:
    """Whether a delta marks its content as reasoning."""
    if any(delta.get(name) is True for name in _FLAGS):
        return True
    if any(delta.get(name) in _THINKS for name in _KINDS if isinstance(delta.get(name), str)):
        return True
    beside = delta.get("extra_content")
    of_google = beside.get("google") if isinstance(beside, dict) else None
    return isinstance(of_google, dict) and of_google.get("thought") is True


def _texts_at(name: str, delta: Mapping[str, Any]) -> list[SpokenText]:
    value = delta.get(name)
    return [*_texts(value, name)] if value else []


def _texts(value: object, place: str) -> Iterator[SpokenText]:
    if isinstance(value, str):
        yield False, value
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from _part_texts(part, f"{place}[{n}]")
    else:
        yield from _part_texts(value, place)


def _part_texts(part: object, place: str) -> Iterator[SpokenText]:
    if isinstance(part, str):
        yield False, part
        return
    if not isinstance(part, dict):
        raise _garbage(part, place)
    kind = part.get("type")
    if kind in _WITHOUT_TEXT:
        return
    names = [name for name in PART_TEXTS if name in part]
    if kind not in _PARTS or not (names or _OPAQUE.issuperset(part)):
        raise _garbage(part, place)
    thinks = _PARTS[kind] or part.get("thought") is True
    said: list[list[SpokenText]] = []
    for name in names:
        texts = [
            (inner or thinks or name in _THOUGHTS, text)
            for inner, text in _texts(part[name] or "", f"{place}.{name}")
        ]
        if texts not in said:  # some send the same text under two names
            said.append(texts)
            yield from texts


def call_pieces(delta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The pieces of calls in a delta. Raises a `BackendError` for a value that is not one."""
    pieces = delta.get("tool_calls")
    if isinstance(pieces, str):
        pieces = _read_json(pieces)
    if isinstance(pieces, dict):
        pieces = _numbered(pieces) or [pieces]
    if pieces and not isinstance(pieces, list):
        raise _garbage(pieces, "tool_calls")
    pieces = list(pieces or ())
    for n, piece in enumerate(pieces):
        if not isinstance(piece, dict):
            raise _garbage(piece, f"tool_calls[{n}]")
        function = piece.get("function")
        if isinstance(function, str) and function:  # the function as JSON text, or only its name
            inner = _function_in(function, "arguments" in piece)
            if inner is None:
                raise _garbage(function, f"tool_calls[{n}].function")
            pieces[n] = {**piece, "function": inner}
        elif function and not isinstance(function, dict):
            raise _garbage(function, f"tool_calls[{n}].function")
    yield from _in_order(pieces)
    old = delta.get("function_call")  # of servers from before tools; some send both
    if old and isinstance(old, dict) and not _is_said(old, pieces):
        yield _said_elsewhere(old, delta) or {"index": 0, "function": old}
    content = delta.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield part


def _read_json(text: str) -> Any:
    """The value of a JSON text; the text itself where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_said(function: Mapping[str, Any], pieces: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the pieces is of the same call; it may have more of it."""
    others = [piece["function"] for piece in pieces if piece.get("function")]
    return any(
        other.get("name") == function.get("name")
        and _agree(other.get("arguments"), function.get("arguments"))
        for other in others
    )


def _agree(one: object, other: object) -> bool:
    """Whether two arguments are the same, as far as both have come."""
    if not (one and other):
        return True
    if not (isinstance(one, str) and isinstance(other, str)):
        one, other = (read_object(each) if isinstance(each, str) else each for each in (one, other))
        return one == other
    is_more = one.startswith(other) or other.startswith(one)
    return is_more or read_object(one) == read_object(other) is not None


def _said_elsewhere(function: Mapping[str, Any], delta: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same piece of a call from an unknown field, where it has its id."""
    for name in unknown_fields(delta):
        for piece in delta[name] if isinstance(delta[name], list) else ():
            if isinstance(piece, dict) and piece.get("function") == function:
                return piece
    return {}


def _in_order(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pieces sorted by number, where each has one: a list need not be in that order."""
    if any(read_digits(piece.get("index")) is None for piece in pieces):
        return pieces
    return sorted(pieces, key=lambda piece: read_digits(piece["index"]) or 0)


def _function_in(text: str, has_arguments: bool) -> dict[str, Any] | None:
    """The function in a text: JSON, or only its name where the arguments stand beside it."""
    function = read_object(text)
    return {"name": text} if function is None and has_arguments else function


def _numbered(calls: Mapping[str, Any]) -> list[Any]:
    """Calls from an object whose keys are their numbers, in that order; empty if it is a single
    call."""
    if "function" in calls or not all(isinstance(call, dict) for call in calls.values()):
        return []
    numbers = sorted(calls, key=lambda name: int(name) if name.isdecimal() else 0)
    return [{"index": name, **calls[name]} for name in numbers]


def _garbage(value: object, place: str) -> BackendError:
    problem = f"the backend sent another {place} of a delta than is known"
    return BackendError(problem, quoted=short_repr(value, 40))

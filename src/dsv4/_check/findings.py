"""The findings of the check, and the conversation that its rules examine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4._encode.inputs import fields_of, maybe_dict, maybe_list, text_of
from dsv4._encode.prompt import Piece, Prompt
from dsv4._encode.turns import NATIVE
from dsv4._format.texts import read_table
from dsv4._inputs.request_bodies import ReadBody
from dsv4.api.body_reader import recognise
from dsv4.errors import Error, Location, path_of
from dsv4.request import Request

# Findings of a check: their kinds, the level and the place of each, and values as a message quotes
# them. docs/checking.md has examples.


# Values as a finding quotes them: in JSON, as the user wrote them.


LONGEST = 60


def quoted_json(value: object) -> str:
    """A value as JSON, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def closest_name(field: str, names: set[str]) -> str | None:
    """The name that was probably meant: it differs only in capitals and signs, or is similar."""
    from difflib import get_close_matches  # few conversations need it, and every program imports

    plain = _plain(field)
    same = next((name for name in sorted(names) if _plain(name) == plain), None)
    return same or next(iter(get_close_matches(field, sorted(names), n=1, cutoff=0.84)), None)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


# The kinds of findings.


# An error means that a conversation cannot be encoded, or must not be trained on if that is the
# purpose. A warning is most likely a mistake. A note reports an effect of the format, on a
# conversation that may well be right.
Level: TypeAlias = Literal["error", "warning", "note"]

# The purpose of a conversation: a prompt to be answered, or an example to train on.
Purpose: TypeAlias = Literal["inference", "training"]
PURPOSES: tuple[Purpose, ...] = ("inference", "training")


class FindingKind(NamedTuple):
    """A kind of finding: its `level`, unless the purpose changes it, and its `meaning`."""

    level: Level
    meaning: str


# Every kind, with its words, by levels: those that cannot be encoded first.
FINDING_KINDS: Mapping[str, FindingKind] = {
    kind: FindingKind(level, meaning)
    for level, kinds in read_table("finding_kinds", __file__).items()
    for kind, meaning in kinds.items()
}
"""The kinds of findings of `dsv4.check`, by name."""

# The kinds of findings about a server, if a profile is given: this prefix and the trap's kind.
SERVER_PREFIX = "server_"

_ONLY_FOR_TRAINING: dict[str, Level | None] = dict.fromkeys(
    ("nothing_to_learn", "no_reasoning", "open_turn", "other_markup")
)

# Levels that depend on the purpose. None: the kind is not reported.
_ELSEWHERE: dict[Purpose | None, dict[str, Level | None]] = {
    None: _ONLY_FOR_TRAINING,
    "inference": {"nothing_to_generate": "warning", **_ONLY_FOR_TRAINING},
    "training": {
        "arguments_not_json": "error",
        "reasoning_in_content": "error",
        "calls_in_content": "error",
        "other_markup": "error",
        "nothing_to_generate": None,
        "tools_keep_reasoning": None,
    },
}


def maybe_level(kind: str, purpose: Purpose | None) -> Level | None:
    """The level of a kind for a purpose. None if it is not reported."""
    if kind.startswith(SERVER_PREFIX):
        return "error" if kind == f"{SERVER_PREFIX}refused" else "warning"
    return _ELSEWHERE[purpose].get(kind, FINDING_KINDS[kind].level)


def is_kind(name: str) -> bool:
    return name in FINDING_KINDS or name.startswith(SERVER_PREFIX)


# Findings.


class Finding(NamedTuple):
    """Something that `dsv4.check` found.

    `level` is "error" if the conversation cannot be encoded, "warning" if something is most likely
    wrong with it, and "note" for an effect of the format that you may want to know. `kind` is one
    of `dsv4.FINDING_KINDS`, or "server_" and the kind of a trap if a `profile` was given.
    `location` leads to the place, as in `("messages", 3, "content")`: empty for the body as a
    whole. `message` says what was found.
    """

    level: Level
    kind: str
    location: Location
    message: str

    @property
    def path(self) -> str:
        """The location as a path: `messages[3].content`."""
        return path_of(self.location)


class RuleFinding(NamedTuple):
    """A finding of a rule. Its level depends on the purpose of the conversation."""

    kind: str
    location: Location
    message: str


def message_index(location: Location) -> int | None:
    """The index of the message that a location leads to, if it leads to one."""
    if len(location) > 1 and location[0] == "messages" and isinstance(location[1], int):
        return location[1]
    return None


# A conversation that can be encoded, with the facts that the rules of the check need.


class CheckedCall(NamedTuple):
    """A call of a message: the message's index, the call's index in it, and the call's fields."""

    message: int
    n: int
    id: str
    name: str
    arguments: object

    @property
    def location(self) -> Location:
        return ("messages", self.message, "tool_calls", self.n)


class CheckedTool(NamedTuple):
    """A declared tool, and its place."""

    location: Location
    name: str
    parameters: object


class CheckedConversation:
    """A request that can be encoded, and its prompt. `read` is the body that it was read from."""

    def __init__(self, request: Request, prompt: Prompt, read: ReadBody | None = None) -> None:
        self.request = request
        self.prompt = prompt
        self.read = read
        self.body = None if read is None else read.body
        self.messages: Sequence[dict[str, Any]] = list(map(fields_of, request.messages))
        self.roles: Sequence[object] = [message.get("role") for message in self.messages]
        self.texts: Sequence[str] = list(map(message_text, self.messages))

    @property
    def is_sent(self) -> bool:
        """Whether the body was read as a server reads it: messages may not be those of the body."""
        return self.read is not None and self.read.rules == "body"

    @property
    def written_messages(self) -> Sequence[dict[str, Any]]:
        """The messages with all fields that they were written with; none if the body has them in
        the form of another protocol."""
        if not self.is_sent:
            return self.messages
        listed = self.body.get("messages") if isinstance(self.body, dict) else self.body
        return list(map(fields_of, maybe_list(listed) or ())) if self._is_chat else []

    @cached_property
    def _is_chat(self) -> bool:
        return recognise(self.body).protocol == "chat"

    def of_role(self, *roles: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, role in enumerate(self.roles):
            if role in roles:
                yield index, self.messages[index]

    def role(self, index: int) -> object:
        """The role of a message; None before the first and after the last."""
        return self.roles[index] if 0 <= index < len(self.roles) else None

    @property
    def last(self) -> int:
        return len(self.messages) - 1

    @property
    def opens_as_developer(self) -> bool:
        """Whether the system prompt has the role `developer`, as in OpenAI's API."""
        return self.role(0) == "developer" and self.last > 0

    # Calls and tools.

    @cached_property
    def calls(self) -> list[CheckedCall]:
        return [call for calls in self.calls_by_message.values() for call in calls]

    @cached_property
    def calls_by_message(self) -> Mapping[int, Sequence[CheckedCall]]:
        return {index: _calls(index, message) for index, message in self.of_role("assistant")}

    @cached_property
    def tool_objects(self) -> list[tuple[Location, dict[str, Any]]]:
        """The tools as they were given, and their places."""
        value = self.request.tools
        if self.is_sent and isinstance(self.body, dict) and self._is_chat:
            value = self.body.get("tools")
        listed = list(_tool_objects(value, ("tools",)))
        for index, message in enumerate(self.messages):
            listed += _tool_objects(message.get("tools"), ("messages", index, "tools"))
        return listed

    @cached_property
    def tools(self) -> list[CheckedTool]:
        return [tool for place, tools in self.tool_objects for tool in _tools(tools, place)]

    # The prompt.

    @cached_property
    def written(self) -> set[tuple[int | None, str]]:
        """The fields of messages that have some text of their own in the prompt."""
        return {
            (piece.message, piece.field)
            for piece in self.prompt.pieces
            if not piece.special or piece.field in ("task", "header")
        }

    @cached_property
    def opened(self) -> set[int | None]:
        """The messages that the assistant's token opens."""
        own = self.prompt.dialect.tokens.assistant
        return {
            piece.message
            for piece in self.prompt.pieces
            if piece.field == "header" and piece.text == own
        }

    @cached_property
    def present(self) -> set[int | None]:
        """The messages that are in the prompt at all."""
        return {piece.message for piece in self.prompt.pieces}

    def reasoning_field(self, index: int) -> str | None:
        """The field that a message has its reasoning in, if it has any."""
        fields = (name for name in NATIVE.reasoning_fields if self.messages[index].get(name))
        return next(fields, None)

    def location_of(self, piece: Piece) -> Location:
        """The place of the text of a piece in the conversation."""
        field = _FIELDS.get(piece.field, piece.field)
        if piece.message is None:
            return (field,)
        if field == "reasoning":
            field = self.reasoning_field(piece.message) or field
        return ("messages", piece.message, field)


# Parts of a prompt that are parts of a field.
_FIELDS = {"tool_result": "content", "separator": "content", "image": "content"}


def message_text(message: dict[str, Any]) -> str:
    """The text of a message, empty if its content has more than text."""
    try:
        return text_of(message.get("content"), ())
    except Error:
        return ""


def _calls(index: int, message: dict[str, Any]) -> list[CheckedCall]:
    value = message.get("tool_calls")
    listed = None if value is None else maybe_list(value)
    return [_call(index, n, maybe_dict(call) or {}) for n, call in enumerate(listed or ())]


def _call(index: int, n: int, fields: dict[str, Any]) -> CheckedCall:
    function = maybe_dict(fields.get("function")) or fields
    id, name = fields.get("id"), function.get("name")
    return CheckedCall(index, n, str(id or ""), str(name), function.get("arguments"))


def _tool_objects(tools: object, place: Location) -> Iterator[tuple[Location, dict[str, Any]]]:
    for n, tool in enumerate(maybe_list(tools) or ()):
        yield (*place, n), maybe_dict(tool) or {}


def _tools(tool: dict[str, Any], place: Location) -> Iterator[CheckedTool]:
    function = maybe_dict(tool.get("function")) or tool
    if isinstance(function.get("name"), str):
        yield CheckedTool(place, function["name"], function.get("parameters"))

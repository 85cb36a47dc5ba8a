"""Findings of a check: their kinds, how serious each is, where something was found, and values as a
message quotes them. docs/checking.md has examples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from dsv4.errors import Location, path_of

# Values as a finding quotes them: in JSON, which is what the person wrote.


LONGEST = 60


def quoted_json(value: object) -> str:
    """A value as JSON, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


# The kinds of findings.


# An error cannot be encoded, or must not be trained on where that is the purpose. A warning is most
# likely a mistake. A note is what the format does with a conversation that may well be right.
Level: TypeAlias = Literal["error", "warning", "note"]

# What a conversation is for: a prompt to be answered, or an example to train on.
Purpose: TypeAlias = Literal["inference", "training"]
PURPOSES: tuple[Purpose, ...] = ("inference", "training")


class FindingKind(NamedTuple):
    """A kind of finding: its `level`, where no purpose changes it, and its `meaning`."""

    level: Level
    meaning: str


FINDING_KINDS: Mapping[str, FindingKind] = {
    # What cannot be encoded.
    "not_json": FindingKind("error", "The file or the line is not UTF-8, or not JSON."),
    "not_a_conversation": FindingKind("error", "The JSON is neither messages nor a Chat request."),
    "not_encodable": FindingKind("error", "The format has no place for this."),
    "lone_surrogate": FindingKind("error", "Half of a surrogate pair, which no tokenizer accepts."),
    # Calls and their results.
    "result_without_call": FindingKind("warning", "A tool result that belongs to no call."),
    "call_without_result": FindingKind("warning", "A call without a result."),
    "duplicate_call_id": FindingKind("warning", "Two calls of one message have the same id."),
    "repeated_call_id": FindingKind("note", "Calls of two messages have the same id."),
    "arguments_not_json": FindingKind("warning", "Arguments that are not JSON."),
    "invalid_arguments": FindingKind("warning", "Arguments that the tool's schema does not allow."),
    # Tools.
    "calls_without_tools": FindingKind("warning", "There are calls, but no tools are declared."),
    "undeclared_tool": FindingKind("warning", "A call of a tool that is not declared."),
    "duplicate_tool": FindingKind("warning", "Two tools have the same name."),
    "invalid_schema": FindingKind("warning", "A tool's parameters are not a valid JSON schema."),
    # Fields.
    "unread_field": FindingKind("warning", "A field that is misspelled, or does not belong here."),
    "unknown_field": FindingKind("note", "A field of a message that the format does not know."),
    # Turns.
    "glued_system": FindingKind(
        "warning", "Two system messages, written with nothing between them."
    ),
    "system_in_the_middle": FindingKind(
        "warning", "A system message after the first turn, which has no token of its own."
    ),
    "developer_as_system": FindingKind(
        "warning", "`developer` does not mean the system prompt in this format."
    ),
    "turn_without_token": FindingKind(
        "warning", "An assistant turn that does not follow a user turn or a tool result."
    ),
    "prefix_not_last": FindingKind(
        "warning", "A turn in the middle is left open: its end-of-sentence token is missing."
    ),
    "empty_message": FindingKind("warning", "A message without content."),
    # What is left out of the prompt.
    "dropped_message": FindingKind("warning", "A message that is not in the prompt."),
    "dropped_reasoning": FindingKind("note", "Reasoning that is not in the prompt."),
    "tools_keep_reasoning": FindingKind(
        "note", "Because there are tools, old reasoning stays in the prompt."
    ),
    "lost_task": FindingKind("warning", "A task that is not in the prompt."),
    "lost_tools": FindingKind("warning", "Tools that are not in the prompt."),
    "lost_response_format": FindingKind("warning", "A response format that is not in the prompt."),
    "unsupported_content": FindingKind(
        "warning", "A content block that the format does not support."
    ),
    # Text.
    "reasoning_in_content": FindingKind(
        "warning", "Reasoning, or its tags, in the assistant's text."
    ),
    "calls_in_content": FindingKind("warning", "Tool calls as markup in the assistant's text."),
    "special_token_in_text": FindingKind("warning", "Text that spells a special token."),
    "lookalike_token": FindingKind(
        "warning", "Text that looks like a control token, but is not one."
    ),
    # The conversation as a whole.
    "nothing_to_generate": FindingKind("note", "The prompt does not ask the model for an answer."),
    "nothing_to_learn": FindingKind("warning", "The conversation has no assistant message."),
}
"""The kinds of findings of `dsv4.check`, by name."""

# What a server does with a request, where a profile is given: this prefix and the trap's kind.
SERVER_PREFIX = "server_"

# Levels that differ from the usual one where the purpose is known. None: it is not reported.
_ELSEWHERE: dict[Purpose | None, dict[str, Level | None]] = {
    None: {"nothing_to_learn": None},
    "inference": {"nothing_to_generate": "warning", "nothing_to_learn": None},
    "training": {
        "arguments_not_json": "error",
        "reasoning_in_content": "error",
        "calls_in_content": "error",
        "nothing_to_generate": None,
        "dropped_reasoning": None,
        "tools_keep_reasoning": None,
    },
}


def maybe_level(kind: str, purpose: Purpose | None) -> Level | None:
    """How serious a kind is for a purpose. None where it is not reported."""
    if kind.startswith(SERVER_PREFIX):
        return "error" if kind == f"{SERVER_PREFIX}refused" else "warning"
    return _ELSEWHERE[purpose].get(kind, FINDING_KINDS[kind].level)


def is_kind(name: str) -> bool:
    return name in FINDING_KINDS or name.startswith(SERVER_PREFIX)


# Findings.


class Finding(NamedTuple):
    """Something that `dsv4.check` found.

    `level` is "error" where the conversation cannot be encoded, "warning" where something is most
    likely wrong with it, and "note" where the format does something that you may want to know.
    `kind` is one of `dsv4.FINDING_KINDS`, or "server_" and the kind of a trap where a `profile` was
    given. `location` leads to the place, as in `("messages", 3, "content")`: empty for the body as
    a whole. `message` says what was found.
    """

    level: Level
    kind: str
    location: Location
    message: str

    @property
    def path(self) -> str:
        """The location as people write it: `messages[3].content`."""
        return path_of(self.location)


class RuleFinding(NamedTuple):
    """What a rule found. How serious it is depends on what the conversation is for."""

    kind: str
    location: Location
    message: str


def message_index(location: Location) -> int | None:
    """The index of the message that a location leads to, if it leads to one."""
    if len(location) > 1 and location[0] == "messages" and isinstance(location[1], int):
        return location[1]
    return None

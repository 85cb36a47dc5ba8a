"""What a parser reports: events, and the kinds of deviations from the strict grammar, each with its
sentence.

Events are plain slotted dataclasses: a frozen one takes three times as long to make, and one of
these is made for every few characters of every completion. docs/parsing.md lists the kinds of
deviations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

DiagnosticKind: TypeAlias = Literal[
    # How tags are spelled.
    "other_release",
    "misspelled_tag",
    "plain_markup",
    "native_markup",
    # Where they stand, or do not.
    "markup_as_text",
    "missing_wrapper",
    "implied_close",
    "orphan_closer",
    "unexpected_text",
    "unexpected_tag",
    "empty_block",
    "second_block",
    "quoted_markup",
    # Calls.
    "undeclared_tool",
    "forbidden_call",
    "dropped_call",
    "prompt_example",
    "json_calls",
    "json_body",
    "unwrapped_arguments",
    "limit",
    # Parameters.
    "duplicate_parameter",
    "untyped_parameter",
    "argument_in_tag",
    "nested_parameters",
    "invalid_json",
    "repaired_json",
    # Reasoning and the text as a whole.
    "call_in_reasoning",
    "unclosed_reasoning",
    "stray_think",
    "think_in_content",
    "stray_token",
    "made_up_turn",
    "cut_short",
    "text_after_block",
    "more_departures",
    # What a chat server got wrong that had read the completion itself: `dsv4 heal` finds these.
    "leaked_call",
    "leaked_reasoning",
    "broken_call",
]
"""What kind of deviation from the strict grammar a diagnostic reports."""

# What was found, and what was done about it.
SENTENCES: Mapping[DiagnosticKind, str] = MappingProxyType(
    {
        "other_release": (
            "This tag is spelled as in another release of the format; it is read all the same."
        ),
        "misspelled_tag": (
            "This tag is not spelled as the format has it; it is read as the tag that was meant."
        ),
        "plain_markup": (
            "This call is written without the DSML token; it is taken for a call because the tool "
            "is declared."
        ),
        "native_markup": (
            "These calls are written as older models write them; they are read as calls."
        ),
        "markup_as_text": (
            "This looks like markup of calls, but nothing here makes it act; it stays in the text."
        ),
        "missing_wrapper": (
            "A call begins here without the tag that opens a block of calls; it is taken for a call"
            " because the tool is declared."
        ),
        "implied_close": (
            "A closing tag is missing here; what comes next cannot be inside, so it is closed."
        ),
        "orphan_closer": "This tag closes nothing; it is removed.",
        "unexpected_text": "Text stands where only tags may stand; it is removed.",
        "unexpected_tag": "This tag has no place here; it is removed.",
        "empty_block": "This block of calls holds no call; it is removed.",
        "second_block": "A second block of calls begins here; its calls join those of the first.",
        "quoted_markup": "This value holds markup of calls; it is kept as a part of the value.",
        "undeclared_tool": (
            "This call names a tool that is not declared; it is kept, for you to decide."
        ),
        "forbidden_call": "Tools may not be called here; the call is removed.",
        "dropped_call": (
            "This call cannot be read: its name, the name of a parameter or its arguments are "
            "missing or broken, or a block holds no call at all. It is not made."
        ),
        "prompt_example": "This is the example of a call from the prompt; it is removed.",
        "json_calls": "Calls are written as JSON in place of tags; they are read as calls.",
        "json_body": (
            "Arguments are written as one JSON value in place of parameters; it is read as the "
            "arguments."
        ),
        "unwrapped_arguments": (
            "All arguments stand in one parameter that the tool does not have; they are taken out "
            "of it."
        ),
        "limit": (
            "There are more calls or parameters, or a longer name, than are read; the call is left"
            " out."
        ),
        "duplicate_parameter": (
            "This value's parameter is given once more; the last one counts, or all of them, as a "
            "list, where the tool declares one."
        ),
        "untyped_parameter": (
            "This parameter does not say whether its value is a string; the tool's schema decides,"
            " or else the value itself."
        ),
        "argument_in_tag": (
            "Arguments stand in the attributes of a tag; they are read as the call's arguments."
        ),
        "nested_parameters": (
            "Parameters stand in this parameter; they are read as the members of its object."
        ),
        "invalid_json": "This value is said to be JSON and is not; it is kept as a string.",
        "repaired_json": (
            "This JSON has numbers or line breaks that JSON does not have; they are written as "
            "strings and escapes."
        ),
        "call_in_reasoning": (
            "A call begins before the reasoning has ended; it is made, and the reasoning goes on "
            "after it."
        ),
        "unclosed_reasoning": "The reasoning does not end; everything is reasoning.",
        "stray_think": "This tag of reasoning has no place here; it opens and closes nothing.",
        "think_in_content": (
            "Reasoning begins once more inside the answer; it joins the reasoning."
        ),
        "stray_token": "This token has no place inside a text; it is removed.",
        "made_up_turn": (
            "After its end the model went on with a turn that it made up; all of it is removed."
        ),
        "cut_short": "The text ends in the middle of a call; what there is of it is incomplete.",
        "text_after_block": (
            "Text follows the calls, where nothing should; it is part of the answer."
        ),
        "more_departures": (
            "There are more deviations than are reported one by one; this is all text from the "
            "first to the last of them."
        ),
        "leaked_call": "The server sent a call as text; it is read as a call.",
        "leaked_reasoning": (
            "The server mixed up the reasoning and the answer; each is where it belongs."
        ),
        "broken_call": (
            "The server sent a call without a name, or with arguments that are no JSON object; it "
            "is repaired, or not made."
        ),
    }
)

# Kinds that say that a call was meant and could not be read.
UNREAD_CALL_KINDS: frozenset[DiagnosticKind] = frozenset({"dropped_call", "limit"})


# What a parser reports, one small value for each thing that happens.
#
# Plain slotted dataclasses: a frozen one takes three times as long to make, and one of these is
# made for every few characters of every completion.


Finish: TypeAlias = Literal["stop", "tool_calls", "length"]
"""Why the text ended: the model was done; it made calls; the text was cut."""
AbortReason: TypeAlias = Literal["cut_short", "unreadable", "limit"]
"""Why a call will not be completed: the text ended in it; it cannot be read; a limit was passed."""


@dataclass(slots=True)
class ReasoningDelta:
    """More of the model's thinking: `text`."""

    text: str


@dataclass(slots=True)
class ContentDelta:
    """More of the answer: `text`."""

    text: str


@dataclass(slots=True)
class ToolCallStart:
    """A call, certain now. Its arguments follow.

    `index` counts calls from 0, `name` is the tool's. `id` is the call's own and takes no part in
    comparisons. `namespace` is the tool's, in dialects that have namespaces, else None.
    """

    index: int
    name: str
    id: str = field(default="", compare=False)
    namespace: str | None = None


@dataclass(slots=True)
class ArgumentsDelta:
    """More of the arguments of the call `index`: all `text`, joined, is a JSON object."""

    index: int
    text: str


@dataclass(slots=True)
class ToolCallEnd:
    """The call `index` is complete."""

    index: int


@dataclass(slots=True)
class ToolCallAborted:
    """The call `index` will not be completed, and must not be made.

    `reason` says why. `closing` is what would make a JSON object of the arguments so far; it is
    never sent as a delta, so that nobody takes half a call for a whole one.
    """

    index: int
    reason: AbortReason = "cut_short"
    closing: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A deviation from the strict grammar.

    `kind` says what kind. The text from `start` to `end` is `raw`: often nothing, where something
    is missing. Where a prefix was given, places count from the end of the prefix.
    """

    kind: DiagnosticKind
    start: int
    end: int
    raw: str

    @property
    def sentence(self) -> str:
        """What was found, and what was done about it."""
        return SENTENCES[self.kind]


@dataclass(slots=True)
class StopHit:
    """The stop string `string` has come. Nothing after it is read."""

    string: str


@dataclass(slots=True)
class End:
    """The end, always the last event: `finish` says why."""

    finish: Finish


Event: TypeAlias = (
    ReasoningDelta
    | ContentDelta
    | ToolCallStart
    | ArgumentsDelta
    | ToolCallEnd
    | ToolCallAborted
    | Diagnostic
    | StopHit
    | End
)
"""What a parser gives. An `End` is the last, and comes once."""

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
from typing import Final, Literal, TypeAlias

DiagnosticKind: TypeAlias = Literal[
    "other_release",
    "misspelled_tag",
    "plain_markup",
    "native_markup",
    "markup_as_text",
    "missing_wrapper",
    "implied_close",
    "orphan_closer",
    "unexpected_text",
    "unexpected_tag",
    "empty_block",
    "second_block",
    "quoted_markup",
    "undeclared_tool",
    "forbidden_call",
    "dropped_call",
    "prompt_example",
    "json_calls",
    "json_body",
    "unwrapped_arguments",
    "limit",
    "duplicate_parameter",
    "untyped_parameter",
    "argument_in_tag",
    "nested_parameters",
    "invalid_json",
    "repaired_json",
    "call_in_reasoning",
    "unclosed_reasoning",
    "stray_think",
    "think_in_content",
    "stray_token",
    "made_up_turn",
    "cut_short",
    "text_after_block",
    "more_departures",
    "leaked_call",
    "leaked_reasoning",
    "broken_call",
]
"""What kind of deviation from the strict grammar a diagnostic reports."""

# How tags are spelled.
OTHER_RELEASE: Final = "other_release"
MISSPELLED_TAG: Final = "misspelled_tag"
PLAIN_MARKUP: Final = "plain_markup"
NATIVE_MARKUP: Final = "native_markup"

# Where they stand, or do not.
MARKUP_AS_TEXT: Final = "markup_as_text"
MISSING_WRAPPER: Final = "missing_wrapper"
IMPLIED_CLOSE: Final = "implied_close"
ORPHAN_CLOSER: Final = "orphan_closer"
UNEXPECTED_TEXT: Final = "unexpected_text"
UNEXPECTED_TAG: Final = "unexpected_tag"
EMPTY_BLOCK: Final = "empty_block"
SECOND_BLOCK: Final = "second_block"
QUOTED_MARKUP: Final = "quoted_markup"

# Calls.
UNDECLARED_TOOL: Final = "undeclared_tool"
FORBIDDEN_CALL: Final = "forbidden_call"
DROPPED_CALL: Final = "dropped_call"
PROMPT_EXAMPLE: Final = "prompt_example"
JSON_CALLS: Final = "json_calls"
JSON_BODY: Final = "json_body"
UNWRAPPED_ARGUMENTS: Final = "unwrapped_arguments"
LIMIT: Final = "limit"

# Parameters.
DUPLICATE_PARAMETER: Final = "duplicate_parameter"
UNTYPED_PARAMETER: Final = "untyped_parameter"
ARGUMENT_IN_TAG: Final = "argument_in_tag"
NESTED_PARAMETERS: Final = "nested_parameters"
INVALID_JSON: Final = "invalid_json"
REPAIRED_JSON: Final = "repaired_json"

# Reasoning and the text as a whole.
CALL_IN_REASONING: Final = "call_in_reasoning"
UNCLOSED_REASONING: Final = "unclosed_reasoning"
STRAY_THINK: Final = "stray_think"
THINK_IN_CONTENT: Final = "think_in_content"
STRAY_TOKEN: Final = "stray_token"
MADE_UP_TURN: Final = "made_up_turn"
CUT_SHORT: Final = "cut_short"
TEXT_AFTER_BLOCK: Final = "text_after_block"
MORE_DEPARTURES: Final = "more_departures"

# What a chat server got wrong that had read the completion itself: `dsv4 heal` finds these.
LEAKED_CALL: Final = "leaked_call"
LEAKED_REASONING: Final = "leaked_reasoning"
BROKEN_CALL: Final = "broken_call"

# What was found, and what was done about it.
SENTENCES: Mapping[DiagnosticKind, str] = MappingProxyType(
    {
        OTHER_RELEASE: (
            "This tag is spelled as in another release of the format; it is read all the same."
        ),
        MISSPELLED_TAG: (
            "This tag is not spelled as the format has it; it is read as the tag that was meant."
        ),
        PLAIN_MARKUP: (
            "This call is written without the DSML token; it is taken for a call because the tool "
            "is declared."
        ),
        NATIVE_MARKUP: (
            "These calls are written as older models write them; they are read as calls."
        ),
        MARKUP_AS_TEXT: (
            "This looks like markup of calls, but nothing here makes it act; it stays in the text."
        ),
        MISSING_WRAPPER: (
            "A call begins here without the tag that opens a block of calls; it is taken for a call"
            " because the tool is declared."
        ),
        IMPLIED_CLOSE: (
            "A closing tag is missing here; what comes next cannot be inside, so it is closed."
        ),
        ORPHAN_CLOSER: "This tag closes nothing; it is removed.",
        UNEXPECTED_TEXT: "Text stands where only tags may stand; it is removed.",
        UNEXPECTED_TAG: "This tag has no place here; it is removed.",
        EMPTY_BLOCK: "This block of calls holds no call; it is removed.",
        SECOND_BLOCK: "A second block of calls begins here; its calls join those of the first.",
        QUOTED_MARKUP: "This value holds markup of calls; it is kept as a part of the value.",
        UNDECLARED_TOOL: (
            "This call names a tool that is not declared; it is kept, for you to decide."
        ),
        FORBIDDEN_CALL: "Tools may not be called here; the call is removed.",
        DROPPED_CALL: (
            "This call cannot be read: its name, the name of a parameter or its arguments are "
            "missing or broken, or a block holds no call at all. It is not made."
        ),
        PROMPT_EXAMPLE: "This is the example of a call from the prompt; it is removed.",
        JSON_CALLS: "Calls are written as JSON in place of tags; they are read as calls.",
        JSON_BODY: (
            "Arguments are written as one JSON value in place of parameters; it is read as the "
            "arguments."
        ),
        UNWRAPPED_ARGUMENTS: (
            "All arguments stand in one parameter that the tool does not have; they are taken out "
            "of it."
        ),
        LIMIT: (
            "There are more calls or parameters, or a longer name, than are read; the call is left"
            " out."
        ),
        DUPLICATE_PARAMETER: (
            "This value's parameter is given once more; the last one counts, or all of them, as a "
            "list, where the tool declares one."
        ),
        UNTYPED_PARAMETER: (
            "This parameter does not say whether its value is a string; the tool's schema decides,"
            " or else the value itself."
        ),
        ARGUMENT_IN_TAG: (
            "Arguments stand in the attributes of a tag; they are read as the call's arguments."
        ),
        NESTED_PARAMETERS: (
            "Parameters stand in this parameter; they are read as the members of its object."
        ),
        INVALID_JSON: "This value is said to be JSON and is not; it is kept as a string.",
        REPAIRED_JSON: (
            "This JSON has numbers or line breaks that JSON does not have; they are written as "
            "strings and escapes."
        ),
        CALL_IN_REASONING: (
            "A call begins before the reasoning has ended; it is made, and the reasoning goes on "
            "after it."
        ),
        UNCLOSED_REASONING: "The reasoning does not end; everything is reasoning.",
        STRAY_THINK: "This tag of reasoning has no place here; it opens and closes nothing.",
        THINK_IN_CONTENT: ("Reasoning begins once more inside the answer; it joins the reasoning."),
        STRAY_TOKEN: "This token has no place inside a text; it is removed.",
        MADE_UP_TURN: (
            "After its end the model went on with a turn that it made up; all of it is removed."
        ),
        CUT_SHORT: "The text ends in the middle of a call; what there is of it is incomplete.",
        TEXT_AFTER_BLOCK: "Text follows the calls, where nothing should; it is part of the answer.",
        MORE_DEPARTURES: (
            "There are more deviations than are reported one by one; this is all text from the "
            "first to the last of them."
        ),
        LEAKED_CALL: "The server sent a call as text; it is read as a call.",
        LEAKED_REASONING: (
            "The server mixed up the reasoning and the answer; each is where it belongs."
        ),
        BROKEN_CALL: (
            "The server sent a call without a name, or with arguments that are no JSON object; it "
            "is repaired, or not made."
        ),
    }
)

# Kinds that say that a call was meant and could not be read.
UNREAD_CALL_KINDS: frozenset[DiagnosticKind] = frozenset({DROPPED_CALL, LIMIT})


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

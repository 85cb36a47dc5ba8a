"""The events that a parser reports, and the kinds of deviations from the strict grammar.

Events are plain slotted dataclasses: a frozen one takes three times as long to create, and one of
these is created for every few characters of every completion. docs/parsing.md lists the kinds of
deviations.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias

DiagnosticKind: TypeAlias = Literal[
    # The spelling of tags.
    "other_release",
    "misspelled_tag",
    "plain_markup",
    "native_markup",
    # The places of tags, and tags that are missing.
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
    "missing_required",
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
    # Mistakes of a chat server that had read the completion itself: `dsv4 heal` finds these.
    "leaked_call",
    "leaked_reasoning",
    "broken_call",
    # Arguments against the schema of their tool: the gateway finds these.
    "fitted_arguments",
    "arguments_do_not_fit",
]
"""The kind of deviation from the strict grammar that a diagnostic reports."""


@lru_cache(1)
def sentences() -> Mapping[DiagnosticKind, str]:
    """A sentence for each kind that says what was found, and what was done about it."""
    path = os.path.join(os.path.dirname(__file__), "diagnostic_kinds.json")
    with open(path, encoding="utf-8") as file:
        return MappingProxyType(json.load(file))


# Kinds that say that a call was meant and could not be read.
UNREAD_CALL_KINDS: frozenset[DiagnosticKind] = frozenset({"dropped_call", "limit"})

# Kinds that report something that stays as it is.
UNREPAIRED_KINDS: frozenset[DiagnosticKind] = frozenset({"arguments_do_not_fit"})


Finish: TypeAlias = Literal["stop", "tool_calls", "length"]
"""The reason why the text ended: the model was done; it made calls; the text was cut."""
AbortReason: TypeAlias = Literal["cut_short", "unreadable", "limit"]
"""The reason why a call will not be completed: the text ended in it; it cannot be read; a limit was
passed."""


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

    `reason` says why. `closing` is the text that would complete the arguments so far to a JSON
    object; it is never sent as a delta, so that half a call cannot be taken for a whole one.
    """

    index: int
    reason: AbortReason = "cut_short"
    closing: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A deviation from the strict grammar.

    `kind` is the kind of deviation. The text from `start` to `end` is `raw`: often empty, where
    something is missing. If a prefix was given, places count from the end of the prefix. For
    arguments that do not fit, or were made to fit, `raw` says what was found or done.
    """

    kind: DiagnosticKind
    start: int
    end: int
    raw: str

    @property
    def sentence(self) -> str:
        """A sentence that says what was found, and what was done about it."""
        return sentences()[self.kind]


@dataclass(slots=True)
class StopHit:
    """The stop string `string` has come. Nothing after it is read."""

    string: str


@dataclass(slots=True)
class End:
    """The end, always the last event: `finish` says why."""

    finish: Finish


TextKind: TypeAlias = type[ReasoningDelta] | type[ContentDelta]

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
"""The events of a parser. An `End` is the last, and comes once."""

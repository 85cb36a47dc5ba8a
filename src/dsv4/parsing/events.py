"""What a parser reports, one small value for each thing that happens.

Plain slotted dataclasses: a frozen one takes three times as long to make, and one of these is made
for every few characters of every completion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dsv4.parsing.diagnostics import SENTENCES, DiagnosticKind
from dsv4.values import FrozenRecord, Record

Finish: TypeAlias = Literal["stop", "tool_calls", "length"]
"""Why the text ended: the model was done; it made calls; the text was cut."""
AbortReason: TypeAlias = Literal["cut_short", "unreadable", "limit"]
"""Why a call will not be completed: the text ended in it; it cannot be read; a limit was passed."""


@dataclass(slots=True, repr=False, eq=False)
class ReasoningDelta(Record):
    """More of the model's thinking: `text`."""

    text: str


@dataclass(slots=True, repr=False, eq=False)
class ContentDelta(Record):
    """More of the answer: `text`."""

    text: str


@dataclass(slots=True, repr=False, eq=False)
class ToolCallStart(Record):
    """A call, certain now. Its arguments follow.

    `index` counts calls from 0, `name` is the tool's. `id` is the call's own and takes no part in
    comparisons. `namespace` is the tool's, in dialects that have namespaces, else None.
    """

    index: int
    name: str
    id: str = field(default="", compare=False)
    namespace: str | None = None


@dataclass(slots=True, repr=False, eq=False)
class ArgumentsDelta(Record):
    """More of the arguments of the call `index`: all `text`, joined, is a JSON object."""

    index: int
    text: str


@dataclass(slots=True, repr=False, eq=False)
class ToolCallEnd(Record):
    """The call `index` is complete."""

    index: int


@dataclass(slots=True, repr=False, eq=False)
class ToolCallAborted(Record):
    """The call `index` will not be completed, and must not be made.

    `reason` says why. `closing` is what would make a JSON object of the arguments so far; it is
    never sent as a delta, so that nobody takes half a call for a whole one.
    """

    index: int
    reason: AbortReason = "cut_short"
    closing: str = ""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Diagnostic(FrozenRecord):
    """A departure from the strict grammar.

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


@dataclass(slots=True, repr=False, eq=False)
class StopHit(Record):
    """The stop string `string` has come. Nothing after it is read."""

    string: str


@dataclass(slots=True, repr=False, eq=False)
class End(Record):
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

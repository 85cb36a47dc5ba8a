"""What a parser reports, one small value for each thing that happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call, certain now. Its arguments follow."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of a call's arguments: all of them, joined, are a JSON object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The call is complete."""

    index: int


@dataclass(frozen=True, slots=True)
class ToolCallAborted:
    """The call will not be completed. Its arguments were closed to a JSON object."""

    index: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A departure from the strict grammar: what kind, where in the text, and the text itself.

    `docs/parsing.md` lists the kinds.
    """

    kind: str
    start: int
    end: int
    raw: str


@dataclass(frozen=True, slots=True)
class End:
    """The end: "stop", "tool_calls", or "length" where the text was cut."""

    finish: str


Event: TypeAlias = (
    ReasoningDelta
    | ContentDelta
    | ToolCallStart
    | ArgumentsDelta
    | ToolCallEnd
    | ToolCallAborted
    | Diagnostic
    | End
)

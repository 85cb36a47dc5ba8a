"""What a parser reports, one small value for each thing that happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ProseDelta:
    """More text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(ProseDelta):
    """More of the model's thinking."""


@dataclass(frozen=True, slots=True)
class ContentDelta(ProseDelta):
    """More of the answer."""


# A frozen class is slow to make through its constructor. The commonest events are made here.
new_event = object.__new__
set_text = vars(ProseDelta)["text"].__set__


def prose_delta(text: str, reasoning: bool) -> ProseDelta:
    event = new_event(ReasoningDelta if reasoning else ContentDelta)
    set_text(event, text)
    return event


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


_set_index = vars(ArgumentsDelta)["index"].__set__
_set_arguments = vars(ArgumentsDelta)["text"].__set__


def arguments_delta(index: int, text: str) -> ArgumentsDelta:
    event = new_event(ArgumentsDelta)
    _set_index(event, index)
    _set_arguments(event, text)
    return event


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
    ProseDelta | ToolCallStart | ArgumentsDelta | ToolCallEnd | ToolCallAborted | Diagnostic | End
)
"""What a parser gives. An `End` is the last, and comes once."""

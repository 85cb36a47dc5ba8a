"""What is read from a prompt, before it is a request."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dsv4.decoding.calls import Blocks
from dsv4.decoding.decoded import Note
from dsv4.decoding.masking import Mask
from dsv4.decoding.sections import Section, sections
from dsv4.format.dialects import DIALECTS, Dialect
from dsv4.request import Request


@dataclass(frozen=True)
class Choice:
    """What to make of a prompt where it can be read in two ways. None means: look.

    `trusted` says that every token is one, and none is text that spells it; `joined` that all
    tokens in the turn of a user or a reminder are text.
    """

    thinking: bool | None = None
    drop: bool | None = None
    sections: bool = True
    results: bool = True
    trusted: bool = False
    joined: bool = False


@dataclass
class Reading:
    """A conversation, as it was read.

    `prefix` is the model's reasoning, where that is open; `tool_choice` is what opened a call.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    thinking: bool = False
    effort: str | int | None = None
    drop: bool = True
    bos: bool = False
    context: tuple[dict[str, Any], ...] = ()
    prefix: str = ""
    tool_choice: str = "auto"
    notes: list[Note] = field(default_factory=list)

    def note(self, kind: str, start: int, end: int, text: str, message: int | None = None) -> None:
        """Notes something about a stretch of the prompt, and the message it became."""
        self.notes.append(Note(kind, start, end, message, text))

    def request(self, dialect: Dialect, mask: Mask) -> Request:
        """The reading as a request, with all texts as they stand in the prompt."""
        return Request(
            mask.unmasked(self.messages),
            thinking=self.thinking,
            effort=self.effort if self.thinking else None,
            drop_thinking=self.drop,
            bos=self.bos,
            context=self.context,
            dialect=dialect.name if DIALECTS.get(dialect.name) is dialect else dialect,
            prefix=mask.unmasked(self.prefix),
            tool_choice=mask.unmasked(self.tool_choice),
        )


@dataclass(frozen=True)
class Found:
    """What stands in a text whichever way it is read: found once for all readings."""

    text: str
    dialect: Dialect

    @cached_property
    def sections(self) -> list[Section]:
        return sections(self.text, self.dialect)

    @cached_property
    def blocks(self) -> Blocks:
        return Blocks(self.text, self.dialect.tags)

    @cached_property
    def first_call(self) -> int:
        """Where the first block of calls stands: after the end, if there is none."""
        return next(iter(self.blocks.found), len(self.text))

    @property
    def protected(self) -> Iterator[tuple[int, int]]:
        """Stretches in which nothing structures the prompt."""
        yield from ((section.start, section.end) for section in self.sections)
        yield from ((start, end) for start, (end, _) in self.blocks.found.items())

    def sections_in(self, start: int, end: int) -> list[Section]:
        if not self.sections:
            return []
        first = bisect_left(self._section_starts, start)
        last = bisect_left(self._section_starts, end)
        return [section for section in self.sections[first:last] if section.end <= end]

    @cached_property
    def _section_starts(self) -> list[int]:
        return [section.start for section in self.sections]

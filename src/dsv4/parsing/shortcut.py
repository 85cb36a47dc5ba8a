"""The way of most chunks, past the machine.

Most chunks of most completions are a few letters in the middle of a line, or of a string. The
machine would say of them what they are: more of the same. The invariant under which they may go by
it, and under which they do nothing else than be shown:

- nothing waits in the source, so that the chunk stands where reading is;
- the state is prose, or a string that is shown as it comes;
- no mark is in the chunk, so that no tag begins in it;
- in prose: the line has begun with something that is no fence and no list, no stop strings are
  looked for, and the chunk holds no newline and no character of a fence; in a string: it does not
  end in a line break, which would go if the string's end were implied.

The machine is told later how much has gone by, when it is asked again.
"""

from __future__ import annotations

from dsv4.format.spellings import FENCES
from dsv4.parsing.events import ArgumentsDelta, ContentDelta, Event, ReasoningDelta
from dsv4.parsing.json_values import escaped
from dsv4.parsing.machine import Machine
from dsv4.parsing.prose import Prose
from dsv4.parsing.reading_values import Text
from dsv4.parsing.source import MARKS
from dsv4.parsing.values import Parameter

_BRACKET, _WIDE, _BAR = MARKS
_TICK, _TILDE = FENCES[0], FENCES[1]


class Shortcut:
    """Passes chunks on that need no reading."""

    __slots__ = ("_index", "_last", "_machine", "_passed", "_prose", "_words")

    def __init__(self, machine: Machine, prose: Prose) -> None:
        self._machine = machine
        self._prose = prose
        self._words: type[ReasoningDelta] | type[ContentDelta] | None = None
        self._index: int | None = None  # of the call whose string comes in
        self._passed = 0
        self._last = ""
        self.choose()

    def pass_on(self, text: str) -> list[Event] | None:
        """The events of a chunk that may go by; None for one that must be read."""
        words = self._words
        if words is not None:
            if (
                text.__class__ is str
                and text
                and _BRACKET not in text
                and "\n" not in text
                and _TICK not in text
                and (text.isascii() or (_BAR not in text and _WIDE not in text))
                and _TILDE not in text
            ):
                self._passed += len(text)
                self._last = text
                return [words(text)]
        elif self._index is not None and (
            text.__class__ is str
            and text
            and _BRACKET not in text
            and (text.isascii() or (_BAR not in text and _WIDE not in text))
        ):
            if "\n" in text and not text[text.rfind("\n") :].strip(" \t\n"):
                return None
            if text[-1] == "\r":
                return None
            self._passed += len(text)
            self._last = text
            return [ArgumentsDelta(self._index, text if text.isalnum() else escaped(text))]
        return None

    def choose(self, carries: bool = False) -> None:
        """Finds out what may go by, now that the machine has read."""
        self._words = self._index = None
        machine = self._machine
        reader = machine.reader
        if machine.source.text or machine.reads_all or carries:
            return
        if reader is self._prose:
            if self._prose.is_idle and self._prose.lines.settled:
                self._words = ReasoningDelta if self._prose.reasoning else ContentDelta
        elif isinstance(reader, Text):
            value = reader.value
            if isinstance(value, Parameter) and value.is_idle:
                self._index = value.invoke.call.index

    def close(self) -> None:
        """Lets nothing by any more."""
        self._words = self._index = None

    def catch_up(self) -> None:
        """Tells the machine what has gone by."""
        if self._passed:
            source = self._machine.source
            source.skip(self._passed, self._last[-1])
            self._passed = 0
            reader = self._machine.reader
            if isinstance(reader, (Prose, Text)):
                reader.skip()

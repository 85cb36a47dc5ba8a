"""The way of most chunks, past the machine.

Most chunks of most completions are a few letters in the middle of a line, or of a string. The
machine would say of them what they are: more of the same. The invariant under which they may go by
it, and under which they do nothing else than be shown:

- nothing waits in the source, so that the chunk stands where reading is;
- the state is prose without stop strings, or a string that is shown as it comes;
- no mark is in the chunk, so that no tag begins in it;
- line breaks at its end wait, because they go if a block comes next; in a string it ends in none,
  nor in indentation after one, because both go if the string's end is implied;
- in prose: no character of a fence is in it, and where it is not in the middle of a line that has
  begun with something else than a list, the lines are followed, which is all that prose would do.

The machine is told later how much has gone by, when it is asked again.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import TypeAlias

from dsv4._format.spellings import FENCES
from dsv4.parsing.events import ArgumentsDelta, ContentDelta, Event, ReasoningDelta
from dsv4.parsing.machine import Machine
from dsv4.parsing.prose import Prose
from dsv4.parsing.reading_values import Text
from dsv4.parsing.source import MARKS
from dsv4.parsing.values import Parameter

_BRACKET, _WIDE, _BAR = MARKS
_TICK, _TILDE = FENCES[0], FENCES[1]
_BREAK = "\n"
_Words: TypeAlias = type[ReasoningDelta] | type[ContentDelta]
# An event of one field is made faster without its constructor.
_new = object.__new__


class Shortcut:
    """Passes chunks on that need no reading."""

    def __init__(self, machine: Machine, prose: Prose) -> None:
        self._machine = machine
        self._prose = prose
        # What words become here, in the middle of a line, and anywhere.
        self._words: _Words | None = None
        self._line_words: _Words | None = None
        self._index: int | None = None  # of the call whose string comes in
        self._passed = 0
        self._last = ""
        self._newlines = ""  # at the end of what has gone by: they wait

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, possibly none.

        `text` is the next piece of the completion, cut anywhere; special tokens are spelled in it.
        Raises an `OptionError` after `finish`.
        """
        words = self._words
        try:
            if (
                words is not None
                and _BRACKET not in text
                and _BREAK not in text
                and _TICK not in text
                and _TILDE not in text
                and (text.isascii() or (_BAR not in text and _WIDE not in text))
                and text
            ):
                self._passed += len(text)
                self._last = text
                event = _new(words)
                event.text = text
                return [event]
            if self._line_words is not None:
                return self._in_lines(text, self._line_words)
            if self._index is not None and (
                _BRACKET not in text
                and text
                and text[-1] not in "\r\n"
                and (_BREAK not in text or text[-1] not in " \t")
                and (text.isascii() or (_BAR not in text and _WIDE not in text))
            ):
                self._passed += len(text)
                self._last = text
                inside = text if text.isalnum() else encode_basestring(text)[1:-1]
                return [ArgumentsDelta(self._index, inside)]
        except (TypeError, AttributeError):
            pass  # it is no text, which is refused below
        return self._read(text)

    def _in_lines(self, text: str, words: _Words) -> list[Event]:
        """Words with line breaks among them, or at a line's start. Breaks at the end wait."""
        if not text or _BRACKET in text or _TICK in text or _TILDE in text:
            return self._read(text)
        if not text.isascii() and (_BAR in text or _WIDE in text):
            return self._read(text)
        after = text.rfind(_BREAK) + 1
        if self._words is not None and after < len(text) and text[after].isalpha():
            shown = text  # a line that begins with a letter is settled at once
        else:
            settled = self._prose.follow(text)
            text = self._newlines + text
            kept = 0
            if text[-1] == _BREAK:
                kept = 2 if text[-2:] == _BREAK * 2 else 1
            self._newlines = text[len(text) - kept :]
            self._words = words if settled and not kept else None
            shown = text[: len(text) - kept]
            if not shown:
                return []
        self._passed += len(shown)
        self._last = shown
        return [words(shown)]

    def _read(self, text: str) -> list[Event]:
        """The events of a chunk that must be read."""
        raise NotImplementedError

    def _choose(self, carries: bool = False) -> None:
        """Finds out what may go by, now that the machine has read."""
        self._close()
        machine, prose = self._machine, self._prose
        reader = machine.reader
        if machine.source.text or machine.reads_all or carries:
            return
        if reader is prose:
            if prose.is_idle:
                self._line_words = ReasoningDelta if prose.reasoning else ContentDelta
                self._words = self._line_words if prose.lines.settled else None
        elif reader.__class__ is Text:
            value = reader.value
            if isinstance(value, Parameter) and value.is_idle:
                self._index = value.invoke.call.index

    def _close(self) -> None:
        """Lets nothing by any more."""
        self._words = self._line_words = self._index = None

    def _catch_up(self) -> None:
        """Tells the machine what has gone by, and gives it what waits."""
        if self._passed or self._newlines:
            source = self._machine.source
            source.skip(self._passed, self._last[-1] if self._passed else "")
            if self._newlines:
                source.append(self._newlines)
            self._passed, self._newlines = 0, ""
            reader = self._machine.reader
            if isinstance(reader, (Prose, Text)):
                reader.skip()

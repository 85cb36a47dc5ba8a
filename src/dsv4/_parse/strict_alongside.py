"""The strict grammar beside the tolerant reading of a block (recovery.md, rule 20)."""

from __future__ import annotations

from dsv4._completion.json_text import read_value
from dsv4._completion.strict import StrictBlock
from dsv4._format import tokens
from dsv4._format.dialects import Tags
from dsv4._parse.text_buffer import NOWHERE, Steps, TextBuffer
from dsv4.errors import ParseError

_EOS = str(tokens.EOS)
# So many stretches of text between values are kept.
_MOST_PASSED = 256


class StrictAlongside(StrictBlock):
    """The strict grammar beside the tolerant reading of a block (recovery.md, rule 20).

    Few blocks are ever doubted. So the text between values is only kept, and read strictly when the
    first doubt arises.
    """

    def __init__(self, tags: Tags, start: int) -> None:
        super().__init__(tags, start)
        self.passed: list[tuple[str, int]] = []  # text between values, and its places
        self.refuted_to = NOWHERE  # a value that closes before this is in no strict block

    def keeps_few(self) -> bool:
        """Reads the text that has been passed, if it is much. False: it leaves the grammar."""
        return len(self.passed) <= _MOST_PASSED or self._catches_up()

    def _catches_up(self) -> bool:
        try:
            for text, start in self.passed:
                self.feed(text, start)
        except ParseError:
            return False
        self.passed.clear()
        return True

    def accepts(self, buffer: TextBuffer, value: int, at: int) -> Steps[bool]:
        """Whether the strict grammar accepts the block, and it is the last thing in the text.

        `at` is where the first doubt arises, in the value that begins at `value`.
        """
        if not self._catches_up():
            return False
        start = max(value, at - 2)  # a bracket and a slash may stand before the tag
        while self.end is None:
            try:
                self.feed(buffer.acting(start, buffer.end), start, buffer.final)
            except ParseError:
                last = buffer.final and self.closed_at < at
                self.refuted_to = buffer.end if last else self.closed_at
                return False
            start = buffer.end
            if self.end is None and not (yield from buffer.more()):
                return False
        if not (yield from is_last(buffer, self.end)):
            return False
        return self._holds_json(buffer, at)

    def _holds_json(self, buffer: TextBuffer, at: int) -> bool:
        """Whether every value from `at` on that should be JSON is (rule 36).

        In `string="false">42</` the close is damaged: the strict grammar goes on to the next one,
        and makes one call of two.
        """
        spans = [
            value for call in self.calls for _, is_text, value in call.parameters if not is_text
        ]
        broken = [
            span.stop
            for span in spans
            if span.stop >= at and read_value(buffer.slice(span.start, span.stop)) is None
        ]
        self.refuted_to = max(broken, default=self.refuted_to)
        return not broken


def is_last(buffer: TextBuffer, end: int) -> Steps[bool]:
    """Whether nothing but EOS and white space follows a place to the end of all text."""
    while True:
        rest = buffer.acting(end, buffer.end)
        while (tail := rest.lstrip().removeprefix(_EOS)) != rest:
            rest = tail
        end = buffer.end - len(rest)
        if rest and (buffer.final or not _EOS.startswith(rest)):
            return False
        if not (yield from buffer.more()):
            return True


def before_eos(buffer: TextBuffer) -> int:
    """The end of the text without EOS and white space before it, if it ends with an EOS."""
    rest = buffer.acting(buffer.base, buffer.end)
    while (head := rest.rstrip()).endswith(_EOS):
        rest = head.removesuffix(_EOS)
    return buffer.base + len(rest)

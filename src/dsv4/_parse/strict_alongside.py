"""The strict grammar beside the tolerant reading of a block (recovery.md, rule 20).

Few blocks are ever doubted. So what stands between values is only kept, and read strictly when
the first doubt arises.
"""

from __future__ import annotations

from dsv4._format import tokens
from dsv4._format.dialects import Tags
from dsv4._parse.limits import LONGEST_TAG
from dsv4._parse.steps import Steps
from dsv4._parse.strict import StrictBlock
from dsv4._parse.text_buffer import NOWHERE, TextBuffer
from dsv4.errors import ParseError

_EOS = str(tokens.EOS)
# So many stretches of text between values are kept.
_MOST_PASSED = 256


class StrictAlongside:
    """Asks the strict grammar about a block whose opening tag is spelled strictly."""

    __slots__ = ("_block", "passed", "refuted_to")

    def __init__(self, tags: Tags, start: int) -> None:
        self._block = StrictBlock(tags, start, longest=LONGEST_TAG)
        self.passed: list[tuple[str, int]] = []  # text between values, and its places
        self.refuted_to = NOWHERE  # a value that closes before this is in no strict block

    def catches_up(self, least: int = 0) -> bool:
        """Reads what has been passed, if it is more than this. False: it leaves the grammar."""
        if len(self.passed) <= least:
            return True
        try:
            for text, start in self.passed:
                self._block.feed(text, start)
        except ParseError:
            return False
        self.passed.clear()
        return True

    def keeps_few(self) -> bool:
        return self.catches_up(_MOST_PASSED)

    def accepts(self, buffer: TextBuffer, value: int, at: int) -> Steps[bool]:
        """Whether the strict grammar accepts the block, and it is the last thing in the text.

        `at` is where the first doubt arises, in the value that begins at `value`.
        """
        block = self._block
        if not self.catches_up():
            return False
        # A bracket and a slash may stand before the tag.
        fed, before = at, buffer.slice(max(value, at - 2), at)
        while True:
            text = before + buffer.acting(fed, buffer.end)
            try:
                block.feed(text, fed - len(before), buffer.final)
            except ParseError:
                last = buffer.final and block.closed_at < at
                self.refuted_to = buffer.end if last else block.closed_at
                return False
            fed, before = buffer.end, ""
            if block.end is not None:
                return (yield from is_last(buffer, block.end))
            if not (yield from buffer.more()):
                return False


def is_last(buffer: TextBuffer, end: int) -> Steps[bool]:
    """Whether nothing but EOS and white space follows a place to the end of all text."""
    while True:
        rest = buffer.acting(end, buffer.end)
        while (kept := rest.lstrip().removeprefix(_EOS)) != rest:
            rest = kept
        end = buffer.end - len(rest)
        if rest and (buffer.final or not _EOS.startswith(rest)):
            return False
        if not (yield from buffer.more()):
            return True

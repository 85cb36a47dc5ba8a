"""Where in a line the prose stands: whether a marker would open the line, or stand in a fence."""

from __future__ import annotations

from dsv4.spec.spellings import FENCE


class Lines:
    """Follows prose as it goes by.

    `blank` is true while the line has nothing but white space; `fenced` inside a code fence, which
    a line that starts with three backticks opens and the next such line closes.
    """

    __slots__ = ("_head", "blank", "fenced")

    def __init__(self) -> None:
        self._head = ""  # the line's first characters, as many as a fence has
        self.blank = True
        self.fenced = False

    @property
    def settled(self) -> bool:
        """Whether more text without a newline can change nothing."""
        return not self.blank and len(self._head) == len(FENCE)

    def follow(self, text: str) -> None:
        if "`" in text or FENCE.startswith(self._head or "?"):
            for n, line in enumerate(text.split("\n")):
                if n:
                    self._start_line()
                self._extend_line(line)
            return
        newline = text.rfind("\n")
        if newline >= 0:
            self._start_line()
            text = text[newline + 1 :]
        self._extend_line(text)

    def _start_line(self) -> None:
        self._head = ""
        self.blank = True

    def _extend_line(self, text: str) -> None:
        missing = len(FENCE) - len(self._head)
        if missing and text:
            self._head += text[:missing]
            if self._head == FENCE:
                self.fenced = not self.fenced
        if self.blank and text and not text.isspace():
            self.blank = False

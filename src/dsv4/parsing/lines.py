"""Where in a line the prose stands: whether a marker would open the line, or stand in a fence."""

from __future__ import annotations

from dsv4.format.spellings import FENCE


class Lines:
    """Follows prose as it goes by.

    `blank` is true while the line has nothing but white space; `fenced` inside a code fence, which
    a line that starts with three backticks opens and the next such line closes. `settled` means
    that more text without a newline can change neither.
    """

    __slots__ = ("_ticks", "blank", "fenced", "settled")

    def __init__(self) -> None:
        # How much of a fence the line begins with; None when it begins otherwise.
        self._ticks: int | None = 0
        self.blank = True
        self.fenced = False
        self.settled = False

    def follow(self, text: str) -> None:
        if "`" in text:
            for n, line in enumerate(text.split("\n")):
                if n:
                    self._ticks, self.blank = 0, True
                self._extend(line)
            return
        newline = text.rfind("\n")
        if newline >= 0:
            self._ticks, self.blank = 0, True
            text = text[newline + 1 :]
            self.settled = False
        if not self.settled and text:
            self._ticks = None
            self.settled = not text.isspace()
            self.blank = self.blank and not self.settled

    def _extend(self, line: str) -> None:
        if self._ticks is not None and line:
            ticks = len(line) - len(line.lstrip("`"))
            missing = len(FENCE) - self._ticks
            if ticks >= missing:
                self.fenced = not self.fenced
            self._ticks = self._ticks + ticks if ticks == len(line) and ticks < missing else None
        if line and not line.isspace():
            self.blank = False
        self.settled = self._ticks is None and not self.blank

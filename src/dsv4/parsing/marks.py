"""Where a tag may begin."""

from __future__ import annotations

from dsv4.format import tokens

_BAR = str(tokens.DSML)[0]


def next_mark(text: str, at: int, bracket: int) -> tuple[int, int]:
    """The next place from `at` on where a tag may begin, else the text's end.

    `bracket` is where the next `<` was found before, -1 at first; it is returned for the next
    call, so that long stretches without one are searched once.
    """
    if bracket < at:
        bracket = text.find("<", at)
        if bracket < 0:
            bracket = len(text)
    bar = text.find(_BAR, at, bracket)
    return (bracket if bar < 0 else bar), bracket

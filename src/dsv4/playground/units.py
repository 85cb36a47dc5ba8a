"""Lengths and places as the page counts them: in UTF-16 units, two of them for some characters."""

from __future__ import annotations

from bisect import bisect_left


def width(text: str) -> int:
    """How long a text is in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(c > "\uffff" for c in text)


class Places:
    """Places in a text, from characters to UTF-16 units."""

    def __init__(self, text: str) -> None:
        self._wide = [] if text.isascii() else [n for n, c in enumerate(text) if c > "\uffff"]

    def __call__(self, at: int) -> int:
        return at + bisect_left(self._wide, at) if self._wide else at

"""Stop strings: prose ends before the first of them, wherever the chunks are cut."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Finds stop strings in text, and the part of its end that may still become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._starts = {stop[:size] for stop in self._stops for size in range(1, len(stop))}

    def find(self, text: str) -> tuple[int, str] | None:
        """The place and the stop string that is complete first, as if letters came one by one."""
        places = [(at + len(s), at, s) for s in self._stops if (at := text.find(s)) >= 0]
        first = min(places, default=None)
        return None if first is None else first[1:]

    def start_at_end(self, text: str) -> int:
        """The number of characters at the text's end that a stop string may begin with."""
        sizes = range(min(self._longest - 1, len(text)), 0, -1)
        return next((size for size in sizes if text[-size:] in self._starts), 0)

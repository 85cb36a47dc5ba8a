"""Stop strings: prose ends before the first of them, wherever the chunks are cut."""

from __future__ import annotations

from collections.abc import Sequence


class Stops:
    """Lets text through that cannot belong to a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.hit = False

    def pass_on(self, text: str) -> str:
        """What may be shown, now that `text` has come. Sets `hit` when a stop string is whole."""
        text = self._held + text
        # The one that is whole first, as if the text came letter by letter.
        found = [(at + len(s), at) for s in self._stops if (at := text.find(s)) >= 0]
        if found:
            self.hit = True
            self._held = ""
            return text[: min(found)[1]]
        keep = self._start_at_end(text)
        self._held = text[len(text) - keep :] if keep else ""
        return text[: len(text) - keep]

    def release(self) -> str:
        """What was held, where something other than text follows it."""
        held, self._held = self._held, ""
        return held

    def _start_at_end(self, text: str) -> int:
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-size:]
            if any(stop.startswith(end) for stop in self._stops):
                return size
        return 0

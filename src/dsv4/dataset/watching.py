"""Who is told how a run goes."""

from __future__ import annotations

from collections.abc import Sequence

from dsv4.dataset.partial import Progress


class Watcher:
    """Is told how a run goes, and says nothing. Others make more of it."""

    def begin(self, sizes: Sequence[int] | None, progress: Progress) -> None:
        """A run begins, or goes on. `sizes` are those of the inputs in bytes, if they are known."""

    def advance(self, progress: Progress) -> None:
        """Some more is done."""

    def bad_line(self, problem: str) -> None:
        """A line was left out."""

    def end(self) -> None:
        """The run is over, however it went."""

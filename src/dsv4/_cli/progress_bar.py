"""The progress of `dsv4 dataset`, as a line on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic
from typing import TextIO

from dsv4._cli.command_output import in_json_words, terminal_width
from dsv4._view.characters import terminal_safe
from dsv4.dataset import Watcher
from dsv4.dataset.resumable_output import Progress

SECONDS_BETWEEN_DRAWINGS = 0.1
CELLS = 24


class ProgressBar(Watcher):
    """A bar on stderr, if that is a terminal. Bad lines are always printed."""

    def __init__(self) -> None:
        self._sizes: Sequence[int] | None = None
        self._begin = Progress()
        self._started = self._drawn = monotonic()
        self._stream: TextIO | None = sys.stderr
        self._on = sys.stderr is not None and sys.stderr.isatty()

    def begin(self, sizes: Sequence[int] | None, progress: Progress) -> None:
        self._sizes, self._begin = sizes, progress
        self._started = self._drawn = monotonic()

    def advance(self, progress: Progress) -> None:
        now = monotonic()
        if self._on and now - self._drawn >= SECONDS_BETWEEN_DRAWINGS:
            self._drawn = now
            line = self._line(progress, max(now - self._started, 1e-9))
            self._put(f"\r{line[: terminal_width() - 1]}\x1b[K")

    def bad_line(self, problem: str) -> None:
        self.say(f"dsv4: {terminal_safe(in_json_words(' '.join(problem.splitlines())))}")

    def end(self) -> None:
        if self._on:
            self._put("\r\x1b[K")

    def say(self, line: str) -> None:
        """Prints a line that the bar does not overwrite."""
        if self._stream is not None:
            self.end()
            self._put(f"{line}\n")

    def _put(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(text)
        self._stream.flush()

    def _line(self, progress: Progress, seconds: float) -> str:
        new = progress.conversations - self._begin.conversations
        rate = f"{progress.conversations:,} conversations, {new / seconds:,.0f}/s"
        if progress.bad:
            rate += f", {progress.bad:,} bad"
        if not self._sizes:
            return rate
        whole = sum(self._sizes) or 1
        read, read_before = self._read(progress), self._read(self._begin)
        cells = CELLS * read // whole
        seconds_left = (whole - read) * seconds / max(read - read_before, 1)
        drawn = "█" * cells + "░" * (CELLS - cells)
        return f"{drawn} {read / whole:4.0%}  {rate}, {_clock(seconds_left)} left"

    def _read(self, progress: Progress) -> int:
        position = progress.after
        return sum((self._sizes or [])[: position.file]) + position.offset


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

"""Measurements of a run: lengths of examples, tokens by field, peak memory of its processes."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

from dsv4._format.tokens import ONE_RESULT_START, RESULT_START
from dsv4.dataset.dataset_notes import LineNotes
from dsv4.tokens.masks import AttributedIds


class WorkerMemory(NamedTuple):
    """A process, and its peak memory in bytes, if the system reports it."""

    process: int
    peak: int | None


def memory_of_this_process() -> WorkerMemory:
    return WorkerMemory(os.getpid(), peak_memory())


def peak_memory() -> int | None:
    # Linux's getrusage includes the memory of the parent when it started this process.
    try:
        with open("/proc/self/status", "rb") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(b"VmHWM"))
    except (OSError, StopIteration):
        return _peak_by_getrusage()


def _peak_by_getrusage() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


_RESULT_STARTS = (RESULT_START, ONE_RESULT_START)


@dataclass
class DatasetCounts:
    """Counts of examples, before they are packed.

    `histogram` counts examples by the next power of two of their length; `fields` counts tokens by
    the part of a message that they came from; `trained` counts those that are trained on. `longest`
    is the length of the longest example, and `longest_at` its file and line.
    """

    histogram: Counter[int] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    trained: int = 0
    longest: int = 0
    longest_at: str = ""

    def add(self, owned: AttributedIds, length: int, mask: Iterable[int], place: str) -> None:
        """Counts an example: the first `length` tokens of `owned`."""
        self.histogram[1 << max(length - 1, 0).bit_length()] += 1
        in_result = False
        for start, end, piece in owned:
            if start >= length:
                break
            if piece.field == "tool_result":
                in_result = piece.text in _RESULT_STARTS
            # The text of a result is content of its message. It is counted with the result.
            field = "tool_result" if in_result and piece.field == "content" else piece.field
            self.fields[field] += min(end, length) - start
        self.trained += sum(mask)
        if length > self.longest:
            self.longest, self.longest_at = length, place

    def plus(self, other: DatasetCounts) -> DatasetCounts:
        longer = other if other.longest > self.longest else self
        return DatasetCounts(
            self.histogram + other.histogram,
            self.fields + other.fields,
            self.trained + other.trained,
            longer.longest,
            longer.longest_at,
        )

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON for people: numbers with their shares."""
        tokens = self.fields.total()
        return {
            "histogram": {f"<={most}": self.histogram[most] for most in sorted(self.histogram)},
            "fields": {
                name: {"tokens": count, "share": round(count / tokens, 4)}
                for name, count in self.fields.most_common()
            },
            "trained": {"tokens": self.trained, "share": round(self.trained / (tokens or 1), 4)},
            "longest": {"tokens": self.longest, "at": self.longest_at},
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> DatasetCounts:
        """The counts that the journal has saved."""
        histogram = Counter({int(most): count for most, count in saved["histogram"].items()})
        return cls(**{**saved, "histogram": histogram, "fields": Counter(saved["fields"])})


@dataclass(frozen=True, kw_only=True)
class RunCounts:
    """The counts of a run, or of a chunk of it.

    `rows` are those of the output, which may hold several `examples`. `trained` counts the tokens
    that are trained on, `answers` the answers for which thinking is opened, `bad` lines that were
    left out. `notes` are findings by kind, each with its count and its first line: omissions of the
    format, examples that were cut or left out, answers without reasoning, copies. `counts` has more
    details, if requested.
    """

    conversations: int = 0
    examples: int = 0
    rows: int = 0
    tokens: int = 0
    trained: int = 0
    answers: int = 0
    bad: int = 0
    notes: LineNotes = field(default_factory=LineNotes)
    counts: DatasetCounts | None = None

    def plus(self: SomeCounts, later: RunCounts) -> SomeCounts:
        """The sum of both; fields that only this class has stay as they are here."""
        counts = self.counts or later.counts
        if self.counts is not None and later.counts is not None:
            counts = self.counts.plus(later.counts)
        numbers = {name: getattr(self, name) + getattr(later, name) for name in _NUMBERS}
        return replace(self, **numbers, notes=self.notes.plus(later.notes), counts=counts)


SomeCounts = TypeVar("SomeCounts", bound=RunCounts)
_NUMBERS = tuple(field.name for field in fields(RunCounts) if field.default == 0)

"""Notes that a run takes of its data and reports at its end: omissions of the format, and facts to
know before training on it. Each kind has a count and the place where it was first found.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

LEFT_MESSAGE, LEFT_REASONING, UNWRITTEN_REASONING, LEFT_FIELD, OPEN_TURN = (
    *("dropped_message", "dropped_reasoning", "unwritten_reasoning"),
    *("lost_field", "open_turn"),
)
CUT, TOO_LONG, NOTHING_TO_LEARN = "cut", "too_long", "nothing_to_learn"
NO_REASONING, UNDECLARED_TOOL, COPY = "no_reasoning", "undeclared_tool", "copied_line"
UNKNOWN_MODEL, OTHER_RELEASE, UNOPENED = "unknown_model", "other_release", "turn_without_token"
EMPTY_FILE, UNANSWERED = "empty_file", "unanswered"
CONTEXT, MOVED = "messages_in_context", "moved_blocks"

# Stands before the name of a field that nothing reads.
UNREAD = "unread "

# A prompt's name for an omission -> its kind.
KINDS_OF_OMISSIONS = {
    "vanished": LEFT_MESSAGE,
    "old_reasoning": LEFT_REASONING,
    "chat_mode": UNWRITTEN_REASONING,
    "task_answer": UNWRITTEN_REASONING,
}


class NotedLines(NamedTuple):
    """The number of times that something was found, and the first line with it."""

    times: int
    first: str


class LineNotes(dict[str, NotedLines]):
    """The findings in lines, by kind."""

    def add(self, kind: str, place: str, count: int = 1) -> None:
        if count:
            before = self.get(kind, NotedLines(0, place))
            self[kind] = NotedLines(before.times + count, before.first)

    def plus(self, later: LineNotes) -> LineNotes:
        both = LineNotes(self)
        for kind, noted in later.items():
            both.add(kind, noted.first, noted.times)
        return both


# Lines that occur more than once.

HASH_BYTES = 8
# Up to this many lines, all are compared; beyond, every second, then every fourth, by their hash.
MOST_COMPARED = 1 << 18


def line_hash(line: bytes) -> bytes:
    """The hash by which a line is compared with others."""
    return blake2b(line.strip(), digest_size=HASH_BYTES).digest()


class CopyCounter:
    """Counts lines that occurred before, in bounded memory."""

    def __init__(self) -> None:
        self.notes: LineNotes = LineNotes()
        self._numbers: set[int] = set()
        self._step = 1

    def add_chunk(self, hashes: bytes, name: str, first: int) -> None:
        """Adds a chunk: the hash of each of its lines, zeros for a line that does not count."""
        for n in range(0, len(hashes), HASH_BYTES):
            if any(hash := hashes[n : n + HASH_BYTES]):
                self.add(hash, f"{name}:{first + n // HASH_BYTES}")

    def add(self, hash: bytes, place: str) -> None:
        """Adds a line."""
        number = int.from_bytes(hash, "big")
        if number % self._step:
            return
        if number in self._numbers:
            self.notes.add(COPY, place, self._step)
        else:
            self._keep(number)

    def _keep(self, number: int) -> None:
        self._numbers.add(number)
        if len(self._numbers) > MOST_COMPARED:
            self._step *= 2
            self._numbers = {each for each in self._numbers if not each % self._step}

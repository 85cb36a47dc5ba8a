"""What a run counts of its data and says at its end: what the format leaves out, and what a trainer
should know before training on it. Each kind with how often, and where it was first.
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

# Before the name of a field that nothing reads.
UNREAD = "unread "

# What a prompt calls an omission -> its kind.
KINDS_OF_OMISSIONS = {
    "vanished": LEFT_MESSAGE,
    "old_reasoning": LEFT_REASONING,
    "chat_mode": UNWRITTEN_REASONING,
    "task_answer": UNWRITTEN_REASONING,
}


class NotedLines(NamedTuple):
    """How often something was found, and in which line first."""

    times: int
    first: str


class LineNotes(dict[str, NotedLines]):
    """What was found in lines, by kind."""

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
# Up to this many lines are compared all; of more, every second one, every fourth, by their hash.
MOST_COMPARED = 1 << 18


def line_hash(line: bytes) -> bytes:
    """What a line is compared by."""
    return blake2b(line.strip(), digest_size=HASH_BYTES).digest()


class CopyCounter:
    """Counts the lines that came before, in bounded memory."""

    def __init__(self) -> None:
        self.notes: LineNotes = LineNotes()
        self._numbers: set[int] = set()
        self._step = 1

    def add_chunk(self, hashes: bytes, name: str, first: int) -> None:
        """Takes in a chunk: the hash of each of its lines, zeros for a line that does not count."""
        for n in range(0, len(hashes), HASH_BYTES):
            if any(hash := hashes[n : n + HASH_BYTES]):
                self.add(hash, f"{name}:{first + n // HASH_BYTES}")

    def add(self, hash: bytes, place: str) -> None:
        """Takes in a line."""
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

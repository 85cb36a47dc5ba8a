"""What was read before, for clients that send the same again: tools and options, all day long.

The key is what a client sent, as marshal writes it, which tells 1 from True and keeps the order of
keys. What is remembered is read from a copy: the caller may change what is theirs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_V = TypeVar("_V")

# At most this many values, of at most this many bytes each.
ENTRIES = 64
BYTES = 262_144


class Remembered(Generic[_V]):
    """Values by what they were read from: the last few, the oldest out first."""

    def __init__(self) -> None:
        self._values: dict[Hashable, _V] = {}
        self.get = self._values.get

    def keep(self, key: Hashable, value: _V, size: int) -> None:
        """Remembers a value that was read from `size` bytes, unless those are too many."""
        if size > BYTES:
            return
        while len(self._values) >= ENTRIES:
            try:
                self._values.pop(next(iter(self._values)), None)
            except (StopIteration, RuntimeError):  # another thread was at it
                break
        self._values[key] = value

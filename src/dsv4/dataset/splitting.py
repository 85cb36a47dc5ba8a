"""Which part of a dataset a conversation is for: its own text says, and nothing else.

So the same conversation is always in the same part, in whatever file and order it comes, and two
copies of it never stand on both sides.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from dsv4.dataset.failures import DatasetError
from dsv4.errors import short_repr

_BITS = 64


class Share(NamedTuple):
    """A stretch of the numbers from 0 to 1."""

    low: float = 0.0
    high: float = 1.0

    def takes(self, line: bytes) -> bool:
        """Whether a conversation is in this part."""
        if self == WHOLE:
            return True
        digest = blake2b(line.strip(), digest_size=_BITS // 8).digest()
        return self.low <= int.from_bytes(digest, "big") / (1 << _BITS) < self.high


WHOLE = Share()


def shares(split: Mapping[str, float]) -> dict[str, Share]:
    """The stretches of the parts, by name. Together they are the whole."""
    if not isinstance(split, Mapping) or not split:
        raise DatasetError(
            f"split: found {short_repr(split)}, expected shares of parts by their names"
        )
    for name, share in split.items():
        if not isinstance(name, str) or not name or not all(c.isalnum() or c in "-_" for c in name):
            raise DatasetError(
                f"split: found the name {short_repr(name)}, expected letters and digits"
            )
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise DatasetError(
                f"split: found {short_repr(share)} for {name}, expected a share up to 1"
            )
    if abs(sum(split.values()) - 1) > 1e-9:
        found = " + ".join(map(str, split.values()))
        raise DatasetError(f"split: found {found}, expected shares that add up to 1")
    return dict(_stretches(split))


def _stretches(split: Mapping[str, float]) -> Iterator[tuple[str, Share]]:
    low = 0.0
    for n, (name, share) in enumerate(split.items(), 1):
        high = 1.0 if n == len(split) else low + share
        yield name, Share(low, high)
        low = high


def part_path(output: str, part: str, form: str) -> str:
    """Where a part goes: `train.jsonl` -> `train.valid.jsonl` for the part `valid`."""
    folder, name = os.path.split(output)
    return os.path.join(folder, f"{name.removesuffix(f'.{form}')}.{part}.{form}")

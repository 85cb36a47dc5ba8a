"""Several examples in one row, so that rows of one length are nearly full.

Examples are packed within a chunk, and where chunks end depends on the input alone: so the rows do
not depend on how many work on them, nor on where a run was stopped.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from dsv4.dataset.forms import Example

# Chunks of this many rows leave at most one of them half empty.
ROWS_IN_CHUNK = 64
# What a token takes of a file of conversations, at most as a rule.
BYTES_OF_TOKEN = 4
MOST_BYTES = 1 << 24


def chunk_bytes(length: int) -> int:
    """How large the chunks of an input must be for rows of a length."""
    return min(MOST_BYTES, max(1 << 20, ROWS_IN_CHUNK * length * BYTES_OF_TOKEN))


def packed(examples: Sequence[Example], length: int) -> list[Example]:
    """Rows of at most `length` tokens. No example may be longer.

    The longest example goes first, each into the fullest row that has room for it. Rows come in
    the order of their first example, and so do the examples in a row.
    """
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []  # what is left in each row, and which row it is; in order
    for n in sorted(range(len(examples)), key=lambda n: -len(examples[n].ids)):
        needed = len(examples[n].ids)
        at = bisect_left(room, (needed, -1))
        if at == len(room):
            rows.append([n])
            insort(room, (length - needed, len(rows) - 1))
        else:
            left, row = room.pop(at)
            rows[row].append(n)
            insort(room, (left - needed, row))
    return [_row([examples[n] for n in sorted(row)]) for row in sorted(rows, key=min)]


def _row(examples: list[Example]) -> Example:
    ids: list[int] = []
    mask: list[int] = []
    for example in examples:
        ids += example.ids
        # Nothing before it in the row leads to the first token of an example.
        mask += [0, *example.mask[1:]] if example.ids else []
    lengths = tuple(len(example.ids) for example in examples)
    shown = [example.images for example in examples if example.images is not None]
    images = [image for each in shown for image in each] if shown else None
    return Example(ids, mask, labels=examples[0].labels, lengths=lengths, images=images)

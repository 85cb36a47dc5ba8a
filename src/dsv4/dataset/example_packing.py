"""Packing: several examples in one row, so that rows of one length are nearly full."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from dsv4.dataset.output_formats import TrainingExample

# Chunks of this many rows leave at most one of them half empty.
ROWS_PER_CHUNK = 64
# The bytes of a conversation for each token: rarely more.
BYTES_PER_TOKEN = 4
MAX_CHUNK_BYTES = 1 << 24


def chunk_bytes_for_packing(length: int) -> int:
    """The size of an input's chunks, in bytes, for rows of a length."""
    return min(MAX_CHUNK_BYTES, max(1 << 20, ROWS_PER_CHUNK * length * BYTES_PER_TOKEN))


def pack_examples(examples: Sequence[TrainingExample], length: int) -> list[TrainingExample]:
    """Rows of at most `length` tokens. No example may be longer.

    The longest example is placed first, each in the fullest row that has room for it. Rows come in
    the order of their first example, and so do the examples in a row.
    """
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []  # the free tokens of each row, and its number; sorted
    for n in sorted(range(len(examples)), key=lambda n: -len(examples[n].ids)):
        needed = len(examples[n].ids)
        at = bisect_left(room, (needed, -1))
        if at == len(room):
            rows.append([n])
            insort(room, (length - needed, len(rows) - 1))
        else:
            space, row = room.pop(at)
            rows[row].append(n)
            insort(room, (space - needed, row))
    return [_packed_row([examples[n] for n in sorted(row)]) for row in sorted(rows, key=min)]


def _packed_row(examples: list[TrainingExample]) -> TrainingExample:
    ids: list[int] = []
    mask: list[int] = []
    for example in examples:
        ids += example.ids
        # The first token of an example has no context of its own to predict it from.
        mask += [0, *example.mask[1:]] if example.ids else []
    lengths = tuple(len(example.ids) for example in examples)
    image_lists = [example.images for example in examples if example.images is not None]
    images = [image for each in image_lists for image in each] if image_lists else None
    return TrainingExample(ids, mask, layout=examples[0].layout, lengths=lengths, images=images)

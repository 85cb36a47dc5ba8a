"""Several examples in one row."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dsv4.dataset.example_packing import chunk_bytes_for_packing, pack_examples
from dsv4.dataset.output_formats import TrainingExample

LENGTH = 20
lengths = st.lists(st.integers(1, LENGTH), max_size=40)


def examples(sizes: list[int]) -> list[TrainingExample]:
    """Examples whose tokens can be told apart."""
    return [
        TrainingExample([100 * n + token for token in range(size)], [1] * size)
        for n, size in enumerate(sizes)
    ]


def unpacked(rows: list[TrainingExample]) -> list[list[int]]:
    """The examples in rows."""
    found: list[list[int]] = []
    for row in rows:
        start = 0
        for length in row.lengths or ():
            found.append(row.ids[start : start + length])
            start += length
        assert start == len(row.ids) == len(row.mask)
    return found


@given(lengths)
def test_every_example_is_in_one_row_whole(sizes: list[int]) -> None:
    rows = pack_examples(examples(sizes), LENGTH)
    assert all(len(row.ids) <= LENGTH for row in rows)
    assert sorted(unpacked(rows)) == [example.ids for example in examples(sizes)]


@given(lengths)
def test_rows_are_nearly_full(sizes: list[int]) -> None:
    """No two rows would have room in one; so more than half of all there is is taken."""
    filled = sorted(len(row.ids) for row in pack_examples(examples(sizes), LENGTH))
    assert all(a + b > LENGTH for a, b in pairwise(filled))


@given(lengths)
def test_positions_begin_anew_and_borders_are_not_learned(sizes: list[int]) -> None:
    for row in pack_examples(examples(sizes), LENGTH):
        columns = row.columns
        assert columns["sequence_lengths"] == list(row.lengths or ())
        for position, weight in zip(columns["position_ids"], row.mask, strict=True):
            assert weight == (0 if position == 0 else 1)
        starts = [n for n, position in enumerate(columns["position_ids"]) if position == 0]
        assert len(starts) == len(columns["sequence_lengths"])


def test_rows_and_examples_keep_their_order() -> None:
    rows = pack_examples(examples([3, 18, 5, 2, 12]), LENGTH)
    assert [row.lengths for row in rows] == [(3, 5, 12), (18, 2)]


def test_chunks_hold_many_rows() -> None:
    assert chunk_bytes_for_packing(128) == 1 << 20
    assert chunk_bytes_for_packing(32_768) == 64 * 32_768 * 4
    assert chunk_bytes_for_packing(1 << 20) == 1 << 24

"""What Megatron and NumPy map into memory."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from dsv4.dataset import array_formats
from dsv4.dataset.output_formats import DATASET_FORMATS, TrainingExample

ROWS = [
    TrainingExample([5, 6, 7], [0, 1, 1]),
    TrainingExample([128_845, 2], [0, 0]),
    TrainingExample([1, 2, 3, 4, 5], [0, 1, 0, 1, 1], lengths=(2, 3)),
]


def chunks() -> io.BytesIO:
    return io.BytesIO(b"".join(map(DATASET_FORMATS["npy"].to_bytes, (ROWS[:1], [], ROWS[1:]))))


def test_numpy(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    paths = array_formats.write_numpy(chunks(), str(tmp_path / "out.npy"))
    assert paths[-1] == str(tmp_path / "out.npy")
    ids = numpy.load(tmp_path / "out.npy", mmap_mode="r")
    mask = numpy.load(tmp_path / "out.loss_mask.npy", mmap_mode="r")
    rows = numpy.load(tmp_path / "out.rows.npy")
    sequences = numpy.load(tmp_path / "out.sequences.npy")
    assert (ids.dtype, mask.dtype) == (numpy.int32, numpy.uint8)
    for n, row in enumerate(ROWS):
        start, end = rows[n], rows[n + 1]
        assert ids[start:end].tolist() == row.ids
        assert mask[start:end].tolist() == row.mask
    assert rows.tolist() == [0, 3, 5, 10]
    assert sequences.tolist() == [0, 3, 5, 7, 10]


def test_megatron(tmp_path: Path) -> None:
    """The layout, number by number."""
    paths = array_formats.write_megatron(chunks(), str(tmp_path / "out.bin"))
    assert [Path(path).name for path in paths] == [
        *("out.loss_mask.bin", "out.loss_mask.idx", "out.idx", "out.bin")
    ]
    ids = [id for row in ROWS for id in row.ids]
    assert (tmp_path / "out.bin").read_bytes() == struct.pack(f"<{len(ids)}i", *ids)
    mask = bytes(weight for row in ROWS for weight in row.mask)
    assert (tmp_path / "out.loss_mask.bin").read_bytes() == mask
    index = (tmp_path / "out.idx").read_bytes()
    assert index == b"".join(
        (
            b"MMIDIDX\x00\x00",
            struct.pack("<QB", 1, 4),
            struct.pack("<QQ", 4, 4),
            struct.pack("<4i", 3, 2, 2, 3),
            struct.pack("<4q", 0, 12, 20, 28),
            struct.pack("<4q", 0, 1, 2, 4),
        )
    )


def test_megatron_reads_it(tmp_path: Path) -> None:
    module = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    array_formats.write_megatron(chunks(), str(tmp_path / "out.bin"))
    data = module.IndexedDataset(str(tmp_path / "out"))
    assert [data[n].tolist() for n in range(len(data))] == [
        [5, 6, 7],
        [128_845, 2],
        [1, 2],
        [3, 4, 5],
    ]
    assert data.document_indices.tolist() == [0, 1, 2, 4]
    mask = module.IndexedDataset(str(tmp_path / "out.loss_mask"))
    assert mask[3].tolist() == [0, 1, 1]


@pytest.mark.parametrize("write", [array_formats.write_megatron, array_formats.write_numpy])
def test_nothing_at_all(write: object, tmp_path: Path) -> None:
    assert callable(write)
    for path in write(io.BytesIO(), str(tmp_path / "out.bin")):
        assert Path(path).exists()

"""Output as plain arrays of numbers, which trainers map into memory: Megatron (`.bin`) and NumPy
(`.npy`).

`.bin`: `OUT.bin` has all ids one after the other, `OUT.idx` says where each sequence begins; the
mask is in `OUT.loss_mask.bin` and `.idx`. A row is a document, an example a sequence.

`.npy`: `OUT.npy` has all ids, `OUT.loss_mask.npy` the mask, `OUT.rows.npy` where each row begins
and the last one ends, and `OUT.sequences.npy` the same for the examples in them.

Until the run is complete, a chunk is stored as: the number of rows; for each row the number of
sequences and their lengths; then all ids, then the whole mask.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import BinaryIO, NamedTuple

# Type codes of `array` for 1, 4 and 8 bytes.
_BYTE, _INT, _LONG = "B", "i", "q"
_BLOCK = 1 << 20

_MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
_MEGATRON_VERSION = 1
# Megatron's codes for types of numbers.
_MEGATRON_TYPES = {_BYTE: 1, _INT: 4}
_NUMPY_TYPES = {_BYTE: "|u1", _INT: "<i4", _LONG: "<i8"}


class ArrayRow(NamedTuple):
    """The part of a row that is written; `lengths` are those of the examples in it."""

    ids: list[int]
    mask: list[int]
    lengths: Sequence[int]


def rows_to_bytes(rows: Sequence[ArrayRow]) -> bytes:
    """A chunk of rows as bytes."""
    if not rows:
        return b""
    heads, ids, mask = array(_LONG, [len(rows)]), array(_INT), array(_BYTE)
    for row in rows:
        heads.append(len(row.lengths))
        heads.extend(row.lengths)
        ids.extend(row.ids)
        mask.extend(row.mask)
    return b"".join(map(_little, (heads, ids, mask)))


class _GatheredArrays(NamedTuple):
    """The lengths of everything that a run wrote; ids and mask themselves are in two files."""

    sequences: array[int]  # the lengths of examples
    documents: array[int]  # how many examples each row has
    ids: str
    mask: str


def _gather(chunks: BinaryIO, ids_path: str, mask_path: str) -> _GatheredArrays:
    """Appends the ids and masks of all chunks to two files, which may have a header."""
    whole = _GatheredArrays(array(_INT), array(_LONG), ids_path, mask_path)
    with open(ids_path, "ab") as ids, open(mask_path, "ab") as mask:
        while head := chunks.read(8):
            tokens = 0
            for _ in range(*struct.unpack("<q", head)):
                (count,) = struct.unpack("<q", chunks.read(8))
                lengths = struct.unpack(f"<{count}q", chunks.read(8 * count))
                whole.sequences.extend(lengths)
                whole.documents.append(count)
                tokens += sum(lengths)
            _copy(chunks, ids, 4 * tokens)
            _copy(chunks, mask, tokens)
    return whole


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    while size:
        block = source.read(min(size, _BLOCK))
        target.write(block)
        size -= len(block)


# Megatron.


def write_megatron(chunks: BinaryIO, path: str) -> list[str]:
    """`path` and its companions: .bin and .idx, of the ids and of the mask."""
    stem = path.removesuffix(".bin")
    paths = [f"{stem}.loss_mask.bin", f"{stem}.loss_mask.idx", f"{stem}.idx", path]
    _truncate_files(paths)
    whole = _gather(chunks, path, paths[0])
    for index, code in ((paths[1], _BYTE), (paths[2], _INT)):
        _write_index(index, whole, code)
    return paths


def _write_index(path: str, whole: _GatheredArrays, code: str) -> None:
    size = array(code).itemsize
    with open(path, "wb") as file:
        file.write(_MEGATRON_MAGIC)
        file.write(struct.pack("<QB", _MEGATRON_VERSION, _MEGATRON_TYPES[code]))
        file.write(struct.pack("<QQ", len(whole.sequences), len(whole.documents) + 1))
        file.write(_little(whole.sequences))
        starts = _starts(whole.sequences)[:-1]
        file.write(_little(array(_LONG, (start * size for start in starts))))
        file.write(_little(_starts(whole.documents)))


# NumPy.


def write_numpy(chunks: BinaryIO, path: str) -> list[str]:
    """`path` and its companions: the ids, the mask, and where rows and examples begin."""
    stem = path.removesuffix(".npy")
    mask, rows, sequences = (f"{stem}.{n}.npy" for n in ("loss_mask", "rows", "sequences"))
    paths = [mask, rows, sequences, path]
    _truncate_files(paths)
    for array_path, code in ((path, _INT), (mask, _BYTE)):
        _write_npy_header(array_path, code, 0)  # the length is filled in below
    whole = _gather(chunks, path, mask)
    tokens = sum(whole.sequences)
    for array_path, code in ((path, _INT), (mask, _BYTE)):
        _write_npy_header(array_path, code, tokens)
    starts = _starts(whole.sequences)
    _write_npy(sequences, starts)
    _write_npy(rows, array(_LONG, (starts[first] for first in _starts(whole.documents))))
    return paths


# Headers of .npy files have a fixed size here, so that they can be overwritten.
_NPY_HEADER_SIZE = 128


def _write_npy_header(path: str, code: str, length: int) -> None:
    shape = f"{{'descr': '{_NUMPY_TYPES[code]}', 'fortran_order': False, 'shape': ({length},), }}"
    text = shape.ljust(_NPY_HEADER_SIZE - 11) + "\n"
    with open(path, "r+b") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin-1"))


def _write_npy(path: str, numbers: array[int]) -> None:
    _write_npy_header(path, numbers.typecode, len(numbers))
    with open(path, "ab") as file:
        file.write(_little(numbers))


def _truncate_files(paths: Iterable[str]) -> None:
    for path in paths:
        with open(path, "wb"):
            pass


def _starts(lengths: Sequence[int]) -> array[int]:
    """Where each begins, and where the last one ends."""
    return array(_LONG, accumulate(lengths, initial=0))


def _swapped(numbers: array[int]) -> bytes:
    numbers = array(numbers.typecode, numbers)
    numbers.byteswap()
    return numbers.tobytes()


_little: Callable[[array[int]], bytes] = array.tobytes if sys.byteorder == "little" else _swapped

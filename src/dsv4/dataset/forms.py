"""The forms of output. In each, chunks stand one after the other, so that output can be cut behind
any of them and go on from there. Parquet files cannot be: theirs is made when all is done."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from json import JSONEncoder
from typing import Any, BinaryIO, NamedTuple

from dsv4.dataset import arrays
from dsv4.dataset.extras import pyarrow, pyarrow_parquet, zstandard
from dsv4.dataset.failures import DatasetError
from dsv4.errors import shown

# A row group is written when it has so many tokens: large enough to be read fast, small enough to
# be held in memory.
ROW_GROUP_TOKENS = 1 << 22


class Example(NamedTuple):
    """One row of output. `lengths` are those of the examples in it, where it may hold several."""

    ids: list[int]
    mask: list[int]
    lengths: tuple[int, ...] | None = None

    @property
    def columns(self) -> dict[str, list[int]]:
        """What there is to say of a row, by name."""
        columns = {"input_ids": self.ids, "loss_mask": self.mask}
        if self.lengths is not None:
            columns["position_ids"] = [n for length in self.lengths for n in range(length)]
            columns["sequence_lengths"] = list(self.lengths)
        return columns


class Form(NamedTuple):
    """How a chunk of examples becomes bytes, and what makes the output of all of them.

    What is finished takes names that begin with the output's, and returns them all; the last is
    the output itself.
    """

    packed: Callable[[Sequence[Example]], bytes]
    needs: Callable[[], Any]
    finished: Callable[[BinaryIO, str], list[str]] | None = None


def form_of(path: str) -> str:
    """The form that an output's name asks for."""
    for form in FORMS:
        if path.endswith(f".{form}"):
            return form
    expected = ", ".join(f".{form}" for form in FORMS)
    raise DatasetError(f"output: found {path}, expected a name that ends in one of {expected}")


def form_named(name: str) -> str:
    """The form of a name: its ending, or what its readers are called."""
    form = _READERS.get(name, name) if isinstance(name, str) else name
    if form not in FORMS:
        endings = [form for form in FORMS if form not in _READERS.values()]
        expected = ", ".join([*endings, *_READERS])
        raise DatasetError(f"format: found {shown(name)}, expected one of {expected}")
    return form


_READERS = {"megatron": "bin", "numpy": "npy"}


def output_named(path: str, name: str) -> str:
    """An output's path, with the ending of its form."""
    ending = f".{form_named(name)}"
    return path if path == "-" or path.endswith(ending) else path + ending


_json = JSONEncoder(separators=(",", ":")).encode


def json_lines(examples: Sequence[Example]) -> bytes:
    return "".join(f"{_json(example.columns)}\n" for example in examples).encode()


def _gzipped(examples: Sequence[Example]) -> bytes:
    # The time is left out: the same input gives the same file.
    return gzip.compress(json_lines(examples), 6, mtime=0) if examples else b""


def _zstd(examples: Sequence[Example]) -> bytes:
    return bytes(zstandard().compress(json_lines(examples))) if examples else b""


def _arrow_stream(examples: Sequence[Example]) -> bytes:
    if not examples:
        return b""
    arrow = pyarrow()
    names = list(examples[0].columns)
    rows = [example.columns for example in examples]
    schema = arrow.schema([(name, arrow.list_(_type_of(name))) for name in names])
    batch = arrow.record_batch(
        [arrow.array([row[name] for row in rows], schema.field(name).type) for name in names],
        schema,
    )
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _type_of(column: str) -> Any:
    arrow = pyarrow()
    return arrow.int8() if column == "loss_mask" else arrow.int32()


def _parquet_file(packed: BinaryIO, path: str) -> list[str]:
    """Arrow streams, one for each chunk, as one Parquet file."""
    arrow, writer = pyarrow(), None
    try:
        for group in _row_groups(packed):
            writer = writer or pyarrow_parquet().ParquetWriter(
                path, group.schema, compression="zstd"
            )
            writer.write_table(group, row_group_size=group.num_rows)
        if writer is None:
            names = Example([], []).columns
            schema = arrow.schema([(name, arrow.list_(_type_of(name))) for name in names])
            writer = pyarrow_parquet().ParquetWriter(path, schema, compression="zstd")
    finally:
        if writer is not None:
            writer.close()
    return [path]


def _row_groups(packed: BinaryIO) -> Iterator[Any]:
    arrow = pyarrow()
    batches: list[Any] = []
    tokens = 0
    while packed.peek(1):  # type: ignore[attr-defined]
        for batch in arrow.ipc.open_stream(packed):
            batches.append(batch)
            tokens += len(batch.column(0).flatten())
        if tokens >= ROW_GROUP_TOKENS:
            yield arrow.Table.from_batches(batches)
            batches, tokens = [], 0
    if batches:
        yield arrow.Table.from_batches(batches)


def _nothing() -> None:
    pass


# By the ending of the output's name.
FORMS = {
    "jsonl": Form(json_lines, _nothing),
    "jsonl.gz": Form(_gzipped, _nothing),
    "jsonl.zst": Form(_zstd, zstandard),
    "parquet": Form(_arrow_stream, pyarrow_parquet, _parquet_file),
    "bin": Form(arrays.packed, _nothing, arrays.megatron),
    "npy": Form(arrays.packed, _nothing, arrays.numpy),
}

"""The forms of output. In each, chunks stand one after the other, so that output can be cut behind
any of them and go on from there. Parquet files cannot be: theirs is made when all is done."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from json import JSONEncoder
from typing import Any, BinaryIO, NamedTuple

from dsv4.dataset.extras import pyarrow, pyarrow_parquet, zstandard
from dsv4.dataset.failures import DatasetError

# A row group is written when it has so many tokens: large enough to be read fast, small enough to
# be held in memory.
ROW_GROUP_TOKENS = 1 << 22


class Example(NamedTuple):
    """One row of output."""

    ids: list[int]
    mask: list[int]


class Form(NamedTuple):
    """How a chunk of examples is packed into bytes, and what makes the output of all of them."""

    packed: Callable[[Sequence[Example]], bytes]
    needs: Callable[[], Any]
    finished: Callable[[BinaryIO, str], None] | None = None


def form_of(path: str) -> str:
    """The form that an output's name asks for."""
    for form in FORMS:
        if path.endswith(f".{form}"):
            return form
    expected = ", ".join(f".{form}" for form in FORMS)
    raise DatasetError(f"output: found {path}, expected a name that ends in one of {expected}")


_json = JSONEncoder(separators=(",", ":")).encode


def json_lines(examples: Sequence[Example]) -> bytes:
    rows = ({"input_ids": example.ids, "loss_mask": example.mask} for example in examples)
    return "".join(f"{_json(row)}\n" for row in rows).encode()


def _gzipped(examples: Sequence[Example]) -> bytes:
    # The time is left out: the same input gives the same file.
    return gzip.compress(json_lines(examples), 6, mtime=0) if examples else b""


def _zstd(examples: Sequence[Example]) -> bytes:
    return bytes(zstandard().compress(json_lines(examples))) if examples else b""


def _arrow_stream(examples: Sequence[Example]) -> bytes:
    if not examples:
        return b""
    arrow = pyarrow()
    schema = _schema()
    columns = [[example.ids for example in examples], [example.mask for example in examples]]
    batch = arrow.record_batch(
        [arrow.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema
    )
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _schema() -> Any:
    arrow = pyarrow()
    return arrow.schema(
        [("input_ids", arrow.list_(arrow.int32())), ("loss_mask", arrow.list_(arrow.int8()))]
    )


def _parquet_file(packed: BinaryIO, path: str) -> None:
    """Arrow streams, one for each chunk, as one Parquet file."""
    with pyarrow_parquet().ParquetWriter(path, _schema(), compression="zstd") as writer:
        for group in _row_groups(packed):
            writer.write_table(group, row_group_size=group.num_rows)


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


FORMS = {
    "jsonl": Form(json_lines, _nothing),
    "jsonl.gz": Form(_gzipped, _nothing),
    "jsonl.zst": Form(_zstd, zstandard),
    "parquet": Form(_arrow_stream, pyarrow_parquet, _parquet_file),
}

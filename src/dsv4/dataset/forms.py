"""The forms of output. In each, chunks stand one after the other, so that output can be cut behind
any of them and go on from there. Parquet files cannot be: theirs is made when all is done."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from json import JSONEncoder
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from dsv4.dataset.extras import pyarrow, pyarrow_parquet, zstandard
from dsv4.dataset.failures import DatasetError
from dsv4.dataset.learning import labels

# Where a row came from, beside what was carried along.
FILE, LINE = "file", "line"
NOTHING: Mapping[str, Any] = MappingProxyType({})

# A row group is written when it has so many tokens: large enough to be read fast, small enough to
# be held in memory.
ROW_GROUP_TOKENS = 1 << 22


class Example(NamedTuple):
    """One row of output. `carried` are columns of the input, by name."""

    ids: list[int]
    mask: list[int]
    carried: Mapping[str, Any] = NOTHING
    labels: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """The row, by the names of its columns."""
        second = (
            ("labels", labels(self.ids, self.mask)) if self.labels else ("loss_mask", self.mask)
        )
        return {"input_ids": self.ids, **dict([second]), **self.carried}


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
    rows = [example.columns for example in examples]
    schema = arrow.schema([(name, _type_of(name)) for name in rows[0]])
    columns = [[_cell(row[name], name) for row in rows] for name in rows[0]]
    batch = arrow.record_batch(
        [arrow.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema
    )
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _type_of(column: str) -> Any:
    """What is carried along is text, whatever it was: a column has one type for all rows."""
    arrow = pyarrow()
    lists = {"input_ids": arrow.int32(), "labels": arrow.int32(), "loss_mask": arrow.int8()}
    if column in lists:
        return arrow.list_(lists[column])
    return arrow.int64() if column == LINE else arrow.string()


def _cell(value: Any, column: str) -> Any:
    if column in ("input_ids", "labels", "loss_mask", LINE) or isinstance(value, (str, type(None))):
        return value
    return _json(value)


def _parquet_file(packed: BinaryIO, path: str) -> None:
    """Arrow streams, one for each chunk, as one Parquet file."""
    groups = _row_groups(packed)
    first = next(groups, None)
    empty = pyarrow().schema([(name, _type_of(name)) for name in Example([], []).columns])
    schema = empty if first is None else first.schema
    with pyarrow_parquet().ParquetWriter(path, schema, compression="zstd") as writer:
        for group in () if first is None else chain([first], groups):
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

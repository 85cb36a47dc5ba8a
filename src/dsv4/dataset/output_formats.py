"""The output formats: a training example, the columns that each trainer reads, and how examples
become bytes.

In each format chunks follow each other, so that output can be truncated after any of them and
continued there. A Parquet file cannot be appended to: it is written when the run is complete.

A column under a name that a trainer does not read is dropped silently, and then every token is
trained on: so each trainer gets exactly its own columns. docs/training.md has its settings.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from json import JSONEncoder
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from dsv4.dataset.dataset_errors import DatasetError, pyarrow, pyarrow_parquet, zstandard
from dsv4.errors import short_repr


class ColumnLayout(NamedTuple):
    """The names of a row's columns. A column with the name None is not written.

    `positions` and `lengths` are those of rows that may hold several examples; `images` are written
    if the dialect has any. `is_shifted` says that the label at a position is the next token,
    because the trainer does not shift labels itself.
    """

    ids: str = "input_ids"
    attention: str | None = None
    mask: str | None = "loss_mask"
    labels: str | None = None
    positions: str | None = "position_ids"
    lengths: str | None = "sequence_lengths"
    images: str | None = "images"
    is_shifted: bool = False


MASK_LAYOUT = ColumnLayout()


class Trainer(NamedTuple):
    """The rows that a trainer reads, with their layout.

    `packing` says how it packs examples itself, if it does not take packed rows. `texts` are its
    columns if it computes ids itself from texts and images.
    """

    layout: ColumnLayout
    packing: str | None = None
    texts: tuple[str, ...] = ()


_ONE_EXAMPLE_LAYOUT = ColumnLayout(
    mask=None, labels="labels", positions=None, lengths=None, images=None
)

TRAINERS = {
    "trl": Trainer(_ONE_EXAMPLE_LAYOUT._replace(lengths="seq_lengths")),
    "axolotl": Trainer(
        _ONE_EXAMPLE_LAYOUT._replace(attention="attention_mask"), packing="sample_packing: true"
    ),
    "verl": Trainer(
        _ONE_EXAMPLE_LAYOUT._replace(mask="loss_mask", labels=None),
        packing="data.pad_mode=no_padding",
    ),
    "torchtune": Trainer(_ONE_EXAMPLE_LAYOUT._replace(ids="tokens"), packing="PackedDataset"),
    "llama-factory": Trainer(
        _ONE_EXAMPLE_LAYOUT._replace(attention="attention_mask"),
        packing="packing: true, of what it tokenizes itself",
    ),
    "nemo": Trainer(
        _ONE_EXAMPLE_LAYOUT._replace(attention="attention_mask", is_shifted=True),
        packing="packed_sequence",
    ),
    "trl-vision": Trainer(_ONE_EXAMPLE_LAYOUT, texts=("prompt", "completion", "images")),
    "ms-swift": Trainer(_ONE_EXAMPLE_LAYOUT, texts=("messages", "images", "tools")),
}

_LAYOUTS = (MASK_LAYOUT, *(trainer.layout for trainer in TRAINERS.values()))


def _column_names(*fields: str) -> frozenset[str]:
    return frozenset(
        name for layout in _LAYOUTS for field in fields if (name := getattr(layout, field))
    )


# Columns of flags, and all that hold a list of numbers for each row.
FLAG_COLUMNS = _column_names("mask", "attention") | {
    *("chosen_mask", "rejected_mask", "completion_mask")
}
NUMBER_COLUMNS = (
    FLAG_COLUMNS
    | _column_names("ids", "labels", "positions", "lengths")
    | {"prompt_ids", "chosen_ids", "rejected_ids", "completion_ids"}
)


def trainer_named(name: str) -> Trainer:
    """The trainer with a name."""
    if not isinstance(name, str) or name not in TRAINERS:
        expected = ", ".join(TRAINERS)
        raise DatasetError(f"trainer: found {short_repr(name)}, expected one of {expected}")
    return TRAINERS[name]


def layout_for(name: str | None) -> ColumnLayout:
    """The columns for a trainer, or those for no particular trainer."""
    return MASK_LAYOUT if name is None else trainer_named(name).layout


# The columns with the origin of a row, besides those copied from the input.
FILE, LINE = "file", "line"
NO_COLUMNS: Mapping[str, Any] = MappingProxyType({})

# A row group is written when it has this many tokens: large enough to be read fast, small enough to
# be held in memory.
ROW_GROUP_TOKENS = 1 << 22


class TrainingExample(NamedTuple):
    """One row of output.

    `carried` are columns of the input, by name; `layout` are the names of the row's own columns.
    `lengths` are those of the examples in the row, if it may hold several. `images` are the records
    of its images, in order; None if the dialect has none.
    """

    ids: list[int]
    mask: list[int]
    carried: Mapping[str, Any] = NO_COLUMNS
    layout: ColumnLayout = MASK_LAYOUT
    lengths: tuple[int, ...] | None = None
    images: list[Any] | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """The row, by the names of its columns."""
        names, packed = self.layout, self.lengths is not None
        end = len(self.ids) - names.is_shifted
        columns: dict[str, Any] = {names.ids: self.ids[:end]}
        if names.attention:
            columns[names.attention] = [1] * end
        if names.mask:
            columns[names.mask] = self.mask
        if names.labels:
            labels = training_labels(self.ids, self.mask)
            columns[names.labels] = labels[1:] if names.is_shifted else labels
        columns |= self.carried
        if names.positions and packed:
            columns[names.positions] = [n for length in self.lengths or () for n in range(length)]
        if names.lengths and packed:
            columns[names.lengths] = list(self.lengths or ())
        if names.images and self.images is not None:
            columns[names.images] = self.images
        return columns


class AnswerExample(NamedTuple):
    """One row of answers to one prompt: two, one of them better; or one with a label.

    `answers` are ids and mask of each, by name; `carried` has the label too. `texts` are prompt and
    answers as text, and images, for a trainer that computes ids itself.
    """

    prompt: list[int]
    answers: Mapping[str, tuple[list[int], list[int]]]
    carried: Mapping[str, Any] = NO_COLUMNS
    texts: Mapping[str, Any] | None = None

    @property
    def ids(self) -> list[int]:
        """The ids of the prompt and of all answers."""
        return self.prompt + [id for ids, _ in self.answers.values() for id in ids]

    @property
    def mask(self) -> list[int]:
        return [0] * len(self.prompt) + [m for _, mask in self.answers.values() for m in mask]

    @property
    def columns(self) -> dict[str, Any]:
        if self.texts is not None:
            return {**self.texts, **self.carried}
        columns: dict[str, Any] = {"prompt_ids": self.prompt}
        for name, (ids, mask) in self.answers.items():
            columns |= {f"{name}_ids": ids, f"{name}_mask": mask}
        return {**columns, **self.carried}


# The columns that TRL's DPOTrainer and KTOTrainer read. They compute ids themselves: columns of ids
# are replaced.
ANSWER_COLUMNS = ("prompt", "chosen", "rejected", "completion", "label")


OutputRow: TypeAlias = TrainingExample | AnswerExample


class DatasetFormat(NamedTuple):
    """A way to write examples.

    `to_bytes` encodes a chunk of examples. `check_packages` raises if a package is missing.
    `finish` turns all chunks into the output file; None if the chunks are the output.
    """

    to_bytes: Callable[[Sequence[OutputRow]], bytes]
    check_packages: Callable[[], object]
    finish: Callable[[BinaryIO, str], None] | None = None


def format_by_ending(path: str) -> str | None:
    """The format that the ending of a path names, if any."""
    return next((name for name in DATASET_FORMATS if path.endswith(f".{name}")), None)


def format_of_path(path: str) -> str:
    """The format that the name of an output asks for."""
    format = format_by_ending(path)
    if format is not None:
        return format
    expected = ", ".join(f".{name}" for name in DATASET_FORMATS)
    raise DatasetError(f"output: found {path}, expected a name that ends in one of {expected}")


def path_with_ending(path: str, name: str) -> str:
    """An output's path, with the ending of the format with this name."""
    if not isinstance(name, str) or name not in DATASET_FORMATS:
        expected = ", ".join(DATASET_FORMATS)
        raise DatasetError(f"format: found {short_repr(name)}, expected one of {expected}")
    return path if path == "-" or path.endswith(f".{name}") else f"{path}.{name}"


_json = JSONEncoder(separators=(",", ":")).encode


class _NumberTexts(dict[int, str]):
    """Numbers as text. Each is converted once: there are no more than ids and positions."""

    def __missing__(self, number: int) -> str:
        text = self[number] = f"{number:d}"
        return text


_text_of_number = _NumberTexts().__getitem__


def _json_of_column(name: str, value: Any) -> str:
    if name in NUMBER_COLUMNS:  # in half the time that an encoder of any value takes
        return f"[{','.join(map(_text_of_number, value))}]"
    return _json(value)


def _json_line(columns: Mapping[str, Any]) -> str:
    fields = [f"{_json(name)}:{_json_of_column(name, value)}" for name, value in columns.items()]
    return f"{{{','.join(fields)}}}\n"


def json_lines(examples: Sequence[OutputRow]) -> bytes:
    return "".join(_json_line(example.columns) for example in examples).encode()


def _gzip_lines(examples: Sequence[OutputRow]) -> bytes:
    # Without the time, so that the same input gives the same file.
    return gzip.compress(json_lines(examples), 6, mtime=0) if examples else b""


def _zstd_lines(examples: Sequence[OutputRow]) -> bytes:
    return bytes(zstandard().compress(json_lines(examples))) if examples else b""


def _arrow_stream(examples: Sequence[OutputRow]) -> bytes:
    if not examples:
        return b""
    arrow = pyarrow()
    rows = [example.columns for example in examples]
    labelled = "label" if isinstance(examples[0], AnswerExample) else None
    types = {name: arrow.bool_() if name == labelled else _type_of(name) for name in rows[0]}
    schema = arrow.schema(list(types.items()))
    columns = [
        [row[name] if name == labelled else _cell(row[name], name) for row in rows]
        for name in rows[0]
    ]
    batch = arrow.record_batch(
        [arrow.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema
    )
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _type_of(column: str) -> Any:
    """The Arrow type of a column. Copied columns become text: a column has one type in all rows."""
    arrow = pyarrow()
    if column in NUMBER_COLUMNS:
        return arrow.list_(arrow.int8() if column in FLAG_COLUMNS else arrow.int32())
    return arrow.int64() if column == LINE else arrow.string()


# All columns that a row may have, except those copied from the input.
OWN_COLUMNS = (*NUMBER_COLUMNS, "images", FILE, LINE)


def _cell(value: object, column: str) -> Any:
    if column in NUMBER_COLUMNS or column == LINE or isinstance(value, (str, type(None))):
        return value
    return _json(value)


def _parquet_file(packed: BinaryIO, path: str) -> None:
    """Writes Arrow streams, one for each chunk, as one Parquet file."""
    groups = _row_groups(packed)
    first = next(groups, None)
    empty = pyarrow().schema([(name, _type_of(name)) for name in TrainingExample([], []).columns])
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
            tokens += batch.column(0).nbytes // _BYTES_OF_ID
        if tokens >= ROW_GROUP_TOKENS:
            yield arrow.Table.from_batches(batches)
            batches, tokens = [], 0
    if batches:
        yield arrow.Table.from_batches(batches)


_BYTES_OF_ID = 4


def _needs_nothing() -> None:
    pass


# Formats by the ending of the output's name.
DATASET_FORMATS = {
    "jsonl": DatasetFormat(json_lines, _needs_nothing),
    "jsonl.gz": DatasetFormat(_gzip_lines, _needs_nothing),
    "jsonl.zst": DatasetFormat(_zstd_lines, zstandard),
    "parquet": DatasetFormat(_arrow_stream, pyarrow_parquet, _parquet_file),
}


def training_labels(ids: Sequence[int], mask: Sequence[int]) -> list[int]:
    """The ids that are trained on, and -100 for all others."""
    return [id if trained else IGNORED_LABEL for id, trained in zip(ids, mask, strict=True)]


# The label that PyTorch's cross entropy ignores.
IGNORED_LABEL = -100

"""The columns that each trainer reads. docs/training.md says what each must be told.

A column under another name is dropped without a word, and then every token is trained on:
so each trainer gets exactly its own.
"""

from __future__ import annotations

from typing import NamedTuple

from dsv4.dataset.dataset_errors import DatasetError
from dsv4.errors import short_repr


class ColumnLayout(NamedTuple):
    """The names of a row's columns. What is None is not written.

    `positions` and `lengths` are those of rows that may hold several examples; `images` are written
    where the dialect has any.
    """

    ids: str = "input_ids"
    attention: str | None = None
    mask: str | None = "loss_mask"
    labels: str | None = None
    positions: str | None = "position_ids"
    lengths: str | None = "sequence_lengths"
    images: str | None = "images"


MASK_LAYOUT = ColumnLayout()
LABELS_LAYOUT = ColumnLayout(mask=None, labels="labels")


class Trainer(NamedTuple):
    """What a trainer reads: rows of a layout, and for some a file format of their own.

    `packing` says how it packs examples itself, where it does not take rows that are packed.
    """

    layout: ColumnLayout
    format_name: str | None = None
    packing: str | None = None


_ONE_EXAMPLE_LAYOUT = LABELS_LAYOUT._replace(positions=None, lengths=None, images=None)

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
    "megatron": Trainer(MASK_LAYOUT._replace(images=None), format_name="megatron"),
}

_LAYOUTS = (MASK_LAYOUT, LABELS_LAYOUT, *(trainer.layout for trainer in TRAINERS.values()))


def _column_names(*fields: str) -> frozenset[str]:
    return frozenset(
        name for layout in _LAYOUTS for field in fields if (name := getattr(layout, field))
    )


# Columns of flags, and all that hold a list of numbers for each row.
FLAG_COLUMNS = _column_names("mask", "attention")
NUMBER_COLUMNS = FLAG_COLUMNS | _column_names("ids", "labels", "positions", "lengths")


def trainer_named(name: str) -> Trainer:
    """The trainer of a name."""
    if not isinstance(name, str) or name not in TRAINERS:
        expected = ", ".join(TRAINERS)
        raise DatasetError(f"trainer: found {short_repr(name)}, expected one of {expected}")
    return TRAINERS[name]


def layout_for(name: str | None, labels: bool) -> ColumnLayout:
    """The columns for a trainer, or for none in particular."""
    if name is not None:
        return trainer_named(name).layout
    return LABELS_LAYOUT if labels else MASK_LAYOUT


def format_for(name: str | None, format: str | None) -> str | None:
    """The format that was asked for, or that a trainer needs."""
    needed = None if name is None else trainer_named(name).format_name
    if needed is not None and format not in (None, needed):
        raise DatasetError(f"format: found {short_repr(format)}, expected {needed} for {name}")
    return needed or format

"""Which part of a dataset a conversation is for."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4.dataset import DatasetError
from dsv4.dataset.dataset_plan import split_output_path, split_shares
from dsv4.dataset.example_encoder import WHOLE_DATASET

LINES = [f"conversation {n}\n".encode() for n in range(2000)]


def test_every_line_is_in_one_part() -> None:
    parts = split_shares({"train": 0.8, "valid": 0.15, "test": 0.05})
    taken = {name: {line for line in LINES if parts[name].includes(line)} for name in parts}
    assert sum(map(len, taken.values())) == len(LINES) == len(set().union(*taken.values()))
    assert 0.77 < len(taken["train"]) / len(LINES) < 0.83
    assert 0.03 < len(taken["test"]) / len(LINES) < 0.07


def test_the_line_alone_decides() -> None:
    """Not its end, not its place; so a part stays what it is when others are added."""
    part = split_shares({"train": 0.5, "valid": 0.5})["train"]
    assert [part.includes(line) for line in LINES] == [
        part.includes(line.strip()) for line in LINES
    ]
    assert all(WHOLE_DATASET.includes(line) for line in LINES)


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        ({"a": 0.5}, "found 0.5, expected shares that add up to 1"),
        ({"a": 0.5, "b": 0.6}, "expected shares that add up to 1"),
        ({"a": 0, "b": 1}, "found 0 for a, expected a share up to 1"),
        ({"a/b": 1.0}, "found the name 'a/b', expected letters and digits"),
        ({"a": True}, "found True for a"),
    ],
)
def test_what_is_no_split(split: Any, problem: str) -> None:
    with pytest.raises(DatasetError, match="split: "):
        split_shares(split)
    with pytest.raises(DatasetError) as caught:
        split_shares(split)
    assert problem in str(caught.value)


def test_where_a_part_goes() -> None:
    assert split_output_path("a/out.jsonl.gz", "valid", "jsonl.gz") == "a/out.valid.jsonl.gz"
    assert split_output_path("out.parquet", "train", "parquet") == "out.train.parquet"

"""The cells and tokens of an image, by its size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import vectors
from rows import each_row

sides = st.integers(1, 40_000)


@each_row("row", [pytest.param(row, id=str(row)) for row in vectors("image-tokens.jsonl")])
def test_what_engines_compute(row: dict[str, Any]) -> None:
    start = row.get("start", 0)
    grid = dsv4.image_grid(row["width"], row["height"], dialect=row["dialect"], start=start)
    expected = (row["rows"], row["columns"], row["tokens"], tuple(row["pixels"]))
    assert (grid.rows, grid.columns, grid.tokens, grid.pixels) == expected


@given(width=sides, height=sides)
def test_v4_1_stays_in_its_budget(width: int, height: int) -> None:
    grid = dsv4.image_grid(width, height)
    assert grid.tokens == grid.rows * (grid.columns + 1) + 2 <= 1024
    assert grid.rows >= 1 <= grid.columns


@given(width=sides, height=sides, start=st.integers(0, 100))
def test_the_vision_preview_fills_up_to_four(width: int, height: int, start: int) -> None:
    grid = dsv4.image_grid(width, height, dialect="v4-vision", start=start)
    assert (start + grid.tokens) % 4 == 1
    assert grid.tokens <= 384 + 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((0, 1), "width: found 0, expected a whole number from 1 on"),
        ((1, -1), "height: found -1"),
        ((1.5, 1), r"width: found 1\.5"),
        ((True, 1), "width: found True"),
        (("1", 1), "width: found '1'"),
        ((10**400, 1), "width: found "),
    ],
)
def test_sizes_that_no_image_has(arguments: Any, problem: str) -> None:
    with pytest.raises(dsv4.OptionError, match=problem):
        dsv4.image_grid(*arguments)


def test_other_options() -> None:
    with pytest.raises(dsv4.OptionError, match="start: found -1, expected a whole number from 0"):
        dsv4.image_grid(1, 1, start=-1)
    problem = r"dialect: found v4, which has no images, expected v4-vision or v4\.1"
    with pytest.raises(dsv4.OptionError, match=problem):
        dsv4.image_grid(1, 1, dialect="v4")

"""The number of tokens of an image, by its size (docs/images.md).

Engines scale an image until its cells fit a budget, and write each row of cells with a token for
its end. All arithmetic is in doubles, in the order of the engines: exact fractions would give other
sizes for a few images.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

from dsv4._format.dialects import DIALECTS, Dialect, ImageRule, dialect_named
from dsv4._images.image_size import LONGEST_SIDE
from dsv4.errors import OptionError, short_repr
from dsv4.types import DialectName

# Pixels of a patch, patches of a cell's side, and pixels of a cell's side.
PATCH, PATCHES = 14, 3
CELL = PATCH * PATCHES


@dataclass(frozen=True)
class ImageGrid:
    """The cells of an image.

    `rows` and `columns` are those of the cells, `tokens` is the number of tokens in a prompt, and
    `pixels` the width and height that engines scale it to. `width` and `height` are those of the
    image itself, and `start` is the number of tokens before it.
    """

    width: int
    height: int
    pixels: tuple[int, int]
    rows: int
    columns: int
    tokens: int
    start: int = 0


def image_grid(
    width: int, height: int, *, dialect: DialectName | Dialect = "v4.1", start: int = 0
) -> ImageGrid:
    """The cells and tokens of an image of `width` × `height` pixels, as it is shown.

    `start` is the number of tokens before it: BOS counts, and every earlier image with all of its
    tokens. It matters in "v4-vision" only. Raises an `OptionError` for an impossible size, and for
    a `dialect` without images.
    """
    for name, value, least in (("width", width, 1), ("height", height, 1), ("start", start, 0)):
        if value.__class__ is not int or not least <= value <= LONGEST_SIDE:
            problem = f"found {short_repr(value)}"
            raise OptionError(name, f"{problem}, expected a whole number from {least} on")
    release = dialect_named(dialect)
    if release.image_rule is None:
        having = " or ".join(d.name for d in DIALECTS.values() if d.image_rule is not None)
        raise OptionError("dialect", f"found {release}, which has no images, expected {having}")
    rule = release.image_rule
    cells = _cells(width, height, rule)
    tokens = rule.padding_before(start) + rule.cell_tokens(cells.rows, cells.columns) + 2
    return ImageGrid(width, height, cells.pixels, cells.rows, cells.columns, tokens, start)


def grids_of(sizes: Iterable[tuple[int, int] | None], dialect: Dialect) -> list[ImageGrid | None]:
    """The grid of each size; None if the size is unknown, or the dialect has no images."""
    if dialect.image_rule is None:
        return [None for _ in sizes]
    return [None if size is None else image_grid(*size, dialect=dialect) for size in sizes]


class _Cells(NamedTuple):
    pixels: tuple[int, int]
    rows: int
    columns: int


def _cells(width: int, height: int, rule: ImageRule) -> _Cells:
    if rule.widest is not None:
        width = min(width, rule.widest * height)
    if width * height < rule.least_pixels:
        factor = sqrt(rule.least_pixels / (width * height))
        width, height = int(width * factor), int(height * factor)
    cells = _cells_of_pixels(ceil(width / PATCH) * PATCH, ceil(height / PATCH) * PATCH)
    budget = rule.budget
    while rule.cell_tokens(cells.rows, cells.columns) > rule.budget:
        cells = _shrunk(width, height, budget, rule)
        budget -= 1
    return cells


def _cells_of_pixels(width: int, height: int) -> _Cells:
    return _Cells((width, height), ceil(height / PATCH / PATCHES), ceil(width / PATCH / PATCHES))


def _shrunk(width: int, height: int, budget: int, rule: ImageRule) -> _Cells:
    """The cells of an image that is too large, scaled so that their number is about the budget."""
    ratio = height / width
    columns = sqrt(budget / ratio + 0.25) - 0.5
    rows = columns * ratio
    if columns < 1:
        most = rule.whole_rows(budget // 2)
        return _Cells((CELL, CELL * most), most, 1)
    if rows < 1 and rule.widest is None:
        return _Cells((CELL * (budget - 1), CELL), 1, budget - 1)
    by_width = math.floor(columns) * CELL / width
    by_height = rule.whole_rows(math.floor(rows)) * CELL / height
    factor = min(by_width, by_height)
    scaled = (math.floor(side * factor / PATCH) * PATCH for side in (width, height))
    return _cells_of_pixels(*scaled)

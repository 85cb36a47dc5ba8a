"""An image in a line of text: its name, size, cells and tokens."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from dsv4._encode.prompt import Prompt
from dsv4._images.image_size import read_image
from dsv4._images.image_source import image_bytes, maybe_address
from dsv4.errors import ImageError

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


class ImageCount(NamedTuple):
    """The size of an image in a prompt. Size, cells and tokens are None if they are unknown."""

    message: int | None
    name: str
    width: int | None = None
    height: int | None = None
    columns: int | None = None
    rows: int | None = None
    tokens: int | None = None
    # The picture itself as an address, for a page; empty if it is missing or too large.
    thumbnail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All fields but the picture."""
        return {name: value for name, value in self._asdict().items() if name != "thumbnail"}

    @property
    def caption(self) -> str:
        if self.width is None:
            return f"{self.name}, size not known"
        size = f"{self.width} × {self.height}, {self.columns} × {self.rows} cells"
        counted = "" if self.tokens is None else f", {self.tokens:,} tokens"
        return f"{self.name}, {size}{counted}"


def image_counts(prompt: Prompt, tokenizer: Tokenizer | None) -> Iterator[ImageCount]:
    """The images of a prompt, in their order in it."""
    if not prompt.images:
        return
    places = [piece for piece in prompt.pieces if piece.special and piece.field == "image"]
    grids = prompt.image_grids
    rule = prompt.dialect.image_rule
    counts: Iterable[int | None]
    if tokenizer is not None:
        counts = tokenizer.image_tokens(prompt)
    else:  # known only in a dialect in which they do not depend on the tokens before
        is_known = rule is not None and not rule.pairs_rows
        counts = (grid.tokens if grid and is_known else None for grid in grids)
    pictures = zip(places, prompt.images, grids, counts, strict=True)
    for n, (piece, record, grid, tokens) in enumerate(pictures, 1):
        name = _name(record) or f"image {n}"
        if grid is None:
            yield ImageCount(piece.message, name)
        else:
            size = (grid.width, grid.height, grid.columns, grid.rows)
            yield ImageCount(piece.message, name, *size, tokens, _thumbnail(record))


# Larger pictures would make a page too large.
_MOST_BYTES = 4 << 20
# Formats that every browser shows, and that cannot run scripts.
_SHOWN_TYPES = ("PNG", "JPEG", "GIF", "WebP")


def _thumbnail(record: Any) -> str:
    try:
        data = image_bytes(record)
        if data is None or len(data) > _MOST_BYTES or read_image(data).format not in _SHOWN_TYPES:
            return ""
        kind = read_image(data).format.lower()
    except ImageError:
        return ""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _name(record: Any) -> str:
    """The last part of an address, which is usually the name of a file."""
    address = maybe_address(record)
    try:
        return unquote(urlsplit(address or "").path).rstrip("/").rpartition("/")[2]
    except ValueError:
        return ""

"""An image in a line of text: its name, size, cells and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from dsv4._encode.prompt import Prompt
from dsv4._images.image_source import maybe_address

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


class ImageCount(NamedTuple):
    """What an image of a prompt takes. Size, cells and tokens are None where they are not known."""

    message: int | None
    name: str
    width: int | None
    height: int | None
    columns: int | None
    rows: int | None
    tokens: int | None

    @property
    def caption(self) -> str:
        if self.tokens is None:
            return f"{self.name}, size not known"
        size = f"{self.width} × {self.height}, {self.columns} × {self.rows} cells"
        return f"{self.name}, {size}, {self.tokens:,} tokens"


def image_counts(prompt: Prompt, tokenizer: Tokenizer) -> Iterator[ImageCount]:
    """The images of a prompt, in its order."""
    if not prompt.images:
        return
    places = [piece for piece in prompt.pieces if piece.special and piece.field == "image"]
    found = zip(
        places, prompt.images, prompt.image_grids, tokenizer.image_tokens(prompt), strict=True
    )
    for n, (piece, record, grid, tokens) in enumerate(found, 1):
        name = _name(record) or f"image {n}"
        if grid is None:
            yield ImageCount(piece.message, name, *(None,) * 5)
        else:
            size = (grid.width, grid.height, grid.columns, grid.rows)
            yield ImageCount(piece.message, name, *size, tokens)


def _name(record: Any) -> str:
    """The last part of an address, which is the name of a file as a rule."""
    address = maybe_address(record)
    try:
        return unquote(urlsplit(address or "").path).rstrip("/").rpartition("/")[2]
    except ValueError:
        return ""

"""Content in the form that all protocols share: text, or a list of text and image blocks.

A protocol has a table of the blocks it knows. What a block says is text or an image; of a block
that nobody knows its type is said, as the format does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dsv4._format.texts import UNSUPPORTED
from dsv4.api.bodies import clean
from dsv4.api.errors import ApiError, wrong
from dsv4.api.fields import maybe_text_at, type_at

BLANK_LINE = "\n\n"

Block: TypeAlias = dict[str, Any]
Content: TypeAlias = "str | list[Block]"
# What one block says: text, an image, or nothing at all.
Said: TypeAlias = "str | Block | None"
Reader: TypeAlias = Callable[[Block, str], Said]


def unsupported(kind: str) -> str:
    """What stands in the place of something that cannot be read."""
    return kind.join(UNSUPPORTED)


UNSUPPORTED_IMAGE = unsupported("Image")
UNSUPPORTED_DOCUMENT = unsupported("Document")


def content_of(value: Any, path: str, readers: Mapping[str, Reader]) -> Content:
    """A content field: text, null, or a list of blocks."""
    if isinstance(value, str):
        return clean(value)
    if value is None:
        return ""
    if not isinstance(value, (list, tuple)):
        raise wrong(value, "text or a list of blocks", path)
    return joined([read_block(block, f"{path}[{n}]", readers) for n, block in enumerate(value)])


def text_content(value: Any, path: str, readers: Mapping[str, Reader]) -> str:
    """A content field where there can be no images: they are named."""
    content = content_of(value, path, readers)
    return content if isinstance(content, str) else without_images(content)


def read_block(block: Any, path: str, readers: Mapping[str, Reader]) -> Said:
    if isinstance(block, str):
        return clean(block)
    kind = type_at(block, path)
    reader = readers.get(kind)
    return unsupported(kind) if reader is None else reader(block, path)


def joined(said: list[Said]) -> Content:
    """One text, unless there are images among the blocks."""
    if all(part is None or isinstance(part, str) for part in said):
        return BLANK_LINE.join(part for part in said if isinstance(part, str))
    return [
        {"type": "text", "text": part} if isinstance(part, str) else part
        for part in said
        if part is not None
    ]


def without_images(content: Content) -> str:
    """The content as text, with a word in the place of each image."""
    if isinstance(content, str):
        return content
    return BLANK_LINE.join(
        block["text"] if block["type"] == "text" else UNSUPPORTED_IMAGE for block in content
    )


def refuse_images(content: Content) -> None:
    """Raises for the first image of a content."""
    for block in content if isinstance(content, list) else ():
        if block["type"] != "text":
            raise ApiError("found an image, expected text: images are not read", path=block["path"])


def image(url: str, path: str, detail: Any = None) -> Block:
    """An image. `path` is where the request has it."""
    source = {"url": url} if not isinstance(detail, str) else {"url": url, "detail": detail}
    return {"type": "image_url", "image_url": source, "path": path}


def text_reader(field: str) -> Reader:
    """A reader of blocks that are the text of one field. Null is empty."""

    def read(block: Block, path: str) -> Said:
        return maybe_text_at(block, field, path) or ""

    return read


read_text = text_reader("text")


def nothing(block: Block, path: str) -> Said:
    """A block that says nothing to the model."""
    return None

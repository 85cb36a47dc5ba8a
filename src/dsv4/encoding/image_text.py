"""Texts that spell the image token, which would pass for images (docs/format.md, section 12.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dsv4.encoding.door import Message, maybe_dict, maybe_list, type_of
from dsv4.errors import EncodeError

# A list, a result block in it, the result's list, a text block in that: what is nested deeper is
# never written.
_DEPTH = 4


def refuse_image_text(
    image: str, messages: Sequence[Message], name: str, reasoning_fields: Sequence[str]
) -> None:
    """Raises where a text of the messages spells the token. `name` is the caller's for the list."""
    fields = ("content", "content_blocks", *reasoning_fields)
    for index, message in enumerate(messages):
        for field in fields:
            if field in message and _spells(image, message[field]):
                problem = f"found {image} in a text, expected it only where an image stands"
                raise EncodeError((name, index, field), problem)


def _spells(image: str, content: Any) -> bool:
    if content.__class__ is str:
        return image in content
    return any(image in text for text in _texts(content))


def _texts(content: Any, depth: int = _DEPTH) -> Iterator[str]:
    """Every text in a content that is written, however it is given."""
    if isinstance(content, str):
        yield str.__str__(content)
    elif content is None or not depth:
        return
    elif (listed := maybe_list(content)) is not None:
        for item in listed:
            yield from _texts(item, depth - 1)
    elif (block := maybe_dict(content)) is not None:
        kind = type_of(block)
        if kind == "text":
            yield from _texts(block.get("text"), depth - 1)
        elif kind == "tool_result":
            yield from _texts(block.get("content"), depth - 1)

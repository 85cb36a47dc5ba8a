"""The forms in which callers give text: a string, nothing, or a list of blocks.

What comes out is always exactly a `str`. A caller's string may be of a class of its own, even one
of ours, and such a thing in a prompt would be more than text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dsv4.encoding.door import Message, holds, maybe_dict, maybe_list
from dsv4.encoding.fragments import BLANK_LINE
from dsv4.errors import EncodeError, Location, refusal, shown

# The types of blocks that are images where the dialect has images.
IMAGE_TYPES = ("image_url", "image")
# Where the source of a block of type "image" may stand, in the order of its record.
_SOURCES = ("source", "url", "data")


def text_of(content: Any, location: Location) -> str:
    """The text of any content: a string as it is, null as nothing, text blocks joined."""
    if isinstance(content, str):
        return str.__str__(content)
    if content is None:
        return ""
    listed = maybe_list(content)
    if listed is None:
        problem = f"found {shown(content)}, expected text, null or a list of text blocks"
        raise refusal(location, problem)
    return BLANK_LINE.join(_block_text(block, (*location, n)) for n, block in enumerate(listed))


def _block_text(block: Any, location: Location) -> str:
    """The text of one block of a list in which there are only texts."""
    read = read_block(block, location)
    if read.kind != "text":
        problem = f'found a block of type {shown(read.kind)}, expected type "text"'
        raise refusal(location, problem)
    return str(read.content)


class Block(NamedTuple):
    """One block of a content list: its type, and its content.

    The content of a text is the text, of a result what the tool gave, of others the block itself.
    `call_id` says which call a result answers.
    """

    kind: str
    content: Any
    call_id: Any = None


def read_block(block: Any, location: Location) -> Block:
    """An item of a content list. A text by itself is a block too."""
    if isinstance(block, str):
        return Block("text", str.__str__(block))
    fields = maybe_dict(block)
    if fields is None:
        problem = f'found {shown(block)}, expected a block such as {{"type": "text"}}'
        raise refusal(location, problem)
    kind = fields.get("type")
    if not isinstance(kind, str):
        problem = f'found {shown(kind)}, expected a name such as "text"'
        raise refusal((*location, "type"), problem)
    if kind == "text":
        return Block("text", _text_field(fields, location))
    if kind == "tool_result":
        return Block("tool_result", fields.get("content"), fields.get("tool_use_id"))
    return Block(str.__str__(kind), fields)


def _text_field(fields: Message, location: Location) -> str:
    text = fields.get("text")
    if text is not None and not isinstance(text, str):
        raise refusal((*location, "text"), f"found {shown(text)}, expected text")
    return str.__str__(text) if text else ""


def image_record(block: Message, location: Location) -> Message:
    """What `Prompt.images` holds of an image (docs/format.md, section 12.2)."""
    if block["type"] == "image_url":
        given = block.get("image_url")
        inside = maybe_dict(given)
        url = given if inside is None else inside.get("url")
        record = {"type": "image", "url": url}
        place, expected = "image_url", 'an image such as {"url": "https://…"}'
    else:
        record = {"type": "image", **{name: block[name] for name in _SOURCES if name in block}}
        place, expected = "source", f"one of {', '.join(_SOURCES)}"
    if not any(holds(value) for name, value in record.items() if name != "type"):
        found = shown(block.get(place))
        raise EncodeError((*location, place), f"found {found}, expected {expected}")
    return record

"""The forms in which callers give text: a string, nothing, or a list of text blocks.

What comes out is always exactly a `str`. A caller's string may be of a class of its own, even one
of ours, and such a thing in a prompt would be more than text.
"""

from __future__ import annotations

from typing import Any

from dsv4.encoding.fragments import BLANK_LINE
from dsv4.errors import EncodeError, shown


def text_of(content: Any, path: str) -> str:
    """The text of any content: a string as it is, null as nothing, text blocks joined."""
    if isinstance(content, str):
        return str.__str__(content)
    if content is None:
        return ""
    if isinstance(content, (list, tuple)):
        return BLANK_LINE.join(block_text(block, f"{path}[{n}]") for n, block in enumerate(content))
    raise EncodeError(path, f"found {shown(content)}, expected text, null or a list of text blocks")


def block_text(block: Any, path: str) -> str:
    """The text of one block of a content list."""
    if isinstance(block, str):
        return str.__str__(block)
    kind = block_kind(block, path)
    if kind != "text":
        raise EncodeError(path, f'found a block of type {shown(kind)}, expected type "text"')
    text = block.get("text")
    if text is not None and not isinstance(text, str):
        raise EncodeError(f"{path}.text", f"found {shown(text)}, expected text")
    return str.__str__(text) if text else ""


def block_kind(block: Any, path: str) -> str:
    """The `type` of a content block."""
    if not isinstance(block, dict):
        raise EncodeError(
            path, f'found {shown(block)}, expected a block such as {{"type": "text"}}'
        )
    kind = block.get("type")
    if not isinstance(kind, str):
        raise EncodeError(f"{path}.type", f'found {shown(kind)}, expected a name such as "text"')
    return str.__str__(kind)

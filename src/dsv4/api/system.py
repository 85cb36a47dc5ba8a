"""System texts, as every protocol has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.api.bodies import clean
from dsv4.api.content import BLANK_LINE, UNSUPPORTED_IMAGE, Reader, read_block
from dsv4.api.errors import wrong

# What a client puts before its first line, or before the beginning of its text. It changes from
# session to session, and with it every cached prefix.
BILLING = "x-anthropic-billing-header"
BEGINNING = "You are"


def system_text(value: Any, path: str, readers: Mapping[str, Reader]) -> str:
    """The text of a system field or message: its blocks, those that say something."""
    if isinstance(value, str):
        return without_billing(clean(value))
    if value is None:
        return ""
    if not isinstance(value, (list, tuple)):
        raise wrong(value, "text or a list of text blocks", path)
    said = [read_block(block, f"{path}[{n}]", readers) for n, block in enumerate(value)]
    texts = [
        without_billing(part) if isinstance(part, str) else UNSUPPORTED_IMAGE
        for part in said
        if part is not None
    ]
    return BLANK_LINE.join(filter(None, texts))


def without_billing(text: str) -> str:
    """A block without its billing line."""
    if not text.startswith(BILLING):
        return text
    line_end, beginning = text.find("\n"), text.find(BEGINNING)
    if beginning >= 0 and (line_end < 0 or beginning < line_end):
        return text[beginning:]
    return text[line_end + 1 :] if line_end >= 0 else ""

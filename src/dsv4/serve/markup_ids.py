"""The ids of texts in which the spelling of a special token means that token."""

from __future__ import annotations

from collections.abc import Iterable

from dsv4._format.tokens import Special, markup
from dsv4.tokens import Tokenizer


def markup_ids(tokenizer: Tokenizer, text: str | Iterable[str]) -> list[int]:
    """The ids of the format's own text, of a model's output, or of a prompt that a client wrote
    itself, or of its parts. Never for the text of a message, where such a spelling is plain
    text."""
    parts = markup(text).parts if isinstance(text, str) else text
    ids: list[int] = []
    for part in parts:
        is_special = isinstance(part, Special)
        ids += [tokenizer.special_id(part)] if is_special else tokenizer.encode_text(part)
    return ids

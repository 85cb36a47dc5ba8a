"""A prompt from its tokens, which nobody encoded here."""

from __future__ import annotations

from collections.abc import Iterable

from dsv4.encoding.pieces import Fragment
from dsv4.encoding.prompt import Prompt
from dsv4.format.dialects import Dialect
from dsv4.format.tokens import Markup, Special


def prompt_from(parts: Iterable[str], dialect: Dialect) -> Prompt:
    """The prompt of special tokens and of texts, in which nothing is one.

    It knows no messages: all of its pieces are the template's or the caller's. `decode` reads it.
    """
    flat: list[str] = []
    for part in parts:
        if isinstance(part, Special):
            token = Markup((part,))
            flat.append(
                Fragment(token, ("template", "header"), ("caller", "content"), message=None)
            )
        else:
            flat.append(part)
    return Prompt(flat, dialect)

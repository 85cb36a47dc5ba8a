"""A completion in pieces: as it may come from a model, or as badly as it can be cut."""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterator
from typing import Any

from dsv4._format import tokens
from dsv4.errors import OptionError, short_repr

WAYS = ("character", "token", "random")
# Random pieces are mostly short, because that is where cuts hurt; some are long.
_LONGEST = 24


def cut(text: str, way: Any, seed: Any, tokenizer: Any) -> list[str]:
    """The pieces of a text, none of them empty.

    `way` is one of `WAYS`; `seed` decides the random cuts; `tokenizer` is None where there is none.
    Raises an `OptionError` for another way, or for tokens without a tokenizer.
    """
    if way == "character":
        return list(text)
    if way == "random":
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise OptionError("seed", f"found {short_repr(seed)}, expected a whole number")
        return list(_random_pieces(text, random.Random(seed)))
    if way != "token":
        raise OptionError("cut", f"found {short_repr(way)}, expected one of {', '.join(WAYS)}")
    if tokenizer is None:
        raise OptionError("cut", "found token, but the extra `tokens` is not installed")
    return [piece for piece in _token_pieces(text, tokenizer) if piece]


def _random_pieces(text: str, choose: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = min(choose.randint(1, _LONGEST), choose.randint(1, _LONGEST))
        yield text[at : at + size]
        at += size


def _token_pieces(text: str, tokenizer: Any) -> Iterator[str]:
    """The text of each token. One that ends inside a character brings nothing by itself."""
    for part in tokens.markup(text).parts:
        if isinstance(part, tokens.Special):
            yield str(part)
            continue
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for id in tokenizer.encode_text(part):
            yield decoder.decode(tokenizer.bytes_of(id))
        yield decoder.decode(b"", True)

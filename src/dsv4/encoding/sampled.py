"""A turn as the model wrote it, which the format would not always write again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsv4.errors import OptionError, shown
from dsv4.values import Value


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Sampled(Value):
    """An assistant message together with what the model wrote for it.

    `message` is the message as it was read, which the rules of the format see: a dict, or what
    parsing gave. `text` is the model's text, after the header: the prompt holds it as it is where
    the format shows the turn, and what it spells of special tokens is real. Where reasoning is
    dropped the prompt holds what comes after its end. `ids` are the tokens that were sampled: a
    `Tokenizer` uses them as they are. One of the two may be missing. Raises an `OptionError` for a
    `text` that is no text and for `ids` that are no list.
    """

    message: Any
    text: str | None = None
    ids: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.text is not None and not isinstance(self.text, str):
            raise OptionError("text", f"found {shown(self.text)}, expected text")
        if isinstance(self.ids, (str, bytes)) or not isinstance(self.ids, (Sequence, type(None))):
            raise OptionError("ids", f"found {shown(self.ids)}, expected a list of ids")

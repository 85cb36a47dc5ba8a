"""Ids -> events: special tokens are recognised by their ids alone."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dsv4.format.spellings import FIXED
from dsv4.format.tokens import BOS, DSML, EOS, THINK_END, THINK_START
from dsv4.parsing.events import Event
from dsv4.parsing.options import Reason
from dsv4.parsing.parser import StreamParser
from dsv4.tokens.tokenizer import Tokenizer

# The tokens that mean something in a completion: those that every vocabulary has, and others.
_NEEDED = tuple(map(str, (BOS, EOS, THINK_START, THINK_END, DSML)))
_FURTHER = tuple(spelling for spelling, _, _ in FIXED)


class IdParser(StreamParser):
    """`dsv4.StreamParser`, fed with ids too.

    `tokenizer` is the vocabulary of the ids; all other options are those of `dsv4.StreamParser`. A
    special token is what has its id. Text of ordinary tokens never spells one, whatever it looks
    like.
    """

    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        self._tokenizer = tokenizer
        self._acting = {tokenizer.special_id(token): token for token in _NEEDED}
        added = tokenizer.vocabulary.added
        self._acting |= {added[token]: token for token in _FURTHER if token in added}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_inert = False
        super().__init__(**options)

    def feed_ids(self, ids: Iterable[int]) -> list[Event]:
        """The events that `ids` bring, possibly none.

        `ids` are the next ids of the completion; characters may be split over them. Raises an
        error for an id that is not in the vocabulary.
        """
        events: list[Event] = []
        for token, run in groupby(ids, self._acting.get):
            if token is None:
                events += self._feed_bytes(b"".join(map(self._tokenizer.bytes_of, run)))
                continue
            events += self._feed_bytes(b"", final=True)
            for _ in run:
                events += self._read(token)
        return events

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, in which special tokens are spelled."""
        return [*self._feed_bytes(b"", final=True), *super().feed(text)]

    def finish(self, reason: Reason | None = None) -> list[Event]:
        """The events that the end of the text brings. `reason` is why generation ended."""
        return [*self._feed_bytes(b"", final=True), *super().finish(reason)]

    def _feed_bytes(self, data: bytes, final: bool = False) -> list[Event]:
        """Text of ordinary tokens: what it spells does not act."""
        text = self._decoder.decode(data, final)
        if not text:
            return []
        # A shortcut is right for it where it has no mark, and then spells nothing.
        self._is_inert = True
        try:
            return super().feed(text)
        finally:
            self._is_inert = False

    def _read(self, text: str, inert: bool = False) -> list[Event]:
        return super()._read(text, inert or self._is_inert)

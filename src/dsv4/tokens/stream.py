"""Ids -> events: special tokens are recognised by their ids alone."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dsv4.format.spellings import FIXED
from dsv4.format.tokens import DSML
from dsv4.parsing.events import Event
from dsv4.parsing.options import Reason
from dsv4.parsing.parser import StreamParser
from dsv4.tokens.tokenizer import Tokenizer

# The tokens that mean something in a completion.
_ACTING = (str(DSML), *(spelling for spelling, _, _ in FIXED))


class IdParser(StreamParser):
    """`dsv4.StreamParser`, fed with ids too.

    `tokenizer` is the vocabulary of the ids; all other options are those of `dsv4.StreamParser`. A
    special token is what has its id. Text of ordinary tokens never spells one, whatever it looks
    like.
    """

    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.vocabulary.added
        self._acting = {added[token]: token for token in _ACTING if token in added}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
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
                events += self._feed(token)
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
        events = self._shortcut.pass_on(text)
        return self._feed(text, inert=True) if events is None else events

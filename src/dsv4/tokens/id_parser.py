"""Parses a completion from token ids: special tokens are recognised by their ids only."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from itertools import groupby

from dsv4._encode.inputs import as_list
from dsv4._format.spellings import COMPLETION_TOKENS
from dsv4._format.tokens import BOS, DSML, EOS, THINK_END, THINK_START
from dsv4._parse.events import Event
from dsv4._parse.finish_reasons import Reason
from dsv4._parse.parser import StreamParser
from dsv4.tokens.coder import Coder

# The tokens that mean something in a completion: those that every vocabulary has, and others.
_NEEDED = tuple(map(str, (BOS, EOS, THINK_START, THINK_END, DSML)))
_FURTHER = tuple(spelling for spelling, _, _ in COMPLETION_TOKENS)


class IdParser:
    """Feeds a `dsv4.StreamParser` with ids.

    A special token is what has its id. Text of ordinary tokens never spells one, whatever it looks
    like.

    - `tokenizer`: the vocabulary of the ids.
    - `parser`: what reads the completion, fresh: `dsv4.StreamParser(…)` or `request.parser()`. A
      `StreamParser` with its default options, if not given.

    Raises a `VocabularyError` where the vocabulary lacks a token that completions have.
    """

    def __init__(self, tokenizer: Coder, parser: StreamParser | None = None) -> None:
        self._tokenizer = tokenizer
        self._parser = StreamParser() if parser is None else parser
        self._acting = {tokenizer.special_id(token): token for token in _NEEDED}
        added = tokenizer.vocabulary.added
        self._acting |= {added[token]: token for token in _FURTHER if token in added}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._in_character = False  # whether the decoder waits for the rest of one

    def feed_ids(self, ids: Iterable[int]) -> list[Event]:
        """The events that `ids` bring, possibly none.

        `ids` are the next ids of the completion; characters may be split over them. Raises an
        `OptionError` for an id that is not in the vocabulary.
        """
        if type(ids) is list and len(ids) == 1:
            id = ids[0]
            if id.__class__ is int and id not in self._acting:
                # Nearly all that engines send, and nearly all of it is ASCII.
                data = self._tokenizer.bytes_of(id)
                if self._in_character or not data.isascii():
                    return self._feed_bytes(data)
                return self._parser.feed_inert(data.decode("ascii"))
        events: list[Event] = []
        for token, run in groupby(as_list(ids, ("ids",), "a list of ids"), self._maybe_acting):
            if token is None:
                events += self._feed_bytes(b"".join(map(self._tokenizer.bytes_of, run)))
                continue
            events += self._feed_bytes(b"", final=True)
            for _ in run:
                events += self._parser.feed(token)
        return events

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, in which special tokens are spelled."""
        return [*self._feed_bytes(b"", final=True), *self._parser.feed(text)]

    def finish(self, reason: Reason | None = None) -> list[Event]:
        """The events that the end of the text brings. `reason` is why generation ended."""
        return [*self._feed_bytes(b"", final=True), *self._parser.finish(reason)]

    def _maybe_acting(self, id: int) -> str | None:
        try:
            return self._acting.get(id)
        except TypeError:  # a list, as of a whole batch: the tokenizer says so
            return None

    def _feed_bytes(self, data: bytes, final: bool = False) -> list[Event]:
        """Text of ordinary tokens: what it spells does not act."""
        text = self._decoder.decode(data, final)
        self._in_character = bool(self._decoder.getstate()[0])
        return self._parser.feed_inert(text) if text else []

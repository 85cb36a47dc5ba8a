"""Ids -> events: special tokens are recognised by their ids alone."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

from dsv4.format import tokens
from dsv4.parsing.events import Event
from dsv4.parsing.parser import StreamParser as TextParser
from dsv4.tokens.tokenizer import Tokenizer

# The tokens that mean something in a completion.
_ACTING = (tokens.BOS, tokens.EOS, tokens.THINK_START, tokens.THINK_END, tokens.DSML)
# Text that spells one of them gets another first character on its way through the parser: half a
# surrogate pair, which no text has that was decoded from bytes.
_STAND_INS = {"<": "\udc3c", str(tokens.DSML)[0]: "\udc7c"}
_RESTORED = {ord(stand_in): letter for letter, stand_in in _STAND_INS.items()}
_LONGEST_START = max(map(len, _ACTING)) - 1


class StreamParser(TextParser):
    """`dsv4.StreamParser`, fed with ids too. Takes the same options, behind the tokenizer."""

    def __init__(self, tokenizer: Tokenizer, *args: Any, **options: Any) -> None:
        self._tokenizer = tokenizer
        self._acting = {tokenizer.special_id(str(token)): str(token) for token in _ACTING}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._spelling = ""  # the start of text that may spell a special token
        self._has_stand_ins = False
        super().__init__(*args, **options)

    def feed_ids(self, ids: Iterable[int]) -> list[Event]:
        """The events that `ids` bring. Characters may be split over tokens."""
        events: list[Event] = []
        for token, run in groupby(ids, self._acting.get):
            if token is None:
                events += self._feed_bytes(b"".join(map(self._tokenizer.bytes_of, run)))
                continue
            events += self._feed_bytes(b"", final=True)
            for _ in run:
                events += super().feed(token)
        return self._restored(events)

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, in which special tokens are spelled."""
        return self._restored([*self._feed_bytes(b"", final=True), *super().feed(text)])

    def finish(self) -> list[Event]:
        """The text has ended: the last events."""
        return self._restored([*self._feed_bytes(b"", final=True), *super().finish()])

    def _feed_bytes(self, data: bytes, final: bool = False) -> list[Event]:
        """Text of ordinary tokens: what it spells must not act."""
        text = self._spelling + self._decoder.decode(data, final)
        self._spelling = ""
        if any(first in text for first in _STAND_INS):
            text = self._disguised(text)
            kept = 0 if final else _unfinished(text)
            text, self._spelling = text[: len(text) - kept], text[len(text) - kept :]
        return super().feed(text) if text else []

    def _disguised(self, text: str) -> str:
        for token in _ACTING:
            if token in text:
                text = text.replace(token, _STAND_INS[token[0]] + token[1:])
                self._has_stand_ins = True
        return text

    def _restored(self, events: list[Event]) -> list[Event]:
        return list(map(_restored, events)) if self._has_stand_ins else events


def _unfinished(text: str) -> int:
    """How much of the text's end may be the start of a special token's spelling."""
    end = text[-_LONGEST_START:]
    for start in range(len(end)):
        if end[start] in _STAND_INS and any(t.startswith(end[start:]) for t in _ACTING):
            return len(end) - start
    return 0


def _restored(event: Event) -> Event:
    """An event with the stand-ins taken back."""
    changed = {
        name: value.translate(_RESTORED)
        for name in ("text", "raw", "name")
        if isinstance(value := getattr(event, name, None), str) and not value.isascii()
    }
    return replace(event, **changed) if changed else event  # type: ignore[arg-type]

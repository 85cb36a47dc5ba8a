"""Ids -> events: special tokens are recognised by their ids alone."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dsv4.parse.events import Event
from dsv4.parse.parser import StreamParser as TextParser
from dsv4.spec import tokens
from dsv4.tokens.tokenizer import Tokenizer

# The tokens that mean something in a completion.
_ACTING = (tokens.BOS, tokens.EOS, tokens.THINK_START, tokens.THINK_END, tokens.DSML)
# Text that spells one of them gets another first character on its way through the parser. These
# two code points are no characters, and no text has them.
_STAND_INS = {"<": "\U0010fffe", str(tokens.DSML)[0]: "\U0010ffff"}
_RESTORED = {ord(stand_in): letter for letter, stand_in in _STAND_INS.items()}


class StreamParser(TextParser):
    """`dsv4.StreamParser`, fed with ids too. Takes the same options, behind the tokenizer."""

    def __init__(self, tokenizer: Tokenizer, *args: Any, **options: Any) -> None:
        self._tokenizer = tokenizer
        self._acting = {tokenizer.special_id(str(token)): str(token) for token in _ACTING}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._spelling = ""  # the start of text that may spell a special token
        super().__init__(*args, **options)

    def feed_ids(self, ids: Iterable[int]) -> list[Event]:
        """The events that `ids` bring. Characters may be split over tokens."""
        events: list[Event] = []
        for id in ids:
            token = self._acting.get(id)
            if token is None:
                text = self._decoder.decode(self._tokenizer.bytes_of(id))
                events += self._feed_text(text)
            else:
                events += self._feed_text(self._decoder.decode(b"", True))
                events += self._flush_spelling()
                events += super().feed(token)
                self._decoder.reset()
        return [_restored(event) for event in events]

    def finish(self) -> list[Event]:
        events = self._feed_text(self._decoder.decode(b"", True)) + self._flush_spelling()
        return [_restored(event) for event in events + super().finish()]

    def _feed_text(self, text: str) -> list[Event]:
        """Text of ordinary tokens: what it spells must not act."""
        if not text and not self._spelling:
            return []
        text = self._spelling + text
        for token in _ACTING:
            text = text.replace(token, _STAND_INS[token[0]] + token[1:])
        kept = _unfinished(text)
        self._spelling = text[len(text) - kept :]
        text = text[: len(text) - kept]
        return super().feed(text) if text else []

    def _flush_spelling(self) -> list[Event]:
        text, self._spelling = self._spelling, ""
        return super().feed(text) if text else []


def _unfinished(text: str) -> int:
    """How much of the text's end may be the start of a special token's spelling."""
    longest = max(map(len, _ACTING)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(token.startswith(text[-size:]) for token in _ACTING):
            return size
    return 0


def _restored(event: Event) -> Event:
    """An event with the stand-ins taken back."""
    changed = {
        name: value.translate(_RESTORED)
        for name in ("text", "raw", "name")
        if isinstance(value := getattr(event, name, None), str) and not value.isascii()
    }
    return replace(event, **changed) if changed else event  # type: ignore[arg-type]

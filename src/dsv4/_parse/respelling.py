"""Completions of a dialect that spells V4's markup in another way.

The parser reads the spelling of the releases, and models' deviations from it. So the text of such a
dialect is translated to that spelling, and the events are translated back. Text that spells V4's
markup and is not the dialect's gets a mark inside, by which it is told apart, so that no text is
changed. The parser takes the mark for an invisible character (`spellings.ZERO_WIDTH`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from json.encoder import encode_basestring
from typing import TypeAlias

from dsv4._completion.events import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    Event,
    ReasoningDelta,
    StopHit,
    ToolCallAborted,
    ToolCallStart,
)
from dsv4._format.dialects import NAMESPACE_END, V4_LABELS, Dialect, Tags
from dsv4._format.spellings import HIDING_MARK, RELEASED_NAMES
from dsv4._format.tokens import Tokens
from dsv4.errors import ParseError

_Delta: TypeAlias = ReasoningDelta | ContentDelta | ArgumentsDelta


def read_spelling(dialect: Dialect) -> Dialect:
    """The dialect as the parser reads it: itself, if it spells everything as the releases do."""
    if not dialect.made[_respelled] and dialect.tags.namespace_end == NAMESPACE_END:
        return dialect
    tags = replace(_read_tags(dialect.tags), namespace_end=dialect.tags.namespace_end)
    return replace(dialect, tokens=Tokens(), tags=tags)


def _read_tags(tags: Tags) -> Tags:
    """The tags as the parser reads them: with names that a release has, in V4's markup."""
    pairs = zip(tags.labels.values(), V4_LABELS, strict=True)
    calls, invoke, parameter = (own if own in RELEASED_NAMES else v4 for own, v4 in pairs)
    return Tags(calls, invoke, parameter)


def _respelled(dialect: Dialect) -> dict[str, str]:
    """Words that a dialect writes in completions -> the spelling in which the parser reads them."""
    tags, read = dialect.tags, _read_tags(dialect.tags)
    pairs = {str(own): v4 for v4, own in dialect.own_tokens.items() if own != dialect.image_token}
    for own, v4 in zip(tags.labels.values(), read.labels.values(), strict=True):
        if own != v4:
            pairs[tags.dsml + own] = read.dsml + v4
    return {own: v4 for own, v4 in (pairs | _attributes(tags, read)).items() if own != v4}


def _attributes(tags: Tags, read: Tags) -> dict[str, str]:
    return {
        f' {tags.name}="': f' {read.name}="',
        tags.string_true: read.string_true,
        tags.string_false: read.string_false,
    }


def _in_json(text: str) -> str:
    return encode_basestring(text)[1:-1]


class _Replacer:
    """Replaces words in a text that comes in pieces, the longest that fits at each place."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words
        longest_first = sorted(words, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._starts = {word[:n] for word in words for n in range(1, len(word))}
        self._longest = len(longest_first[0]) - 1
        self.waiting = ""  # text that may become a word

    def feed(self, text: str, final: bool = False) -> Iterator[tuple[str, str]]:
        """Pairs of a piece and its replacement: the piece itself, if it is not a word."""
        text, self.waiting, at = self.waiting + text, "", 0
        end = len(text) if final else self._end(text, 0)
        for match in self._pattern.finditer(text):
            if match.start() >= end:
                break
            if at < match.start():
                yield text[at : match.start()], text[at : match.start()]
            yield match[0], self._words[match[0]]
            at = match.end()
            end = end if final else self._end(text, at)
        self.waiting = text[end:]
        if at < end:
            yield text[at:end], text[at:end]

    def goes_on(self, text: str) -> int:
        """The number of characters of a text that go on with the word that has begun."""
        length = 0
        while self.waiting and length < len(text):
            begun = self.waiting + text[: length + 1]
            if begun not in self._starts and begun not in self._words:
                break
            length += 1
        return length

    def _end(self, text: str, start: int) -> int:
        """The beginning of the first stretch that may become a word with more text."""
        first = max(start, len(text) - self._longest)
        return next((n for n in range(first, len(text)) if text[n:] in self._starts), len(text))


class Respelling:
    """One completion of a dialect, on its way into the parser and out again."""

    def __init__(self, dialect: Dialect) -> None:
        words = dialect.made[_respelled]
        own_again = {v4: own for own, v4 in words.items()}
        hidden = {v4: v4[0] + HIDING_MARK + v4[1:] for v4 in own_again}
        hidden |= {_in_json(v4): _in_json(v4)[0] + HIDING_MARK + _in_json(v4)[1:] for v4 in hidden}
        hidden[HIDING_MARK] = 2 * HIDING_MARK
        shown = {2 * HIDING_MARK: HIDING_MARK, HIDING_MARK: ""}
        attributes = {own for own in _attributes(dialect.tags, dialect.tags) if own in words}
        self._acting = _Replacer(hidden | words)
        self._inert = _Replacer(hidden | {own: words[own] for own in attributes})
        self._text = _Replacer(own_again | shown)
        in_json = {_in_json(v4): _in_json(own) for v4, own in own_again.items()}
        self._arguments = _Replacer(in_json | shown)
        self._read, self._shift = [0], [0]  # places in the text that is read, and their offsets
        self._end = 0
        self._open: _Delta | None = None  # the last delta, whose end may wait

    # In.

    def read(self, text: str, inert: bool = False) -> list[tuple[str, bool]]:
        """More text as the parser reads it: pieces, each with whether it is inert."""
        taking, other = self._inert, self._acting
        if not inert:
            taking, other = other, taking
        # The name of a tag is not a token, and is read with the token before it.
        named = other.goes_on(text) if inert else 0
        before = [*other.feed(text[:named]), *(other.feed("", final=True) if text[named:] else ())]
        pieces = [(self._noted(*pair), not inert) for pair in before]
        return pieces + [(self._noted(*pair), inert) for pair in taking.feed(text[named:])]

    def rest(self) -> list[tuple[str, bool]]:
        """The text that still waits for more, at the end of all text."""
        waiting = [*self._acting.feed("", final=True)], [*self._inert.feed("", final=True)]
        acting, inert = ([self._noted(*pair) for pair in pairs] for pairs in waiting)
        return [(piece, False) for piece in acting] + [(piece, True) for piece in inert]

    @property
    def waiting(self) -> str:
        return self._acting.waiting + self._inert.waiting

    def _noted(self, piece: str, read: str) -> str:
        self._end += len(read)
        if len(piece) != len(read):
            self._read.append(self._end)
            self._shift.append(self._shift[-1] + len(piece) - len(read))
        return read

    # Out.

    def place(self, read: int) -> int:
        """The place in the dialect's text for a place in the text that was read."""
        return read + self._shift[max(bisect_right(self._read, read) - 1, 0)]

    def given(self, events: list[Event], final: bool = False) -> list[Event]:
        """Events, in the dialect's own spelling."""
        given: list[Event] = []
        for event in events:
            if isinstance(event, (ReasoningDelta, ContentDelta, ArgumentsDelta)):
                if not self._goes_on(event):
                    given += self._ended()
                given += self._delta(event, event.text)
                self._open = event
            else:
                given += self._ended()
                given.append(self._whole(event))
        return given + (self._ended() if final else [])

    def _goes_on(self, event: _Delta) -> bool:
        index = getattr(event, "index", None)
        return type(self._open) is type(event) and index == getattr(self._open, "index", None)

    def _ended(self) -> list[Event]:
        """The events for the waiting end of the last delta, which is complete now."""
        event, self._open = self._open, None
        return [] if event is None else [*self._delta(event, "", final=True)]

    def _delta(self, event: _Delta, text: str, final: bool = False) -> Iterator[Event]:
        replacer = self._arguments if isinstance(event, ArgumentsDelta) else self._text
        shown = "".join(own for _, own in replacer.feed(text, final))
        if shown:
            yield replace(event, text=shown)

    def _whole(self, event: Event) -> Event:
        if isinstance(event, ToolCallStart):
            namespace = None if event.namespace is None else self.own(event.namespace)
            return replace(event, name=self.own(event.name), namespace=namespace)
        if isinstance(event, ToolCallAborted):
            return replace(event, closing=self.own(event.closing))
        if isinstance(event, StopHit):
            return replace(event, string=self.own(event.string))
        if isinstance(event, Diagnostic):
            start, end = self.place(event.start), self.place(event.end)
            return replace(event, raw=self.own(event.raw), start=start, end=end)
        return event

    def own(self, text: str) -> str:
        """A whole text in the dialect's own spelling."""
        replacer = _Replacer(self._text._words)
        return "".join(own for _, own in replacer.feed(text, final=True))

    def own_error(self, error: ParseError) -> ParseError:
        return ParseError(self.place(error.position), self.own(error.problem))

    def as_read(self, text: str) -> str:
        """A whole text as the parser reads it, apart from the completion."""
        replacer = _Replacer(self._acting._words)
        return "".join(read for _, read in replacer.feed(text, final=True))

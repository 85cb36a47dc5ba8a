"""The text that has come and is not done with yet, and the tags that the lexer finds in it.

All text that waits, waits here. Every position in it is counted from the start of the completion;
text of the turn that the prompt already holds has negative positions. Nothing is taken out before
it is done with, so a reader may look back and start again. Every pattern is matched through
`match` and `search`, so that the tests can count the characters that patterns are given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from dsv4._completion.limits import LONGEST_SPACE
from dsv4._completion.patterns import pattern
from dsv4._completion.reasons import Ended
from dsv4._format.spellings import BAR, MARKS
from dsv4._parse.quoting import QUOTES
from dsv4._parse.tag import MAYBE_TAG, TOKENS, PartialTag, Tag

T = TypeVar("T")

NOWHERE = -(2**62)  # before every place
ANYWHERE = -NOWHERE  # behind every place


@dataclass(eq=False)
class Refused(Exception):
    """The attempt of a level is refused: the text before `to` has decided it."""

    level: int
    to: int
    is_dropped: bool = False  # calls may have been meant, so they are reported
    closed: int = ANYWHERE  # the place at which the quotation that is over was opened, if any is


# Readers are generators. One yields None to wait for more text, or an attempt that it asks for: a
# function that makes an assumption in a twin of the reading, and is told its level. If the attempt
# is refused, the reader is sent a `Refused`.
Attempt: TypeAlias = Callable[[Any, int], None]
Steps: TypeAlias = Generator[Attempt | None, Refused | None, T]
# A tag that is being read: it asks for more text until it is known whether it is a tag.
Waiting: TypeAlias = Generator[PartialTag, None, T]
TagInText: TypeAlias = "Waiting[Tag | None] | PartialTag | Tag | None"
Lexer: TypeAlias = Callable[["TextBuffer", int], TagInText]

# Stands for a bar of ordinary text, where only tokens count.
BLANK = "\0"
_THINK = "think>"  # the end of a think tag
# So many characters of the text that is done with may still matter.
REMEMBERED = LONGEST_SPACE + 1
# Text that is done with is forgotten in stretches, because each time costs something.
_LEAST_TRIMMED = 512

MARK = pattern(f"[{''.join(MARKS)}]")
SPACE = pattern(r"\s+")


class TextBuffer:
    """Text that comes in pieces.

    `base` is the place of the first character of `text`, `end` the place where the text ends for
    now. `final` says that no more will come, and `ended` says why, if the caller knows.
    """

    def __init__(self, read: Lexer, start: int = 0) -> None:
        self._read = read
        self.text = ""
        self.base = self.end = start
        self.final = False
        self.ended: Ended | None = None
        self._unmarked = NOWHERE, NOWHERE  # no mark stands between these places
        self._readings: dict[int, Waiting[Tag | None] | Tag | None] = {}
        self._inert: list[tuple[int, int]] = []
        self.no_json_before = NOWHERE  # no JSON in an attribute begins before this
        self.border_at = NOWHERE  # the place of a think tag that stands for a border of fields

    @property
    def stopped(self) -> bool:
        """Whether the model itself ended the text, though its EOS is not in it."""
        return self.ended is Ended.END

    # Text that comes in, and text that is done with.

    def append(self, text: str, inert: bool = False) -> None:
        """Adds text. In inert text no special token is spelled, whatever it looks like."""
        if inert and text:
            start = self.end
            if self._inert and self._inert[-1][1] == start:
                start = self._inert.pop()[0]
            self._inert.append((start, self.end + len(text)))
        # CPython lets a text that nothing else refers to grow in place. Were it copied with each
        # piece, a long value, which waits here whole, would take quadratic time. So a reader that
        # waits must not keep a match, which refers to the text.
        waiting, self.text = self.text, ""
        waiting += text
        self.text = waiting
        self.end += len(text)

    def trim(self, done: int) -> None:
        """Forgets most of the text before `done`, if it is worth it."""
        count = done - REMEMBERED - self.base
        if count < _LEAST_TRIMMED or 2 * count < len(self.text):
            return
        self.text = self.text[count:]
        self.base += count
        self._readings = {at: r for at, r in self._readings.items() if at >= self.base}
        self._inert = [span for span in self._inert if span[1] > self.base]

    def is_inert(self, start: int, end: int) -> bool:
        """Whether any of this text cannot spell a special token."""
        if not self._inert:
            return False
        return any(a < end and start < b for a, b in self._inert)

    def acting(self, start: int, end: int) -> str:
        """The text, in which other characters replace ordinary text that spells a token."""
        text = self.text[start - self.base : end - self.base]
        for a, b in self._inert:
            a, b = max(a - start, 0), b - start
            if b > 0:
                blank = text[a:b].replace(BAR, BLANK).replace(_THINK, BLANK * len(_THINK))
                text = text[:a] + blank + text[b:]
        return text

    # The text that is here.

    def slice(self, start: int, end: int) -> str:
        return self.text[start - self.base : end - self.base]

    def at(self, place: int) -> str:
        """The character at a place, "" at the end."""
        return self.text[place - self.base : place - self.base + 1]

    def char_before(self, place: int) -> str:
        return self.text[place - self.base - 1] if place > self.base else ""

    def just_before(self, place: int) -> str:
        return self.slice(max(self.base, place - REMEMBERED), place)

    def opens_line(self, place: int) -> bool:
        """Whether nothing but white space, and not too much, stands before a place on its line."""
        text = self.just_before(place)
        newline = text.rfind("\n")
        return newline >= 0 and not text[newline:].strip()

    def after_blank_line(self, place: int) -> bool:
        """Whether a blank line ends right before a place, and its indentation."""
        text = self.just_before(place)
        return text[len(text.rstrip()) :].count("\n") > 1

    def match(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        return pattern.match(self.text, at - self.base)

    def past(self, pattern: re.Pattern[str], at: int) -> int:
        """The end of the pattern's match at a place; the place itself if there is no match."""
        match = pattern.match(self.text, at - self.base)
        return at if match is None else match.end() + self.base

    def search(self, pattern: re.Pattern[str], at: int, end: int) -> re.Match[str] | None:
        return pattern.search(self.text, at - self.base, end - self.base)

    def place(self, index: int) -> int:
        """The place of an index into `text`, as matches have them."""
        return index + self.base

    def next_mark(self, at: int) -> int:
        """The next place from `at` on at which a tag may begin, else the end.

        No text is searched twice, as long as places only grow.
        """
        start, place = self._unmarked
        if not start <= at <= place:
            start = place = at
        if place == self.end or self.text[place - self.base] not in MARKS:
            match = MARK.search(self.text, place - self.base)
            place = self.end if match is None else match.start() + self.base
        self._unmarked = start, place
        return place

    def tag_at(self, at: int) -> Tag | PartialTag | None:
        """The tag that begins at `at`, a part that may become one, or None. Each is read once."""
        if at not in self._readings:
            if at + 1 == self.end and not self.final:
                return MAYBE_TAG  # one character says nothing
            begun = self._read(self, at)
            if isinstance(begun, PartialTag):
                return begun  # it is short, and read anew with more
            self._readings[at] = begun
        reading = self._readings[at]
        if isinstance(reading, Tag):
            is_last = reading.end == self.end and not self.final
            return PartialTag.SURELY if is_last and self._may_be_named(reading) else reading
        if reading is None:
            return None
        try:
            return next(reading)
        except StopIteration as done:
            self._readings[at] = done.value
            return self.tag_at(at)

    def _may_be_named(self, tag: Tag) -> bool:
        """Whether a quote stands before the close of a call's part, and may stand behind it:
        between two quotes it is only talked about."""
        return tag.closing and tag.marked and self.char_before(tag.start) in QUOTES

    def marked_in(self, start: int, end: int) -> Iterator[Tag]:
        """The tags with the DSML token in text that has come."""
        at = start
        while (at := self.next_mark(at)) < end:
            tag = self.tag_at(at)
            at += 1
            if isinstance(tag, Tag) and tag.marked:
                yield tag
                at = tag.end

    # Waiting.

    def more(self) -> Steps[bool]:
        """Waits for more text. False: none will come."""
        if self.final:
            return False
        end = self.end
        while end == self.end and not self.final:
            yield None
        return True

    def more_of(self, at: int, partial: PartialTag | None) -> Steps[bool]:
        """Waits while `at` still begins the same part of a tag; without `partial`, for any text."""
        if partial is None:
            return (yield from self.more())
        while not self.final:
            yield None
            if self.final or self.tag_at(at) is not partial:
                return True
        return False

    def tag(self, at: int) -> Steps[Tag | PartialTag | None]:
        """The tag that begins at `at`, or None, once it is known. At the end of all text it may be
        a part of a tag."""
        reading = self.tag_at(at) if self.at(at) in MARKS else None
        while isinstance(reading, PartialTag) and not self.final:
            yield None
            reading = self.tag_at(at)
        return reading

    def past_space(self, at: int, longest: int = ANYWHERE) -> Steps[int]:
        """The end of the white space from `at` on, at most one character beyond the longest."""
        limit = at + longest + 1
        while True:
            at = self.past(SPACE, at)
            if at >= limit or at < self.end or not (yield from self.more()):
                return min(at, limit)

    def next_tag(self, at: int, limit: int = ANYWHERE) -> Steps[Tag | None]:
        """The next tag from `at` on, up to a limit. None: there is none."""
        while (at := self.next_mark(at)) <= limit:
            if at < self.end:
                tag = yield from self.tag(at)
                if tag is not None:
                    return tag if isinstance(tag, Tag) else None
                at += 1
            elif not (yield from self.more()):
                break
        return None

    def next_marked(
        self, at: int, limit: int = ANYWHERE, kinds: frozenset[str] = TOKENS
    ) -> Steps[Tag | None]:
        """The next tag with the DSML token, or token of one of these kinds."""
        tag = yield from self.next_tag(at, limit)
        while tag is not None and not (tag.marked or tag.kind in kinds):
            tag = yield from self.next_tag(tag.start + 1, limit)
        return tag

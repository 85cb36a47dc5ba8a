"""The text that has come and is not done with yet, and the tags that the lexer finds in it.

All text that waits, waits here, and every position in it is counted from where the completion
begins; what the prompt already holds of the turn has negative positions. Text that need not be
looked at again, but may still have to be given back, is set aside (`set_aside`), so that the
buffer stays small however much is held. Every pattern is matched through `match` and `search`,
which is how the tests count the characters that patterns are given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import NamedTuple, TypeAlias

from dsv4._format.spellings import BAR, OPENING_BRACKETS
from dsv4._parse.limits import LONGEST_SPACE
from dsv4._parse.patterns import pattern
from dsv4._parse.reasons import Ended
from dsv4._parse.tag import PartialTag, Tag

# How a tag is read: by asking for more until it is one, or is none. What is short may be read from
# its beginning again.
TagReading: TypeAlias = Generator[PartialTag, None, "Tag | None"]
Lexer: TypeAlias = Callable[["TextSource", int], "TagReading | PartialTag | Tag | None"]

# Stands for a bar of ordinary text, where only tokens count.
BLANK = "\0"
NOWHERE = -(2**62)  # before every place
# How much of the text before the buffer may still matter.
_REMEMBERED = LONGEST_SPACE + 1
# Text that is done with is forgotten in stretches, because each time costs something.
_LEAST_TRIMMED = 128

# What a tag may begin with: a bracket, or the DSML token that lost its bracket.
MARKS = (*OPENING_BRACKETS, BAR)

MARK = pattern(f"[{''.join(MARKS)}]")
# In a short text one search for all marks is faster than one for each, which are remembered.
_SHORT = 128
_SPACE = pattern(rf"\s{{1,{LONGEST_SPACE + 1}}}")
_ALL_SPACE = pattern(r"\s+")


class SourceMark(NamedTuple):
    """Where reading stood, and what waited then."""

    pos: int
    before: str
    aside: tuple[list[str], int, str]
    recorded: list[str] | None
    pins: int


class TextSource:
    """Text, with the place that reading has reached.

    `base` is the place of the first character of `text`, `pos` the place up to which everything is
    done with, `end` the place where the text ends for now. `final` says that no more will come, and
    `ended` why, where the caller knows.
    """

    __slots__ = (
        "_aside",
        "_before_aside",
        "_inert",
        "_kept",
        "_marks",
        "_pending_as",
        "_pinned",
        "_pinned_from",
        "_pins",
        "_read",
        "_readings",
        "_recorded",
        "_spaces",
        "aside_from",
        "base",
        "before",
        "end",
        "ended",
        "final",
        "no_json_before",
        "passed",
        "pending",
        "pos",
        "text",
    )

    def __init__(self, read: Lexer, start: int = 0) -> None:
        self._read = read
        self.text = ""
        self.base = self.pos = self.end = start
        self.final = False
        self.ended: Ended | None = None
        # Where a tag begins that was waited for, and as what.
        self.pending: int | None = None
        self._pending_as = PartialTag.MAYBE
        self.before = ""  # the last characters before `base`
        # From where each mark was looked for, and where it was found, if it was.
        self._marks = [(NOWHERE, NOWHERE)] * len(MARKS)
        self._readings: dict[int, TagReading | Tag | None] = {}
        self._spaces: dict[int, int] = {}
        self._inert: list[tuple[int, int]] = []
        self._aside: list[str] = []
        self.aside_from = 0
        self._before_aside = ""
        self._recorded: list[str] | None = None
        self._kept: list[str] | None = None
        self.no_json_before = NOWHERE  # no JSON in an attribute begins before this
        self._pinned: list[str] | None = None
        self._pinned_from = 0
        self._pins = 0
        # The text that is passed between the values of a block, and its places, if it is wanted.
        self.passed: list[tuple[str, int]] | None = None

    @property
    def stopped(self) -> bool:
        """Whether the model itself ended the text, though its EOS is not in it."""
        return self.ended is Ended.END

    # What comes in.

    def append(self, text: str, inert: bool = False) -> None:
        """More text. In inert text no special token is spelled, whatever it looks like."""
        if inert and text:
            start = self.end
            if self._inert and self._inert[-1][1] == start:
                start = self._inert.pop()[0]
            self._inert.append((start, self.end + len(text)))
        if self._kept is not None:
            self._kept.append(text)
        if self._pinned is not None:
            self._pinned.append(text)
        # CPython lets a text that nothing else refers to grow in place. Were it copied with each
        # piece, a long run of EOS in a value, which waits here whole, would take quadratic time.
        if self.text:
            waiting, self.text = self.text, ""
            waiting += text
            self.text = waiting
        else:
            self.text = text
        self.end += len(text)

    def skip(self, count: int, last: str) -> None:
        """Skips text that the caller has handled, which ends with `last`, or is all of it.

        Nothing may wait.
        """
        self.before = last if len(last) < count else (self.before + last)[-_REMEMBERED:]
        self.end += count
        self.base = self.pos = self.end

    def trim(self) -> None:
        """Drops text that has been read: all of it if nothing waits, otherwise long stretches."""
        done = self.pos - self.base
        if self.pos < self.end and done < _LEAST_TRIMMED:
            return
        self.before = (self.before + self.text[:done])[-_REMEMBERED:]
        self.text = self.text[done:]
        self.base = self.pos
        if self._readings:
            self._readings = {at: r for at, r in self._readings.items() if at >= self.pos}
        if self._spaces:
            self._spaces = {at: end for at, end in self._spaces.items() if at >= self.pos}
        if self._inert:  # which counts for text that may be read again, too
            start = self.done if self._pinned is None else min(self.done, self._pinned_from)
            self._inert = [span for span in self._inert if span[1] > start]

    def is_inert(self, start: int, end: int) -> bool:
        """Whether any of this text cannot spell a special token."""
        return bool(self._inert) and any(a < end and start < b for a, b in self._inert)

    def acting(self, start: int, end: int) -> str:
        """The text, with something else where ordinary text has a bar of a token."""
        text = self.text[start - self.base : end - self.base]
        return self.as_acting(text, start) if self._inert else text

    def as_acting(self, text: str, start: int) -> str:
        """The same of a text that stands at `start`, and may have been set aside."""
        for a, b in self._inert:
            a, b = max(a - start, 0), b - start
            if b > 0 and BAR in text[a:b]:
                text = text[:a] + text[a:b].replace(BAR, BLANK) + text[b:]
        return text

    def find_acting(self, token: str, at: int) -> int:
        """Where a token stands that is one, from `at` on; the end if there is none."""
        index = self.text.find(token, at - self.base)
        while index >= 0 and self.is_inert(self.place(index) + 2, self.place(index) + 3):
            index = self.text.find(token, index + 1)
        return self.end if index < 0 else self.place(index)

    # What is here.

    def slice(self, start: int, end: int) -> str:
        return self.text[start - self.base : end - self.base]

    def at(self, place: int) -> str:
        """The character at a place, "" at the end."""
        return self.text[place - self.base : place - self.base + 1]

    def char_before(self, place: int) -> str:
        return self.text[place - self.base - 1] if place > self.base else self.before[-1:]

    def opens_line(self, place: int) -> bool:
        """Whether nothing but white space, and not too much, stands before a place on its line."""
        text = self.just_before(place)
        newline = text.rfind("\n")
        return newline >= 0 and not text[newline:].strip()

    def after_blank_line(self, place: int) -> bool:
        """Whether a blank line ends right before a place, and its indentation."""
        text = self.just_before(place)
        return text[len(text.rstrip()) :].count("\n") > 1

    def just_before(self, place: int) -> str:
        text = self.slice(max(self.base, place - _REMEMBERED), place)
        return text if len(text) == _REMEMBERED else (self.before + text)[-_REMEMBERED:]

    def match(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        return pattern.match(self.text, at - self.base)

    def search(self, pattern: re.Pattern[str], at: int, end: int) -> re.Match[str] | None:
        return pattern.search(self.text, at - self.base, end - self.base)

    def place(self, index: int) -> int:
        """The place of an index into `text`, as matches have them."""
        return index + self.base

    def next_mark(self, at: int) -> int:
        """The next place from `at` on where a tag may begin, else the end.

        Each mark is looked for once in each stretch of text, as long as places only grow.
        """
        if at < self.end and self.text[at - self.base] in MARKS:
            return at  # where a reader waited
        if self.end - at < _SHORT:
            found_mark = MARK.search(self.text, at - self.base)
            return self.end if found_mark is None else found_mark.start() + self.base
        first = self.end
        for n, mark in enumerate(MARKS):
            begun, place = self._marks[n]
            if at < begun or place < at:
                begun = at
                place = at
            elif place < self.end and self.text[place - self.base] == mark:
                first = min(first, place)
                continue
            found = self.text.find(mark, place - self.base)
            place = self.end if found < 0 else found + self.base
            self._marks[n] = begun, place
            first = min(first, place)
        return first

    def is_mark(self, at: int) -> bool:
        return self.text[at - self.base] in MARKS

    def past_space(self, at: int) -> int:
        """Where white space from `at` on ends. Looks one character beyond the longest allowed."""
        known = self._spaces.get(at, at)
        if known - at <= LONGEST_SPACE and self.at(known).isspace():
            space = self.match(_SPACE, known)
            assert space is not None
            known = self._spaces[at] = self.place(space.end())
        return known

    def past_all_space(self, at: int) -> int:
        """Where white space from `at` on ends, however much there is."""
        known = self._spaces.get(at, at)
        if self.at(known).isspace():
            space = self.match(_ALL_SPACE, known)
            assert space is not None
            known = self._spaces[at] = self.place(space.end())
        return known

    def tag_at(self, at: int) -> Tag | PartialTag | None:
        """What begins at `at`: a tag, no tag, or what may become one. Each is read once."""
        found: TagReading | PartialTag | Tag | None
        if at in self._readings:
            found = self._readings[at]
        elif at + 1 == self.end and not self.final:
            found = PartialTag.MAYBE  # one character says nothing
        else:
            found = self._read(self, at)
            if not isinstance(found, PartialTag):
                self._readings[at] = found
        if found is None or isinstance(found, Tag):
            return found
        if not isinstance(found, PartialTag):
            try:
                found = next(found)
            except StopIteration as done:
                tag: Tag | None = done.value
                self._readings[at] = tag
                return tag
        self.pending = at
        self._pending_as = found
        return found

    def next_tag(self, at: int) -> tuple[int, Tag | None]:
        """The next tag from `at` on, and where it begins; or may begin, if it is not there yet."""
        while (at := self.next_mark(at)) < self.end:
            found = self.tag_at(at)
            if isinstance(found, Tag):
                return at, found
            if found is not None:
                break
            at += 1
        return at, None

    def is_pending(self, minds_kind: bool) -> bool:
        """Whether what was waited for last, a tag that has begun, has still not come to its end.

        Then nobody has anything to do, however many characters come; unless the reader minds what
        kind of tag it may become, and that has changed.
        """
        if self.pending is None or self.final or self.pending < self.pos:
            return False
        known = self._pending_as
        found = self.tag_at(self.pending)
        return found is known if minds_kind else isinstance(found, PartialTag)

    # What is done with.

    def advance(self, to: int) -> None:
        if self.passed is not None:
            self.passed.append((self.acting(self.pos, to), self.pos))
        if self._recorded is not None:
            self._recorded.append(self.slice(self.pos, to))
        self.pos = to

    def take(self, to: int) -> str:
        text = self.text[self.pos - self.base : to - self.base]
        if self._recorded is not None:
            self._recorded.append(text)
        self.pos = to
        return text

    def set_aside(self, to: int) -> None:
        """Takes text out of the buffer, to wait."""
        if not self._aside:
            self.aside_from = self.pos
            self._before_aside = self.just_before(self.pos)
        self._aside.append(self.take(to))

    def aside(self) -> str:
        """The text that was set aside. It waits no longer."""
        text, self._aside = "".join(self._aside), []
        return text

    def peek_aside(self) -> str:
        """The text that was set aside. It goes on waiting."""
        return "".join(self._aside)

    def put_back(self) -> None:
        """Puts the text that was set aside where it was, to be read again."""
        if not self._aside:
            return
        text = self.aside()
        if self._recorded is not None:
            recorded = "".join(self._recorded)
            self._recorded = [recorded[: len(recorded) - len(text)]]
        self.text = text + self.slice(self.pos, self.end)
        self.base = self.pos = self.aside_from
        self.before = self._before_aside
        self._forget()

    def _forget(self) -> None:
        """Forgets what was found at which place."""
        self._marks = [(NOWHERE, NOWHERE)] * len(MARKS)
        self._readings.clear()
        self._spaces.clear()
        self.pending = None

    @property
    def done(self) -> int:
        """The place up to which nothing waits."""
        return self.aside_from if self._aside else self.pos

    @property
    def waiting(self) -> str:
        """All that has come and is not done with."""
        return "".join(self._aside) + self.slice(self.pos, self.end)

    # What is remembered for the end.

    def keep(self, start: int, raw: str) -> None:
        """Keeps all text from `start` on, where `raw` stands, to the end."""
        rest = self.slice(max(start + len(raw), self.base), self.end)
        self._kept = [raw, rest]

    def kept(self) -> str:
        return "".join(self._kept or ())

    # Text that may have to be read again.

    def pin(self) -> None:
        """Remembers all text from where reading stands on, as it comes. Pins nest."""
        if self._pinned is None:
            self._pinned = [self.slice(self.pos, self.end)]
            self._pinned_from = self.pos
        self._pins += 1

    def pinned(self, start: int, to: int) -> str:
        """The remembered text between two places."""
        text = "".join(self._pinned or ())
        self._pinned = [text]
        return text[start - self._pinned_from : to - self._pinned_from]

    def unpin(self, count: int = 1) -> None:
        self._pins -= count
        if not self._pins:
            self._pinned = None

    def mark(self) -> SourceMark:
        """Where reading stands. `pin` keeps the text from there on."""
        recorded = None if self._recorded is None else [*self._recorded]
        aside = ([*self._aside], self.aside_from, self._before_aside)
        return SourceMark(self.pos, self.just_before(self.pos), aside, recorded, self._pins)

    def return_to(self, mark: SourceMark) -> None:
        """Goes back to where reading stood, with the text that was pinned there."""
        self.base = self.pos = mark.pos
        self.text = self.pinned(mark.pos, self.end)
        self.unpin(self._pins - mark.pins)
        self.before = mark.before
        aside, self.aside_from, self._before_aside = mark.aside
        self._aside = [*aside]
        self._recorded = mark.recorded
        self._forget()

    # What is remembered of text that is not shown.

    def record(self) -> None:
        self._recorded = []

    @property
    def is_recording(self) -> bool:
        return self._recorded is not None

    @property
    def recorded_so_far(self) -> str:
        return "".join(self._recorded or ())

    def recorded(self) -> str:
        text, self._recorded = "".join(self._recorded or ()), None
        return text

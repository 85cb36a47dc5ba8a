"""Quotations in prose (recovery.md, rules 15, 24 and 29): what is open where a call begins.

A call in a quotation never runs. `Quoting` follows prose once, when somebody asks, and answers one
question: which quotations are open here. No other file has a set of quotation marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from dsv4._completion.limits import LONGEST_TAG
from dsv4._completion.patterns import pattern
from dsv4._format.spellings import BAR
from dsv4._parse.lines import LineTracker, has_fence

# What reaches to the end of the section; all else reaches to that of the paragraph.
_REACH_FAR = frozenset({"element", "comment", "triple quotes"})

# What opens a quotation -> what closes it: either of two, in some languages.
PAIRS = {
    **dict(zip("“‘「『«»‹›《〈〝｢﹁﹃", "”’」』»«›‹》〉〞｣﹂﹄", strict=True)),
    **{quote: quote for quote in "＂＇\"'`"},
    "„": "“”",
    "‚": "‘’",
}
# Quotes of attributes; those that are not ASCII close each other, and an ASCII one closes them.
SMART_QUOTES = "“”‘’＂＇"
ATTRIBUTE_QUOTES = "\"'" + SMART_QUOTES
# Directly behind one of these a tag is only talked about; between two of them a token is named.
QUOTES = frozenset("".join(PAIRS) + "".join(PAIRS.values()))
# What an invoke stands behind, directly, if a patch or a program quotes it.
QUOTES_AN_INVOKE = QUOTES | {"+", "-", "\\"}
# What stands directly behind a close in the string of a program, or in JSON.
QUOTES_A_CLOSE = frozenset("\\\"'`")

_STRAIGHT = frozenset("\"'")
_NO_OPENING_BEHIND = frozenset("_.,;:!?)")
_FIRST_WIDE = "\u2e80"  # letters from here on have no spaces between words
# Elements that quote what they hold: those of HTML, and any whose name has one of two words.
_ELEMENTS = "pre|code|samp|kbd|xmp|tt|q|blockquote|listing|plaintext"
QUOTES_CONTENT = pattern(rf"(?i).*(?:example|sample).*|{_ELEMENTS}")
# Quotes in the tag of any element open and close nothing: `"use <a href="x">this</a>: CALL"`. No
# blank line stands in one.
_TAG = (
    rf"(?P<slash>/?)(?P<name>[A-Za-z|{BAR}][^\s<>/]{{0,128}})"
    r"(?P<rest>(?:(?!\n\s*\n)\s(?:[^<>\n]|\n(?!\s*\n)){0,512})?/?)(?<!--)>"
)
_MARKS = "".join(sorted(QUOTES - {"`"}))
# One set of characters comes first, because such a pattern finds its next place several times as
# fast as one that begins with alternatives.
_PARTS = pattern(
    rf"[\n`<\-{_MARKS}](?:(?<=\n)(?P<blank>\s*\n)|(?<=`)(?P<code>`*)|(?<=-)(?P<uncomment>->)"
    rf"|(?<=<)(?:(?P<comment>!--)|{_TAG})|(?P<triple>(?<=\")\"\"|(?<=')'')|(?P<quote>(?<=[{_MARKS}])))"
)
# What may mean something else with more behind it.
_UNDECIDED = pattern(rf"(?:<[^<>]{{0,{LONGEST_TAG}}}|`+|\s+|['\"]+|’|-{{1,2}})\Z")

_LONGEST_UNREAD = 4096
# Nobody opens so many by accident; each costs something at every close.
_MOST_OPEN = 64


def _certain_to(text: str) -> int:
    """Up to where nothing in `text` may mean something else with more behind it."""
    start = max(len(text) - LONGEST_TAG - 1, 0)
    rest = _UNDECIDED.search(text, start)
    if rest is not None and rest.start() == start:  # it may have begun before
        rest = _UNDECIDED.search(text)
    return len(text) if rest is None else rest.start()


class Opening(NamedTuple):
    """Where a quotation was opened, and what closes it."""

    kind: str
    place: int
    close: str

    @property
    def marks(self) -> str:
        """One of these must come before the quotation is over."""
        return ">" if self.kind in ("element", "comment") else self.close + "\n"


@dataclass(slots=True, eq=False)
class Quoting:
    """Follows the prose of one section, reasoning or content."""

    open: list[Opening] = field(default_factory=list)  # quotations, as far as was read
    closed: dict[int, int] = field(default_factory=dict)  # where which was, while any is watched
    may_be_fenced: bool = False  # a look at the lines would tell
    watched: frozenset[str] = frozenset()  # marks that somebody waits for
    is_due: bool = False  # one of them has come
    _lines: LineTracker = field(default_factory=LineTracker)
    _unread: list[str] = field(default_factory=list)
    _place: int = 0  # of what is not read
    _last: str = ""  # the character before it

    def follow(self, text: str, start: int) -> None:
        """Goes on through `text`, which stands at `start`, when somebody asks."""
        if not self._unread:
            self._place = start
        self._unread.append(text)
        if "`" in text or "~" in text:
            self.may_be_fenced = True
        if self.watched and not self.watched.isdisjoint(text):
            self.is_due = True
        if len(text) > _LONGEST_UNREAD:  # nothing is kept for long, though nobody asks
            self.settle()

    def begin_line(self, is_begun: bool = False) -> None:
        """Calls were cut out here: a line begins behind them, or has begun."""
        self.settle("<")
        self._lines = LineTracker(behind_calls=True)
        if is_begun:
            self._lines.follow(".")
        self._last = "."

    def lines(self) -> LineTracker:
        """Where in a line prose stands, before a tag."""
        self.settle("<")
        return self._lines

    def check(self, following: str | None) -> None:
        """Reads what has come, for those who wait for marks."""
        self.settle(following)
        self.is_due = bool(self._unread)

    def settle(self, following: str | None = None) -> None:
        """Reads what has come, before the character `following`, if it is known."""
        text = "".join(self._unread)
        self._unread.clear()
        if following is None and (end := _certain_to(text)) < len(text):
            self._unread.append(text[end:])
            text = text[:end]
        if not text:
            return
        following = "".join(self._unread)[:1] or following or ""
        if self._lines.fence or has_fence(self._lines.run + text):
            self._read_around_fences(text, following)
        else:
            self._lines.follow(text)
            self._read(text, self._place, following)
        is_fenced = bool(self._lines.fence) or self._lines.fenced
        self.may_be_fenced = is_fenced or bool(self._unread and self.may_be_fenced)
        self._place += len(text)
        self._last = text[-1]

    def _read_around_fences(self, text: str, following: str) -> None:
        """What a fence holds opens and closes nothing, and where it begins a paragraph ends."""
        place, outside = self._place, ""
        for line in text.splitlines(keepends=True):
            fence, place = self._lines.fence, place + len(line)
            self._lines.follow(line)
            if not fence:  # what opens a fence at a line's end is prose before, however it was cut
                outside += line
            if self._lines.fence != fence:
                self._read(outside, place - len(outside), following)
                self._end_paragraph()
                outside, self._last = "", line[-1]
        self._read(outside, place - len(outside), following)

    def _end_paragraph(self) -> None:
        self.open = [one for one in self.open if one.kind in _REACH_FAR]

    def _read(self, text: str, start: int, following: str) -> None:
        for match in _PARTS.finditer(text):
            part, kind, (index, end) = match[0], match.lastgroup, match.span()
            before = text[index - 1] if index else self._last
            if kind == "quote":
                self._read_quote(part, before, text[end : end + 1] or following, start + index)
            elif kind == "code":
                self._read_run("inline code", part, start + index, start + end)
            elif kind == "triple":  # of a program, but for `y'''`
                self._read_run("triple quotes", part, start + index, start + end, before.isalnum())
            elif kind == "blank":
                self._end_paragraph()
            elif kind == "comment":
                self._add("comment", start + index, "-->")
            elif kind == "uncomment":
                self._close("comment", "-->", start + end)
            else:
                self._read_element(match, start)

    def _read_element(self, tag: re.Match[str], start: int) -> None:
        name = tag["name"].lower()
        quotes = QUOTES_CONTENT.fullmatch(name) is not None
        if quotes and tag["slash"]:
            self._close("element", name, start + tag.end())
        elif quotes and not tag["rest"].rstrip().endswith("/"):
            self._add("element", start + tag.start(), name)

    def _read_run(self, kind: str, run: str, place: int, end: int, closes: bool = False) -> None:
        """Code in a line closes with a run as long as its own. What it holds opens nothing.

        `closes`: it opens nothing itself.
        """
        opening = self._close(kind, run, end)
        if opening is not None:
            self.open = [one for one in self.open if one.place < opening.place]
        elif not closes:
            self._add(kind, place, run)

    def _read_quote(self, quote: str, before: str, behind: str, place: int) -> None:
        if quote in "'’" and before.isalpha() and behind.isalpha():
            return  # an apostrophe
        if quote == before == "'" and self._close("inline code", "``", place + 1):
            return  # as LaTeX has it
        # In the string of a program, quotes with a backslash do not close it.
        kind = "escaped quotes" if before == "\\" else "quotes"
        closes, opens = True, quote in PAIRS
        if quote in _STRAIGHT:
            closes = not ((before.isspace() or not before) and behind.isalpha())
            in_word = before.isalnum() and before < _FIRST_WIDE
            opens = not (in_word or before in _NO_OPENING_BEHIND or behind.isspace())
        if closes:
            for one in reversed(self.open):
                if one.kind == kind and quote in one.close:
                    self._close(kind, one.close, place + 1)
                    return
                if one.kind == kind and opens:
                    break  # what would open another can close the innermost only
        if opens:
            self._add(kind, place, PAIRS[quote])

    def _add(self, kind: str, place: int, close: str) -> None:
        if len(self.open) < _MOST_OPEN:
            self.open.append(Opening(kind, place, close))

    def _close(self, kind: str, close: str, end: int) -> Opening | None:
        """Closes the last opening that this closes."""
        for n in range(len(self.open) - 1, -1, -1):
            if self.open[n].kind == kind and self.open[n].close == close:
                if self.watched:
                    self.closed[self.open[n].place] = end
                return self.open.pop(n)
        return None

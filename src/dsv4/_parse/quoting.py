"""Quotations in prose (recovery.md, rules 15, 24, 29, 40 and 44) that are open where a call begins.

A call in a quotation never runs. `Quoting` follows prose once, when asked, and knows which
quotations are open at its place. No other file has a set of quotation marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dsv4._completion.limits import LONGEST_TAG
from dsv4._completion.patterns import pattern
from dsv4._format.spellings import BAR, CDATA
from dsv4._parse.lines import LineTracker, has_fence
from dsv4._parse.named_pairs import MARK, PairMark, element_close, is_pair, mark_of, opening_at_end

# Kinds of quotations that reach to the end of the section; all others end with the paragraph.
_PAIR_KINDS = frozenset({"named", "inner"})  # named pairs, and those in the middle of a line
_REACH_FAR = frozenset({"element", "comment", "triple quotes", *_PAIR_KINDS})

# Kinds that count behind their paragraph, if the partner stands directly behind calls (rule 40).
_LAPSING = frozenset({"quotes", "inline code"})

# Opening quotation mark -> closing ones: either of two, in some languages.
PAIRS = {
    **dict(zip("“‘‟‛❝❛「『«‹›《〈｢﹁﹃", "”’”’❞❜」』»›‹》〉｣﹂﹄", strict=True)),
    **{quote: quote for quote in "＂＇״\"'`"},
    "»": "«»",
    "〝": "〞〟",
    "„": "“”",
    "‚": "‘’",
}
# Quotes of attributes; those that are not ASCII close each other, and an ASCII one closes them.
SMART_QUOTES = "“”‘’＂＇"
ATTRIBUTE_QUOTES = "\"'" + SMART_QUOTES
# Directly behind one of these a tag is only talked about; between two of them a token is named.
QUOTES = frozenset("".join(PAIRS) + "".join(PAIRS.values()))
# Characters directly before an invoke that a patch or a program quotes.
QUOTES_AN_INVOKE = QUOTES | {"+", "-", "\\"}
# Characters directly behind a close in the string of a program, or in JSON.
QUOTES_A_CLOSE = frozenset("\\\"'`")

_STRAIGHT = frozenset("\"'״")
_NO_OPENING_BEHIND = frozenset("_.,;:!?)")
_FIRST_WIDE = "\u2e80"  # letters from here on have no spaces between words
# Elements that quote their content: those of HTML, and any whose name has one of some words. An
# element that is a result by its name holds no call of the model's, as V4's own (rule 44).
_ELEMENTS = "pre|code|samp|kbd|xmp|tt|q|blockquote|listing|plaintext"
QUOTES_CONTENT = pattern(rf"(?i).*(?:example|sample).*|.*results?|{_ELEMENTS}")
# Quotes in the tag of any element open and close nothing: `"use <a href="x">this</a>: CALL"`. A tag
# has no blank line in it.
_TAG = (
    rf"(?P<slash>/?)(?P<name>[A-Za-z|{BAR}][^\s<>/]{{0,128}})"
    r"(?P<rest>(?:(?!\n\s*\n)\s(?:[^<>\n]|\n(?!\s*\n)){0,512})?/?)(?<!--)>"
)
_MARKS = "".join(sorted(QUOTES - {"`"}))
# One set of characters comes first, because such a pattern finds its next place several times as
# fast as one that begins with alternatives. A line is looked at where a named pair may begin it.
_EACH = (
    r"(?<!\n(?=\w))"  # most lines begin with a word: nothing else is tried there
    r"(?:(?<=\n)(?:(?P<blank>(?=[^\S\n]*\n))|(?P<line>[ \t>]*(?=[<\[\\#/*\]]|\Z)))"
    r"|(?<=`)(?P<code>`*)|(?<=-)(?P<uncomment>->)"
    rf"|(?<=<)(?:(?P<comment>!--)|(?P<cdata>!\[CDATA\[)|{_TAG})"
    rf"|(?<=[{_MARKS}])(?:(?P<triple>(?<=\")\"\"|(?<=')'')|(?P<quote>))"
    r"|(?P<close>(?<=\[)/\w{2,32}\]|(?<=\\)(?i:end)\{\w{1,32}\*?\}|(?<=\*)/|(?<=\])\]>"
    r"|(?<=#)\+(?i:end)_\w{1,32})"
)
_PARTS = pattern(rf"[\n`<\-{_MARKS}\[\\*\]#]{_EACH})")
# Text that may mean something else with more behind it.
_UNDECIDED = pattern(
    rf"(?:<[^<>]{{0,{LONGEST_TAG}}}|`+|\s+|['\"]+|’|-{{1,2}}|[*/\]]{{1,2}}"
    r"|[\[\\#][^\n\]}]{0,160}[\]}]?)\Z"
)
_WORD = pattern(r"\w")

_LONGEST_UNREAD = 4096
# No text opens so many by accident; each costs something at every close.
_MOST_OPEN = 64


def _certain_to(text: str) -> int:
    """The length of the part of `text` that means the same whatever follows."""
    start = max(len(text) - LONGEST_TAG - 1, 0)
    rest = _UNDECIDED.search(text, start)
    if rest is not None and rest.start() == start:  # it may have begun before
        rest = _UNDECIDED.search(text)
    if rest is None:
        return len(text)
    # In `<a b[">` the bracket begins nothing, and the tag is read whole.
    tag = text.rfind("<", max(rest.start() - LONGEST_TAG, 0), rest.start())
    return rest.start() if tag < 0 or ">" in text[tag : rest.start()] else tag


class Opening(NamedTuple):
    """An open quotation: its place, and the text that closes it."""

    kind: str
    place: int
    close: str

    @property
    def marks(self) -> str:
        """Characters of which one must come before the quotation is over."""
        if self.kind == "named" and self.close[0] != "<":
            return self.close[0]
        return ">" if self.kind in ("element", "comment", "named") else self.close + "\n"

    @property
    def closes(self) -> tuple[str, ...]:
        """The closes of a quotation within a paragraph: quotes, or a run of backticks."""
        return (self.close,) if self.kind == "inline code" else tuple(self.close)


@dataclass(slots=True, eq=False)
class Quoting:
    """Follows the prose of one section, reasoning or content."""

    open: list[Opening] = field(default_factory=list)  # quotations, as far as was read
    closed: dict[int, int] = field(default_factory=dict)  # place -> its end, while any is watched
    may_be_fenced: bool = False  # a look at the lines would tell
    watched: frozenset[str] = frozenset()  # marks that a caller waits for
    is_due: bool = False  # one of them has come
    _lines: LineTracker = field(default_factory=LineTracker)
    _unread: list[str] = field(default_factory=list)
    _place: int = 0  # of the unread text
    _last: str = ""  # the character before it
    _lapsed: tuple[Opening, ...] = ()  # quotations left open in the paragraph before
    _lapsed_to: int = 0  # the end of the blank line behind that paragraph
    _begins: bool = True  # a line begins here, or calls have ended
    _mark_end: int = -1  # behind a line's indentation, and marks of named pairs that begin it
    _ended: dict[int, int] = field(default_factory=dict)  # place of a named pair -> its end

    def follow(self, text: str, start: int) -> None:
        """Takes `text`, which stands at `start`. It is read later, when asked."""
        if not self._unread:
            self._place = start
        self._unread.append(text)
        if "`" in text or "~" in text:
            self.may_be_fenced = True
        if self.watched and (self._ended or not self.watched.isdisjoint(text)):
            self.is_due = True
        if len(text) > _LONGEST_UNREAD:  # a long text is not kept, even if nothing depends on it
            self.settle()

    def begin_line(self, is_begun: bool = False) -> None:
        """Calls were cut out here: a line begins behind them, or has begun."""
        self.settle("<")
        self._lines = LineTracker(behind_calls=True)
        if is_begun:
            self._lines.follow(".")
        self._last = "."
        self._begins = True

    def pass_calls(self, closed: int) -> None:
        """Calls were left in the text here. Quotations opened from `closed` on are closed."""
        self.begin_line(is_begun=True)
        self.open = [one for one in self.open if one.place < closed]

    def enclosing(self, before: str, place: int) -> list[Opening]:
        """The quotations open at a place; also a pair that opens directly before it (rule 44).

        `before` is the text before the place, as far back as it is known.
        """
        self.settle("<")
        if (opening := opening_at_end(before)) is not None:
            start = place - len(before) + opening[0]
            if all(one.place != start for one in self.open):
                self._add("named", start, opening[1])
        return [one for one in self.open if one.kind != "inner"]

    def lapsed_before(self, before: str, place: int) -> tuple[Opening, ...]:
        """The quotations left open in the paragraph directly before a place (rule 40)."""
        space = place - self._lapsed_to
        is_directly = space <= len(before) and not before[len(before) - space :].strip()
        return self._lapsed if is_directly else ()

    def watch(self, openings: Iterable[Opening]) -> None:
        """From here on a caller waits for the closes of these."""
        self.watched = self.watched.union(*(one.marks for one in openings))

    def may_close(self, opening: Opening) -> bool:
        """Whether a quotation may still be closed, or prose may follow its close (rule 44)."""
        return opening.place in self._ended or opening in self.open

    def lines(self) -> LineTracker:
        """The lines of the prose up to here, where a tag begins."""
        self.settle("<")
        return self._lines

    def check(self, following: str | None) -> None:
        """Reads the text that has come, for callers that wait for marks."""
        self.settle(following)
        self.is_due = bool(self._unread)

    def settle(self, following: str | None = None) -> None:
        """Reads the text that has come, before the character `following`, if that is known."""
        if not self._unread:
            return
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
        """Reads text with fences: their content opens and closes nothing, and each fence ends a
        paragraph."""
        place, outside, fence = self._place, "", self._lines.fence
        for part in self._lines.followed(text):
            place += len(part)
            if not fence:  # a fence's opening at a line's end is prose, however the text was cut
                outside += part
            elif self._ended and _WORD.search(part):
                self._note_prose()
            if self._lines.fence != fence:
                fence = self._lines.fence
                self._read(outside, place - len(outside), following)
                self._end_paragraph(place)
                outside, self._last, self._begins = "", part[-1], True
        self._read(outside, place - len(outside), following)

    def _end_paragraph(self, place: int) -> None:
        if not self.open:
            return
        lapsed = tuple(one for one in self.open if one.kind in _LAPSING)
        if lapsed:
            self._lapsed, self._lapsed_to = lapsed, place
        self.open = [one for one in self.open if one.kind in _REACH_FAR]

    def _read(self, text: str, start: int, following: str) -> None:
        at = 0
        if self._begins and text:
            at = self._begin_line(text, len(text) - len(text.lstrip(" \t>")), start)
        for match in _PARTS.finditer(text, at):
            index, end = match.span()
            if self._ended and _WORD.search(text, at, index):
                self._note_prose()
            at, kind = end, match.lastgroup
            if kind == "quote":
                before = text[index - 1] if index else self._last
                self._read_quote(
                    text[index], before, text[end : end + 1] or following, start + index
                )
            elif kind == "code":
                self._read_run("inline code", match[0], start + index, start + end)
            elif kind == "line":
                at = self._begin_line(text, end, start)
            else:
                self._read_mark(match, text, start)
        if self._ended and _WORD.search(text, at):
            self._note_prose()

    def _read_mark(self, match: re.Match[str], text: str, start: int) -> None:
        """Reads a mark that may open or close something, other than a quote or a backtick."""
        part, kind, (index, end) = match[0], match.lastgroup, match.span()
        if kind == "blank":
            self._end_paragraph(start + end)
        elif kind == "triple":  # of a program, but for `y'''`
            before = text[index - 1] if index else self._last
            self._read_run("triple quotes", part, start + index, start + end, before.isalnum())
        elif kind == "comment":
            self._add("comment", start + index, "-->")
        elif kind == "uncomment":
            self._close("comment", "-->", start + end)
        elif kind == "cdata":
            self._read_pair(PairMark(CDATA[1], closes=False), start + index, start + end)
        elif kind == "close":
            self._read_pair(PairMark(part.lower(), closes=True), start + index, start + end)
        else:
            self._read_element(match, start)

    def _read_element(self, tag: re.Match[str], start: int) -> None:
        name, place, end = tag["name"].lower(), start + tag.start(), start + tag.end()
        is_empty = tag["rest"].rstrip().endswith("/")
        if QUOTES_CONTENT.fullmatch(name) is None:
            if not is_empty and is_pair(name):
                self._read_pair(PairMark(element_close(name), bool(tag["slash"])), place, end)
        elif tag["slash"]:
            self._close("element", name, end)
        elif not is_empty:
            self._add("element", place, name)

    # Named pairs (rule 44).

    def _begin_line(self, text: str, at: int, start: int) -> int:
        """A line begins, or text behind calls; its indentation ends at `at`. Reads a mark there.

        Returns the end of that mark, or `at`.
        """
        self._mark_end, self._begins = start + at, at == len(text)
        mark = MARK.match(text, at)
        if mark is None:
            return at
        self._read_pair(mark_of(mark), start + at, start + mark.end())
        return mark.end()

    def _read_pair(self, mark: PairMark, place: int, end: int) -> None:
        """A mark that opens or closes counts at a line's start; one that closes also behind calls.

        Elsewhere marks only match each other: `<div>`, and on the next line `a <div>b</div>`.
        """
        if place < self._mark_end:
            return  # it was read where its line began
        begins_line = place == self._mark_end
        if begins_line:
            self._mark_end = end
        if mark.closes:
            self._close_pair(mark.close, end, begins_line)
        elif begins_line:
            self._add("named", place, mark.close)
        elif any(one.kind == "named" and one.close == mark.close for one in self.open):
            self._add("inner", place, mark.close)

    def _close_pair(self, close: str, end: int, counts: bool) -> None:
        """Closes the last pair of a name, and all that were opened inside it."""
        for n in range(len(self.open) - 1, -1, -1):
            one = self.open[n]
            if one.kind in _PAIR_KINDS and one.close == close:
                self.open[n:] = [it for it in self.open[n + 1 :] if it.kind not in _PAIR_KINDS]
                if self.watched and counts and one.kind == "named":
                    self._ended[one.place] = end
                return

    def _note_prose(self) -> None:
        """Prose follows the closes of named pairs: they have quoted their content."""
        end = max(self._ended.values())
        self.closed.update(dict.fromkeys(self._ended, end))
        self._ended.clear()

    def _read_run(self, kind: str, run: str, place: int, end: int, closes: bool = False) -> None:
        """Code in a line closes with a run as long as its own. Its content opens nothing.

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
        if closes and self.open and self._close_quote(kind, quote, opens, place + 1):
            return
        if opens:
            self._add(kind, place, PAIRS[quote])

    def _close_quote(self, kind: str, quote: str, opens: bool, end: int) -> bool:
        """Whether a quote closes an open quotation: only the innermost, if it may open another."""
        for n in range(len(self.open) - 1, -1, -1):
            if self.open[n].kind == kind:
                if quote in self.open[n].close:
                    self._take(n, end)
                    return True
                if opens:
                    break
        return False

    def _add(self, kind: str, place: int, close: str) -> None:
        if len(self.open) < _MOST_OPEN:
            self.open.append(Opening(kind, place, close))

    def _close(self, kind: str, close: str, end: int) -> Opening | None:
        """Closes the last opening of this kind with this close."""
        for n in range(len(self.open) - 1, -1, -1):
            if self.open[n].kind == kind and self.open[n].close == close:
                return self._take(n, end)
        return None

    def _take(self, n: int, end: int) -> Opening:
        """Takes out an opening that is closed."""
        opening = self.open.pop(n)
        if self.watched:
            self.closed[opening.place] = end
        return opening

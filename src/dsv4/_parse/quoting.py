"""What is quoted: the table of quotations, and which of them are open at a place in prose
(recovery.md, rule 29).

`Quoting` follows the prose of one section, the reasoning or the content. A call is quoted if an
opening stands before it and its close behind it; so all that can be said where a call begins is
what would close: a `Quotation`. All quotation marks that the parser knows are here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from dsv4._format.spellings import BAR
from dsv4._parse.lines import LineTracker
from dsv4._parse.patterns import pattern

# What a quote opens with -> what closes it. „ has two partners, by language.
_TICK = "`"
PARTNERS = {
    **{_TICK: _TICK, '"': '"', "'": "'", "＂": "＂", "＇": "＇"},
    **{"“": "”", "‘": "’", "„": "“”", "‚": "‘", "«": "»", "»": "«", "‹": "›"},
    **{"「": "」", "『": "』", "《": "》", "〈": "〉", "〝": "〞"},
}
# Directly behind one of these a marker is talked about (rules 13, 17, 24 and 25).
QUOTES = frozenset("".join([*PARTNERS, *PARTNERS.values()]))
# Directly behind one of these an invoke in a block is quoted, by a patch or a program (rule 21).
QUOTES_AN_INVOKE = QUOTES | frozenset("+-\\")
# Directly before one of these a close is quoted, by a program or by JSON (rule 11).
QUOTES_A_CLOSE = QUOTES | {"\\"}
# Around the values of attributes: these close each other, and a double quote closes them.
SMART_QUOTES = "“”‘’＂＇"
ATTRIBUTE_QUOTES = "\"'" + SMART_QUOTES

# Elements that hold examples: these, and all whose names contain one of these words.
_ELEMENTS = frozenset(
    "pre code samp kbd xmp tt q blockquote listing plaintext".split()  # noqa: SIM905
)
_EXAMPLE_WORDS = ("example", "sample")

_STRAIGHT = "\"'"
_FIRST_IDEOGRAPH = "\u2e80"
_APOSTROPHES = "'’"
# Behind one of these a straight quote opens nothing.
_NO_OPENING = frozenset("_.,;:!?)")
_NAME = rf"</?[A-Za-z{BAR}|][^\s<>/]*"
_LONGEST_ELEMENT = 256
_TOKEN = pattern(
    rf"""`+|\n[ \t\r]*(?=\n|\Z)|<!--|-->"""
    rf"""|{_NAME}(?:\s(?:[^<>"']|"[^"<]*"|'[^'<]*')*)?/?>|{_NAME}(?:\s[^<>]*)?/?>"""
    rf"|[<{''.join(sorted(QUOTES - {_TICK}))}]|--?\Z"
)
_PARTIAL_ELEMENT = pattern(rf"<(?:!?-?-?|/?[A-Za-z{BAR}|][^<>]*|/)\Z")
_LIST_MARK = r"(?:[-*+]|\d{1,3}[.)])\s+"
_BLOCK_QUOTE = pattern(rf"\s*(?:{_LIST_MARK})*>(?:\s|>|{_LIST_MARK})*")
_FENCE_RUN = pattern(r"`{3,}|~{3,}")
_LONGEST_HEAD = 64
# So many quotations are followed at a time, of those that reach as far; the outermost go first.
_MOST_OPEN = 16
# Text waits to be looked at until somebody asks, but not more than this.
_MOST_WAITING = 4096


class Reach(Enum):
    """How far a quotation reaches that is not closed."""

    PARAGRAPH = "to the next blank line"
    SECTION = "to the end of the reasoning or the content"


class Opening(NamedTuple):
    """An opening that is not closed yet, and what closes it."""

    place: int
    end: int
    close: str
    reach: Reach
    # Of inline code: what was open before it. What opens in inline code that closes opens nothing.
    outside: tuple[tuple[Opening, ...], tuple[Opening, ...]] | None = None


class Mark(Enum):
    """What the line of a call begins with, if it quotes the call without any close."""

    NONE = "nothing"
    INDENTATION = "four spaces: quoted if each line has them, and prose follows"
    QUOTED = "the mark of a block quote: quoted if each line has it"
    QUOTED_WORDS = "the same, and words: quoted if, besides, something follows"


class Quotation(NamedTuple):
    """What may quote a call."""

    openings: tuple[Opening, ...]
    close: str  # of the quote directly before it, which opens nothing by itself
    mark: Mark


class Quoting:
    """Follows prose, and knows which quotations are open.

    `closed` is the first quotation that was closed of those that are watched, and where that was:
    nothing behind it is followed.
    """

    __slots__ = (
        "_at",
        "_before",
        "_elements",
        "_fences",
        "_head",
        "_quotes",
        "_rest",
        "_waiting",
        "_watched",
        "closed",
    )

    def __init__(self, at: int) -> None:
        self._fences = LineTracker()
        self._elements: tuple[Opening, ...] = ()
        self._quotes: tuple[Opening, ...] = ()
        self._waiting: list[str] = []  # text that nobody has asked about
        self._at = at  # the place behind all text
        self._rest = ""  # text that more text may change
        self._before = ""  # the character before that
        self._head = ""  # the line's beginning
        self._watched: frozenset[Opening] = frozenset()
        self.closed: tuple[Opening, int] | None = None

    def copy(self) -> Quoting:
        twin = copy.copy(self)
        twin._fences, twin._waiting = copy.copy(self._fences), [*self._waiting]
        return twin

    # What goes by.

    def follow(self, text: str, at: int) -> None:
        """Prose goes by, which begins at the place `at`."""
        if at != self._at:  # something stood between that was no prose
            self._look("<")
        self._waiting.append(text)
        self._at = at + len(text)
        if self._watched or len(self._waiting) > _MOST_WAITING or len(text) > _MOST_WAITING:
            self._look()

    def pass_call(self, to: int) -> None:
        """A call went by, or other text that closes nothing, up to the place `to`."""
        self._look("<")
        self._at = to
        self._before = ">"
        self._head += "."
        self._fences = LineTracker()
        self._fences.follow(".")

    def pass_quotation(self, to: int) -> None:
        """What was closed is done with, and reading goes on at the place `to`, behind it."""
        before, self._rest, self.closed = self._before, "", None
        self._waiting.clear()
        self.pass_call(to)
        self._before = before

    def watch(self, openings: Iterable[Opening]) -> None:
        """Says from now on when one of these is closed."""
        self._watched = frozenset(openings)

    def is_open(self, openings: tuple[Opening, ...]) -> bool:
        return any(opening in self._elements or opening in self._quotes for opening in openings)

    def end(self) -> None:
        """The section ends: no more text comes."""
        self._look("\n")

    # What stands here.

    def around(self, before: str, is_indented: bool) -> Quotation | None:
        """What may quote a call that begins behind all text. `before` stands directly before it."""
        self._look("<")
        openings = self._elements + self._quotes
        opens = any(opening.end == self._at for opening in openings)
        close = "" if opens else PARTNERS.get(before, "")
        mark = Mark.INDENTATION if is_indented else self._mark()
        if not openings and not close and mark is Mark.NONE:
            return None
        return Quotation(openings, close, mark)

    def _mark(self) -> Mark:
        found = _BLOCK_QUOTE.match(self._head)
        if found is None:
            return Mark.NONE
        return Mark.QUOTED if found.end() == len(self._head) else Mark.QUOTED_WORDS

    def behind_close(self, text: str, at: int, openings: tuple[Opening, ...]) -> Quoting | None:
        """How quoting stands behind the close of one of these in a text that stands at `at`.

        None: none is closed.
        """
        twin = self.copy()
        twin.watch(openings)
        twin.pass_call(at)
        twin.follow(text, at)
        twin.end()
        return None if twin.closed is None else twin

    # Going through the text.

    def _look(self, following: str = "") -> None:
        """Looks at the text so far, before the character `following`, if that is known."""
        text = "".join(self._waiting)
        self._waiting.clear()
        start = 0
        while start < len(text) and self.closed is None:
            end = len(text)
            if self._fences.in_fence or self._fences.has_run or _FENCE_RUN.search(text, start):
                end = text.find("\n", start) + 1 or end
            self._follow_lines(text[start:end], self._at - len(text) + end)
            start = end
        if following and self.closed is None:
            if self._fences.fenced and not self._fences.in_fence:
                self._leave_fence(self._at)
            self._scan(self._at, following)

    def _follow_lines(self, text: str, end: int) -> None:
        """Follows a line or a part of one, or lines without any fence, that end at `end`."""
        last = text.rfind("\n", 0, -1) + 1
        if last:  # lines without any fence: only the last one is of interest
            self._fences, self._head = LineTracker(), ""
        fences, line = self._fences, text[last:]
        was_fenced = fences.in_fence
        fences.follow(line)
        if len(self._head) <= _LONGEST_HEAD:
            self._head += line[: _LONGEST_HEAD + 1]
        if was_fenced:
            self._before = line[-1]
        elif not fences.fenced:
            self._rest += text
            self._scan(end)
        else:  # a fence, or inline code: the line's end will say
            self._rest += text
            if line.endswith("\n"):
                self._leave_fence(end)
        if line.endswith("\n"):
            self._head = ""

    def _leave_fence(self, end: int) -> None:
        """A line opens a fence: only what stands before it is prose."""
        fence = max([run.start() for run in _FENCE_RUN.finditer(self._rest)], default=0)
        end -= len(self._rest) - fence
        self._rest = self._rest[:fence]
        self._scan(end, _TICK)
        self._before = "\n"

    def _scan(self, end: int, following: str = "") -> None:
        """Goes through the text that ends at the place `end`, as far as more cannot change it."""
        text, start, done = self._rest, end - len(self._rest), 0
        for found in _TOKEN.finditer(text):
            token, at = found[0], found.start()
            after = text[found.end() : found.end() + 1] or following
            if not following and _waits(token, text, at, not after):
                self._rest, self._before = text[at:], text[at - 1] if at else self._before
                return
            done = found.end()
            before = text[at - 1] if at else self._before
            closed = self._read(token, before, after, start + at)
            if closed is not None and closed in self._watched:
                self.closed = closed, start + done
                self._rest, self._before = "", token[-1]
                return
        self._rest, self._before = "", text[-1:] or self._before

    def _read(self, token: str, before: str, after: str, place: int) -> Opening | None:
        """Reads a token. Returns the opening that it closes."""
        if token[0] == "\n":
            if after == "\n":  # a blank line
                self._quotes = ()
            return None
        if token[0] == _TICK:
            return self._read_ticks(token, place)
        if token in QUOTES:
            return self._read_quote(token, before, after, place)
        if token == "-->":
            return self._close_element(token)
        if token == "<!--":
            self._open_element("-->", place, token)
        elif token[-1] == ">" and len(token) <= _LONGEST_ELEMENT:
            return self._read_element(token, place)
        return None

    # Elements and comments.

    def _read_element(self, token: str, place: int) -> Opening | None:
        name = token.strip("</>").split(None, 1)[0].lower()
        if name not in _ELEMENTS and not any(word in name for word in _EXAMPLE_WORDS):
            return None
        if token[1] == "/":
            return self._close_element(name)
        if token[-2] != "/":
            self._open_element(name, place, token)
        return None

    def _open_element(self, close: str, place: int, token: str) -> None:
        opening = Opening(place, place + len(token), close, Reach.SECTION)
        self._elements = (*self._elements, opening)[-_MOST_OPEN:]

    def _close_element(self, close: str) -> Opening | None:
        for n in range(len(self._elements) - 1, -1, -1):
            if self._elements[n].close == close:
                closed = self._elements[n]
                self._elements = self._elements[:n]
                return closed
        return None

    # Inline code and quotation marks.

    def _read_ticks(self, run: str, place: int) -> Opening | None:
        for opening in self._quotes:
            if opening.close == run and opening.outside is not None:
                self._elements, self._quotes = opening.outside
                return opening
        self._open_quote(run, place, len(run), (self._elements, self._quotes))
        return None

    def _read_quote(self, quote: str, before: str, after: str, place: int) -> Opening | None:
        if quote in _APOSTROPHES and _is_letter(before) and _is_letter(after):
            return None
        if quote not in _STRAIGHT:
            may_open, may_close = quote in PARTNERS, True
        else:
            stands_alone = not (_is_letter(before) or before.isdigit() or before in _NO_OPENING)
            may_open = stands_alone and not after.isspace()
            may_close = not (before.isspace() and _is_letter(after))
        depth = len(self._quotes)
        if may_close:
            innermost = depth - 1
            for n in range(innermost, -1 if not may_open else innermost - 1, -1):
                if n >= 0 and self._closes(self._quotes[n], quote):
                    closed = self._quotes[n]
                    self._quotes = self._quotes[:n]
                    return closed
        if may_open:
            self._open_quote(PARTNERS[quote], place, 1)
        return None

    @staticmethod
    def _closes(opening: Opening, quote: str) -> bool:
        return opening.outside is None and quote in opening.close

    def _open_quote(
        self,
        close: str,
        place: int,
        length: int,
        outside: tuple[tuple[Opening, ...], tuple[Opening, ...]] | None = None,
    ) -> None:
        opening = Opening(place, place + length, close, Reach.PARAGRAPH, outside)
        self._quotes = (*self._quotes, opening)[-_MOST_OPEN:]


def _is_letter(character: str) -> bool:
    """Whether a letter belongs to a word that is set off by spaces, as Chinese words are not."""
    return character.isalpha() and character < _FIRST_IDEOGRAPH


def _waits(token: str, text: str, at: int, is_last: bool) -> bool:
    """Whether more text may change what a token is, which may be the last thing in the text."""
    if token == "<":
        is_short = len(text) - at <= _LONGEST_ELEMENT
        return is_short and _PARTIAL_ELEMENT.match(text, at) is not None
    return is_last and (token[0] in "`-\n" or token in _STRAIGHT or token in _APOSTROPHES)

"""One tag at a time: a lexer that knows no context (recovery.md, rules 1, 13 and 18).

A reading is a generator. It looks at the text from a bracket on, asks for more by yielding what
it has so far (a `PartialTag`), and returns a tag, or None for text. What it returns holds however
the text goes on. It never looks twice at what it has read, so that a tag that comes one character
at a time costs what any text costs; only the head, of a few dozen characters, is matched again.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache

from dsv4._format import tokens
from dsv4._format.spellings import (
    BAR,
    BARS,
    CLOSING_BRACKETS,
    COMPLETION_TOKENS,
    EQUALS,
    NAME_ATTRIBUTES,
    OPENING_BRACKETS,
    SLASHES,
    SPACED_THINK_END,
    TAG_PREFIXES,
    VOCABULARY_TOKENS,
    WORD,
    ZERO_WIDTH,
)
from dsv4._parse.limits import LONGEST_TAG
from dsv4._parse.patterns import pattern
from dsv4._parse.quoting import ATTRIBUTE_QUOTES, SMART_QUOTES
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.text_buffer import TagReading, TextBuffer

_DSML = str(tokens.DSML)
_LONGEST_HEAD = 64
# The attribute that may hold JSON (recovery.md, rule 14).
JSON_ATTRIBUTE = "arguments"
# Attributes that mean something in any case.
_KNOWN = frozenset(
    {"string", "value", JSON_ATTRIBUTE, *NAME_ATTRIBUTES["invoke"], *NAME_ATTRIBUTES["parameter"]}
)
_OPENING, _CLOSING = frozenset(OPENING_BRACKETS), frozenset(CLOSING_BRACKETS)
_QUOTES, _BARS = frozenset(ATTRIBUTE_QUOTES), frozenset(BARS)
_EQUALS = frozenset(EQUALS)

_FIXED = pattern("|".join(re.escape(spelling) for spelling, _, _ in COMPLETION_TOKENS))
_FIXED_KINDS = {spelling: (kind, closing) for spelling, kind, closing in COMPLETION_TOKENS}
_FIXED_STARTS = frozenset(s[:size] for s, _, _ in COMPLETION_TOKENS for size in range(1, len(s)))
# All that may still become a token, or the head of a tag as releases spell it.
_STARTS = _FIXED_STARTS | {
    f"<{slash}{_DSML[:size]}" for slash in ("", "/") for size in range(1, len(WORD) + 1)
}
# All that is the head of such a tag, and has nothing behind it yet.
_HEADS = frozenset(f"<{slash}{_DSML[:size]}" for slash in ("", "/") for size in (-1, None))
_OPEN = f"[{OPENING_BRACKETS}]"
_BARRED = re.escape(BARS + ZERO_WIDTH)
_SPACED_BARS = rf"[{_BARRED} \t]{{0,8}}"
_GAP = rf"[ \t{ZERO_WIDTH}]{{0,4}}"
_SLASHED_BARS = rf"[{SLASHES}]?{_SPACED_BARS}[{SLASHES}]?"
# The word with bars on a side, and spaces around them; or alone, right after the bracket. Whether
# it is alone is not decided while spaces are all that has come after it: a bar may follow them.
_HEAD = pattern(
    rf"{_OPEN}{_GAP}([{SLASHES}]?)"
    rf"(?:[ \t]{{0,4}}[{_BARRED}]{_SPACED_BARS}([{SLASHES}]?){WORD}[{_BARRED}\s]{{0,8}}"
    rf"|[ \t]{{0,4}}{WORD}[ \t]{{0,4}}[{_BARRED}][{_BARRED}\s]{{0,8}}"
    rf"|(?<=[{OPENING_BRACKETS}{SLASHES}]){WORD}(?![ \t]{{2,4}}\Z)\s?)([{SLASHES}]?)",
    re.IGNORECASE,
)
_HEAD_START = pattern(
    rf"{_OPEN}{_GAP}{_SLASHED_BARS}(?:{WORD[0]}(?:{WORD[1]}{WORD[2]}?)?)?\Z"
    rf"|{_OPEN}{_GAP}{_SLASHED_BARS}{WORD}[{_BARRED}\s]{{0,8}}\Z",
    re.IGNORECASE,
)
# Every head has a letter after bars, slashes and spaces.
_NO_HEAD = pattern(rf"{_OPEN}[{_BARRED}{SLASHES}\s]+[^{_BARRED}{SLASHES}\sA-Za-z]")
_TIGHT = pattern(
    rf"{_OPEN}[{_BARRED}]*[{SLASHES}]?[{_BARRED}]+[{SLASHES}]?{WORD}"
    rf"|{_OPEN}[{SLASHES}]?{WORD}[{_BARRED}]",
    re.IGNORECASE,
)
_THINK = pattern(SPACED_THINK_END)
_THINK_START = pattern(r"(?i)<[ \t]{0,4}(?:/[ \t]{0,4}(?:t(?:h(?:i(?:nk?)?)?)?[ \t]{0,4})?)?\Z")
_PLAIN_HEAD = pattern(rf"{_OPEN}(/?)[ \t]{{0,4}}[{_BARRED}]{{0,2}}(?=[A-Za-z])")
_PLAIN_HEAD_START = pattern(rf"{_OPEN}/?[ \t]{{0,4}}[{_BARRED}]{{0,2}}\Z")

_IN_LABEL = (
    rf"[^\s{EQUALS}/{OPENING_BRACKETS}{CLOSING_BRACKETS}{_BARRED}{ATTRIBUTE_QUOTES}{{}}\[\](),;`]"
)
_LABEL = pattern(f"{_IN_LABEL}+")
# The name of a tag without the DSML token, as far as it has come. It must be the name that the tag
# will have, or a tag would be another where the text is cut.
PLAIN_LABEL = pattern(rf"{_OPEN}/?[ \t]{{0,4}}[{_BARRED}]{{0,2}}({_IN_LABEL}*)")
_KEY = pattern(r"[A-Za-z_]")
_KEY_REST = pattern(r"[\w.:-]+")
_SPACE = pattern(r"\s+")
_TAIL = pattern(rf"[{_BARRED}/\s]+")
_UNQUOTED = pattern(
    rf"[^\s{EQUALS}{OPENING_BRACKETS}{CLOSING_BRACKETS}{_BARRED}{ATTRIBUTE_QUOTES}]+"
)
# What a name ends at, and the tag with it.
_ENDS = frozenset(OPENING_BRACKETS + CLOSING_BRACKETS)
# What the word may begin with, and tokens in brackets alone: the other letters begin plain tags.
_FIRST_LETTERS = frozenset(
    letter
    for first in (WORD[0], *(spelling[1] for spelling, _, _ in COMPLETION_TOKENS))
    for letter in (first.lower(), first.upper())
    if letter.isalpha()
)
# What may stand after the bracket, if it is no letter.
_SECOND = frozenset(f"{SLASHES} \t\n\r{ZERO_WIDTH}") | _BARS

# Where a quoted value may end, or hold what no value holds.
_IN_VALUE = {
    quote: pattern(rf"[{quote}{OPENING_BRACKETS}{BAR}\n]") for quote in ('"', "'")
} | dict.fromkeys(SMART_QUOTES, pattern(rf'[{SMART_QUOTES}"{OPENING_BRACKETS}{BAR}\n]'))
_IN_JSON = pattern(rf'["{{}}\[\]\\{OPENING_BRACKETS}{BAR}\n]')
_IN_JSON_STRING = pattern(rf'["\\{OPENING_BRACKETS}{BAR}\n]')

# How the strict grammar writes tags, up to the name.
_STRICT_HEAD = pattern(rf'<{_DSML} ?(invoke|parameter) name="')
# All of such a tag, where nothing in it can be read in two ways.
_CANONICAL = pattern(
    rf"<(/?){_DSML}( ?)(tool_calls|calls|function_calls|invoke|parameter)"
    r'(?: name="([\w.:/ -]{0,512})"(?: string="(true|false)")?)?>'
)
# All of a tag that has a name and nothing else, where the name cannot be read in two ways.
_NAMED = pattern(
    rf"{_OPEN}(/?)((?!(?i:{WORD}|{tokens.THINK_START[1:-1]}))[A-Za-z]{_IN_LABEL}{{0,63}})"
    rf"(?:[{CLOSING_BRACKETS}]|(?=[{OPENING_BRACKETS}]))"
)
# The beginning of what would be such a tag, with a value right behind its name.
_VALUED = pattern(rf"{_OPEN}((?!(?i:{WORD}))[A-Za-z]{_IN_LABEL}{{0,63}})[{EQUALS}]")
# A name is read from its beginning again while it has no more letters than this.
_SHORT_NAME = 8
# Where the name ends, or holds what no name holds.
_NO_NAME = "|".join(["\n", _DSML, *(re.escape(spelling) for spelling, _, _ in COMPLETION_TOKENS)])
_STRICT_END = {
    "invoke": pattern(f'(">)|{_NO_NAME}'),
    "parameter": pattern(f'(" string="(?:true|false)">)|{_NO_NAME}'),
}
_LONGEST_STRICT_END = 32


def read_tag(source: TextBuffer, start: int) -> TagReading | PartialTag | Tag | None:
    """Reads what begins at `start`. Most tags and most text are recognised without a generator."""
    index = start - source.base
    second = source.text[index + 1 : index + 2]
    if source.text[index] == BAR:
        if second and second != _DSML[1]:
            return None
    elif second == "/":
        if index + 2 == len(source.text) and not source.final:
            return PartialTag.MAYBE  # a slash alone says no more than the bracket
        if _NO_HEAD.match(source.text, index, index + _LONGEST_HEAD):
            return None
        named = source.match(_NAMED, start)
        if named is not None:
            return _named(named, start)
    elif second.isalpha():
        named = source.match(_NAMED, start)
        if named is not None:
            return _named(named, start)
        if _begins_name(source, start + 1):
            return PartialTag.NAME
        valued = source.match(_VALUED, start)
        if valued is not None and kind_of(valued[1]) == "named":
            return None  # only the name of a call or of a parameter may stand there (rule 13)
    elif second and second not in _SECOND:
        return None
    canonical = source.match(_CANONICAL, start)
    if canonical is not None and not source.is_inert(start + 1, start + 2 + len(_DSML)):
        return _canonical(canonical, start)
    return _TagReader(source, start).read()


def _begins_name(source: TextBuffer, start: int) -> bool:
    """Whether all that has come is a few letters, which are a plain tag's name so far."""
    if source.final or source.end - start > _SHORT_NAME:
        return False
    name = source.slice(start, source.end)
    return name.isascii() and name.isalpha() and name[0] not in _FIRST_LETTERS


def _named(found: re.Match[str], start: int) -> Tag:
    """A tag that has a name and nothing else."""
    tag = Tag(kind_of(found[2]), start, found[0], closing=bool(found[1]))
    tag.label = found[2]
    return tag


def _canonical(found: re.Match[str], start: int) -> Tag:
    """A tag as a release spells it."""
    slash, space, label, name, string = found.groups()
    tag = Tag(kind_of(label), start, found[0], closing=bool(slash))
    tag.label = label
    tag.marked = True
    tag.spaced = bool(space)
    if name is not None:
        tag.attributes["name"] = name
    if string is not None:
        tag.attributes["string"] = string
    return tag


class _NoTag(Exception):
    """What was read turned out not to be a tag."""


class _TagReader:
    """A tag while it is read."""

    __slots__ = ("attributes", "closing", "marked", "partial", "source", "spaced", "start")

    def __init__(self, source: TextBuffer, start: int) -> None:
        self.source = source
        self.start = start
        self.partial = PartialTag.MAYBE
        self.closing = self.marked = self.spaced = False
        self.attributes: dict[str, str] = {}

    def read(self) -> TagReading:
        try:
            if self.source.at(self.start) == BAR:
                return (yield from self._bare())
            return (yield from self._bracketed())
        except _NoTag:
            return None

    # The head: what it is that begins here.

    def _bracketed(self) -> TagReading:
        source, start = self.source, self.start
        while (second := source.at(start + 1)) == "":
            yield self.partial
        if second not in _FIRST_LETTERS and second not in _SECOND:  # some bars are letters
            return (yield from self._plain()) if second.isalpha() else None
        while True:
            rest = source.slice(start, start + _LONGEST_HEAD)
            if rest in _STARTS:
                yield self.partial
                continue
            if rest in _HEADS:
                self.partial = PartialTag.SURELY
                yield self.partial
                continue
            if _NO_HEAD.match(rest):
                return None
            fixed = _FIXED.match(rest)
            if fixed is not None and not self._is_spelled_out(fixed[0]):
                kind, closing = _FIXED_KINDS[fixed[0]]
                return Tag(kind, start, fixed[0], closing)
            head = _HEAD.match(rest)
            if head is not None and head.end() < len(rest):
                if self._is_spelled(head):
                    return None
                return (yield from self._after_head(head))
            if (spaced := _THINK.match(rest)) and not self._is_spelled_out(spaced[0]):
                return Tag("think", start, spaced[0], closing=True)
            if len(rest) == _LONGEST_HEAD or not self._may_begin(rest, head is not None):
                return (yield from self._plain())
            yield self.partial

    def _may_begin(self, rest: str, headed: bool) -> bool:
        """Whether the text may still become the head of a tag."""
        if headed:
            self.partial = PartialTag.SURELY if _TIGHT.match(rest) else PartialTag.MAYBE
            return True
        return bool(_HEAD_START.match(rest) or _THINK_START.match(rest))

    def _is_spelled_out(self, text: str) -> bool:
        """Whether ordinary text spells a token here. A misspelled one has no id, so it counts."""
        inert = self.source.is_inert(self.start, self.start + len(text))
        return inert and text in VOCABULARY_TOKENS

    def _is_spelled(self, head: re.Match[str]) -> bool:
        """Whether the token in a head is ordinary text that spells it."""
        at = head[0].find(_DSML)
        return at >= 0 and self.source.is_inert(self.start + at, self.start + at + len(_DSML))

    def _after_head(self, head: re.Match[str]) -> TagReading:
        self.marked = True
        self.closing = any(head.groups())
        self.spaced = head[0][-1].isspace()
        self.partial = PartialTag.SURELY if _TIGHT.match(head[0]) else PartialTag.MAYBE
        at = self.start + head.end()
        if self.closing and self.source.at(at) in _CLOSING:
            return self._made("", at, at + 1)  # a closing tag without a name
        return (yield from self._labelled(at))

    def _plain(self) -> TagReading:
        source = self.source
        while True:
            rest = source.slice(self.start, self.start + _LONGEST_HEAD)
            head = _PLAIN_HEAD.match(rest)
            if head is not None:
                self.closing = bool(head[1])
                self.partial = PartialTag.NAME
                return (yield from self._labelled(self.start + head.end()))
            if not _PLAIN_HEAD_START.match(rest):
                return None
            yield self.partial

    def _bare(self) -> TagReading:
        """The DSML token with no bracket before it: what is left of a closing tag."""
        source, start = self.source, self.start
        while len(rest := source.slice(start, start + len(_DSML) + 2)) < len(_DSML) + 2:
            if not (rest.startswith(_DSML) or _DSML.startswith(rest)):
                return None
            yield self.partial
        if not rest.startswith(_DSML) or source.is_inert(start, start + len(_DSML)):
            return None
        self.marked = self.closing = self.spaced = True
        tag = yield from self._labelled(start + len(_DSML) + rest[-2:-1].count(" "))
        if tag is None or tag.broken or tag.attributes or tag.raw[-1] not in _CLOSING:
            return None
        tag.bare = True
        return tag

    # The name, the attributes and the end.

    def _labelled(self, at: int) -> TagReading:
        start = at
        at = yield from self._run(_LABEL, at)
        label = self.source.slice(start, at)
        if not label:
            return None
        if not self.marked:
            self.partial = PartialTag.PLAIN
        elif self.partial is PartialTag.MAYBE and not self.spaced:
            self.partial = PartialTag.SURELY
        if at - self.start > LONGEST_TAG:
            return None
        character = self.source.at(at)
        try:
            if character in _ENDS:  # as most names do
                return self._made(label, at, at + (character in _CLOSING))
            return (yield from self._attributed(label, at))
        except _NoTag:
            strict = yield from self._strict()
        if strict is not None or not self.marked:
            return strict
        broken = self._made(label, at, at)
        broken.broken = True
        return broken

    def _attributed(self, label: str, at: int) -> Generator[PartialTag, None, Tag]:
        source = self.source
        if source.at(at) in _EQUALS:  # the name right after the tag's own
            if not self.marked and kind_of(label) == "named":
                raise _NoTag
            at = yield from self._valued(kind_of(label), at + 1)
        while True:
            after = yield from self._past_space(at)
            while after == source.end:  # the end of all text
                if "\n" in source.slice(at, after):
                    return self._ended_before(label, at, after)
                yield self.partial
            character = source.at(after)
            if _KEY.match(character):
                end, equals = yield from self._past_key(after)
                key = source.slice(after, end)
                if source.at(equals) in _EQUALS:
                    key = key.lower() if key.lower() in _KNOWN else key
                    at = yield from self._valued(key, equals + 1)
                    continue
                if key == label and self.marked and not self.attributes and at < after:
                    at = end  # a tag's own name may stand twice (rule 35)
                    continue
                return self._ended_before(label, at, after)
            tail = after
            if character in _QUOTES:  # one quote too many
                tail += 1
            run = yield from self._run(_TAIL, tail)
            if source.at(run) in _CLOSING:
                return self._made(label, at, run + 1)
            barred = run > tail and not {"/", "\n"} & set(source.slice(at, run))
            if barred and _KEY.match(source.at(run)):
                at = run
                continue
            if source.at(run) in _OPENING:
                return self._ended_before(label, at, run, bracket=True)
            while run == source.end and "\n" not in source.slice(at, run):
                yield self.partial
            return self._ended_before(label, at, run)

    def _ended_before(self, label: str, at: int, after: int, bracket: bool = False) -> Tag:
        """The tag has no bracket at its end: it ends before the newline, or the next bracket."""
        newline = self.source.slice(at, after).find("\n")
        if newline >= 0:
            return self._made(label, at, at + newline)
        if bracket:
            return self._made(label, at, after)
        raise _NoTag

    def _made(self, label: str, at: int, end: int) -> Tag:
        source = self.source
        if end - self.start > LONGEST_TAG:
            raise _NoTag
        tag = Tag(kind_of(label), self.start, source.slice(self.start, end), self.closing)
        tag.label = label
        tag.marked = self.marked
        tag.spaced = self.spaced
        tag.attributes = self.attributes
        tag.self_closed = not self.closing and "/" in source.slice(at, end)
        return tag

    # Values of attributes.

    def _valued(self, key: str, at: int) -> Generator[PartialTag, None, int]:
        """Reads a value, and says where it ends."""
        source = self.source
        at = yield from self._past_space(at)
        while at == source.end:
            yield self.partial
        quote = source.at(at)
        if quote == "\\":
            return (yield from self._escaped(key, at + 1))
        if quote not in _IN_VALUE:
            end = yield from self._run(_UNQUOTED, at)
            if source.at(end) in _CLOSING and source.slice(end - 1, end) == "/":
                end -= 1
            if end == at:
                raise _NoTag
            self.attributes.setdefault(key, source.slice(at, end))
            return end
        found = None
        if key == JSON_ATTRIBUTE and at >= source.no_json_before:
            found = yield from self._json_valued(quote, at + 1)
        if found is None:
            end = yield from self._quoted(quote, at + 1)
            found = source.slice(at + 1, end), end
        self.attributes.setdefault(key, found[0])
        return found[1] + 1

    def _escaped(self, key: str, at: int) -> Generator[PartialTag, None, int]:
        """A value whose quotes are escaped, as in a log (rule 28)."""
        source = self.source
        while at == source.end:
            if source.final:
                raise _NoTag
            yield self.partial
        quote = source.at(at)
        if quote not in _IN_VALUE:
            raise _NoTag
        end = yield from self._quoted(quote, at + 1)
        self.attributes.setdefault(key, source.slice(at + 1, end).removesuffix("\\"))
        return end + 1

    def _quoted(self, quote: str, at: int) -> Generator[PartialTag, None, int]:
        """Where a quoted value ends: at the first quote, after which the tag must go on."""
        source = self.source
        marks = _IN_VALUE[quote]
        while True:
            found = marks.search(source.text, at - source.base)
            if found is None:
                at = source.end
                self._check_length(at)
                yield self.partial
                continue
            at = source.place(found.start())
            self._check_length(at)
            if found[0] == "\n":
                yield from self._no_blank_line(at)
            elif found[0] in _OPENING or found[0] == BAR:
                yield from self._no_token(at)
            else:
                yield from self._goes_on(at + 1)
                return at
            at += 1

    def _no_blank_line(self, at: int) -> Generator[PartialTag, None, None]:
        after = at + 1
        while True:
            while (character := self.source.at(after)) and character in " \t":
                after += 1
            self._check_length(after)
            if character:
                break
            yield from self._wait(after)
        if character == "\n":
            raise _NoTag

    def _no_token(self, at: int) -> Generator[PartialTag, None, None]:
        """No token of the format stands inside a tag."""
        source = self.source
        while True:
            rest = source.slice(at, at + _LONGEST_HEAD)
            if rest.startswith(_DSML) or _HEAD.match(rest):
                raise _NoTag
            if _FIXED.match(rest) or _THINK.match(rest):
                raise _NoTag
            if len(rest) == _LONGEST_HEAD or not (
                _DSML.startswith(rest)
                or rest in _FIXED_STARTS
                or _HEAD_START.match(rest)
                or _THINK_START.match(rest)
            ):
                return
            yield self.partial

    def _goes_on(self, at: int) -> Generator[PartialTag, None, None]:
        """After a value: another attribute, the tag's end, or a line's."""
        source = self.source
        after = yield from self._past_space(at)
        while after == source.end and "\n" not in source.slice(at, after):
            yield self.partial
        character = source.at(after)
        if character in _CLOSING or character in _OPENING:
            return
        if character in _BARS or character == "/" or "\n" in source.slice(at, after):
            return
        if _KEY.match(character):
            _, equals = yield from self._past_key(after)
            if source.at(equals) in _EQUALS:
                return
        raise _NoTag

    def _json_valued(
        self, quote: str, at: int
    ) -> Generator[PartialTag, None, tuple[str, int] | None]:
        """An object in quotes ends where its braces do. None: it is something else.

        What no attribute holds, an object in one does not hold either (rule 18).
        """
        source = self.source
        start = at
        while at == source.end:
            yield self.partial
        if source.at(at) != "{" or quote == "'":
            return None
        depth, in_string = 0, False
        while True:
            found = source.search(_IN_JSON_STRING if in_string else _IN_JSON, at, source.end)
            at = source.end if found is None else source.place(found.end())
            if at - self.start > LONGEST_TAG:
                source.no_json_before = self.start + LONGEST_TAG
                return None
            if found is None:
                yield self.partial
                continue
            if found[0] == '"':
                in_string = not in_string
            elif found[0] == "\n" or found[0] in _OPENING or found[0] == BAR:
                if not (yield from self._may_hold(at - 1)):
                    source.no_json_before = at
                    return None
            elif found[0] == "\\":
                if not in_string:
                    return (yield from self._escaped_json(quote, start))
                while at == source.end:
                    yield self.partial
                at += 1
            else:
                depth += 1 if found[0] in "{[" else -1
                if depth == 0:
                    break
        while at == source.end:
            yield self.partial
        ends = source.at(at) == quote or (quote in SMART_QUOTES and source.at(at) in SMART_QUOTES)
        return (source.slice(start, at), at) if ends else None

    def _may_hold(self, at: int) -> Generator[PartialTag, None, bool]:
        """Whether an attribute may hold the newline or the bracket at `at`."""
        holds = self._no_blank_line if self.source.at(at) == "\n" else self._no_token
        try:
            yield from holds(at)
        except _NoTag:
            return False
        return True

    def _escaped_json(
        self, quote: str, at: int
    ) -> Generator[PartialTag, None, tuple[str, int] | None]:
        """An object whose own quotes are escaped."""
        source, start = self.source, at
        while True:
            found = source.search(_IN_JSON_STRING, at, source.end)
            at = source.end if found is None else source.place(found.end())
            self._check_length(at)
            if found is None:
                yield self.partial
                continue
            if found[0] == "\n" or found[0] in _OPENING or found[0] == BAR:
                if not (yield from self._may_hold(at - 1)):
                    return None
                continue
            if found[0] == quote:
                text = source.slice(start, at - 1)
                return re.sub(r"\\(.)", r"\1", text), at - 1
            while at == source.end:
                yield self.partial
            at += 1

    # A tag in the strict spelling is one, whatever its name holds.

    def _strict(self) -> TagReading:
        source = self.source
        head = source.match(_STRICT_HEAD, self.start)
        if head is None or self.closing:
            return None
        kind, start = head[1], source.place(head.end())
        at = start
        while (found := source.search(_STRICT_END[kind], at, source.end)) is None:
            at = max(start, source.end - _LONGEST_STRICT_END)
            if source.end - self.start > LONGEST_TAG or source.final:
                return None
            yield self.partial
        end = source.place(found.end())
        name = source.slice(start, source.place(found.start()))
        if found[1] is None or end - self.start > LONGEST_TAG:
            return None
        self.attributes = {"name": name}
        if kind == "parameter":
            self.attributes["string"] = "true" if "true" in found[0] else "false"
        return self._made(head[0].split(" name=")[0].removeprefix(f"<{_DSML}").strip(), end, end)

    # Going on through the text.

    def _check_length(self, at: int) -> None:
        """Gives up a tag that is too long, whether it comes whole or in pieces."""
        if at - self.start > LONGEST_TAG:
            raise _NoTag

    def _wait(self, at: int) -> Generator[PartialTag, None, None]:
        self._check_length(at)
        yield self.partial

    def _run(self, pattern: re.Pattern[str], at: int) -> Generator[PartialTag, None, int]:
        """Where a run of such characters ends. The end of all text ends it too."""
        source = self.source
        while True:
            found = source.match(pattern, at)
            if found is not None:
                at = source.place(found.end())
            self._check_length(at)
            if at < source.end or source.final:
                return at
            yield self.partial

    def _past_key(self, at: int) -> Generator[PartialTag, None, tuple[int, int]]:
        """Where a key ends, and the white space after it."""
        end = yield from self._run(_KEY_REST, at)
        after = yield from self._past_space(end)
        while after == self.source.end:
            yield self.partial
        return end, after

    def _past_space(self, at: int) -> Generator[PartialTag, None, int]:
        return self._run(_SPACE, at)


@lru_cache(256)
def kind_of(label: str) -> str:
    """What a tag is, by the first letters of its name; "named" for any other.

    A namespace before the name, as XML has it, does not count.
    """
    label = label.rpartition(":")[2].lower()
    for prefix, kind in TAG_PREFIXES:
        if label.startswith(prefix):
            return kind
    return "named"

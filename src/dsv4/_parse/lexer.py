"""One tag at a time: a lexer that knows no context (recovery.md, rules 1, 13 and 18).

While the head of a tag has not all come, `read_tag` returns a `PartialTag`, and is called again
when there is more text: a head has a few dozen characters at most. From its name on a tag is read
by a generator, which asks for more by yielding the `PartialTag` so far. The generator never looks
twice at text that it has read, so a tag that comes one character at a time costs no more than other
text. Its result, a tag, or None for text, stays right however the text goes on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from string import ascii_letters

from dsv4._completion.limits import LONGEST_TAG
from dsv4._completion.patterns import pattern
from dsv4._format import spellings, tokens
from dsv4._format.spellings import BAR, BARS, CLOSING_BRACKETS, EQUALS, OPENING_BRACKETS, WORD
from dsv4._parse.quoting import ATTRIBUTE_QUOTES, QUOTES, SMART_QUOTES
from dsv4._parse.tag import MAYBE_TAG, TAG_NAME, PartialTag, Tag
from dsv4._parse.text_buffer import NOWHERE, SPACE, TagInText, TextBuffer, Waiting

_DSML = str(tokens.DSML)
_LONGEST_HEAD = 64
# The attribute that may hold JSON (recovery.md, rule 14).
JSON_ATTRIBUTE = "arguments"
# Attributes that mean something in any case.
_KNOWN = {"string", "value", JSON_ATTRIBUTE}.union(*spellings.NAME_ATTRIBUTES.values())
_OPENING, _CLOSING = frozenset(OPENING_BRACKETS), frozenset(CLOSING_BRACKETS)
_SLASHES, _ZERO_WIDTH = spellings.SLASHES, spellings.ZERO_WIDTH
_BARS, _SPACES = frozenset(BARS + _ZERO_WIDTH), frozenset(" \t")

_FIXED_KINDS = {token: (kind, closing) for token, kind, closing in spellings.COMPLETION_TOKENS}
# Beginnings of these tokens, and of tags as releases spell them: with the whole word it is surely a
# tag.
_WORDS = f"<{_DSML[:-1]}", f"</{_DSML[:-1]}"
_TWO_BARS = 2 * BAR
_STARTS = {s[:n]: MAYBE_TAG for s in (*_FIXED_KINDS, *_WORDS) for n in range(1, len(s))}
_STARTS |= {word + bar: PartialTag.SURELY for word in _WORDS for bar in ("", BAR)}
_LONGEST_START = max(map(len, _STARTS))
_SECOND_IN_STARTS = frozenset("".join(start[1:2] for start in _STARTS))
_ANY_FIXED = "|".join(map(re.escape, _FIXED_KINDS))
# A token, or the end of reasoning with spaces in it.
_TOKEN = pattern(rf"{_ANY_FIXED}|{spellings.SPACED_THINK_END}")
_OPEN = f"[{OPENING_BRACKETS}]"
_BARRED = re.escape(BARS + _ZERO_WIDTH)
_SPACED_BARS = rf"[{_BARRED} \t]{{0,8}}"
_GAP = rf"[ \t{_ZERO_WIDTH}]{{0,4}}"
_WORD = f"(?i:{WORD})"
# All that a head may have before the word: four spaces, a bar, and eight more of both.
_SLASHED_BARS = rf"[{_SLASHES}]?[{_BARRED} \t]{{0,13}}[{_SLASHES}]?"
# The word with bars on a side, and spaces around them; or without bars, right after the bracket.
# The latter is not decided while only spaces have come after it: a bar may follow them.
_HEAD = pattern(
    rf"{_OPEN}{_GAP}[{_SLASHES}]?"
    rf"(?:[ \t]{{0,4}}[{_BARRED}]{_SPACED_BARS}[{_SLASHES}]?{_WORD}[{_BARRED}\s]{{0,8}}"
    rf"|[ \t]{{0,4}}{_WORD}[ \t]{{0,4}}[{_BARRED}][{_BARRED}\s]{{0,8}}"
    rf"|(?<=[{OPENING_BRACKETS}{_SLASHES}]){_WORD}(?![ \t]{{2,4}}\Z)\s?)[{_SLASHES}]?"
)
# Text that may still become a head, or a token with spaces in it.
_HEAD_START = pattern(
    rf"{_OPEN}{_GAP}{_SLASHED_BARS}(?:(?i:{WORD[0]}(?:{WORD[1]}{WORD[2]}?)?)?"
    rf"|{_WORD}[{_BARRED}\s]{{0,8}})\Z"
    r"|<[ \t]{0,4}(?:/[ \t]{0,4}(?:(?i:t(?:h(?:i(?:nk?)?)?)?)[ \t]{0,4})?)?\Z"
)
# First letters of the word, and of tokens in mere brackets; and bars, because some are letters.
_FIRST = "".join(letter.lower() + letter.upper() for letter in (WORD[0], tokens.THINK_START[1]))
_FIRST_LETTERS = frozenset(_FIRST + BARS)
_PLAIN_HEAD = rf"{_OPEN}(/?)[ \t]{{0,4}}[{_BARRED}]{{0,2}}"
_PLAIN = pattern(rf"{_PLAIN_HEAD}(?:(?=[A-Za-z])|(\Z))")

_NEVER_IN_LABEL = "".join(sorted(QUOTES)) + EQUALS + OPENING_BRACKETS + CLOSING_BRACKETS
_IN_LABEL = rf"[^\s/{_NEVER_IN_LABEL}{_BARRED}{{}}\[\](),;]"
_LABEL = pattern(f"{_IN_LABEL}+")
# The name of a tag without the DSML token, as far as it has come. It must be the name that the tag
# will have, or a tag would be another where the text is cut.
PLAIN_LABEL = pattern(rf"{_PLAIN_HEAD}({_IN_LABEL}*)")
_PLAIN_WORD = rf"(?!(?i:{WORD}|{tokens.THINK_START[1:-1]}))[A-Za-z]{_IN_LABEL}{{0,63}}"
# All of the name of such a tag.
PLAIN_NAME = rf"{_OPEN}/?[ \t]{{0,4}}({_PLAIN_WORD})(?!{_IN_LABEL}|\Z)"
_KEY = pattern(r"[A-Za-z_]")
_KEY_REST = pattern(r"[\w.:-]+")
_INDENTATION = pattern(r"[ \t]+")
_TAIL = pattern(rf"[{_BARRED}/\s]+")
_UNQUOTED = pattern(
    rf"[^\s{EQUALS}{OPENING_BRACKETS}{CLOSING_BRACKETS}{_BARRED}{ATTRIBUTE_QUOTES}]+"
)
# Characters before the name in a tag that has nothing but a name.
_BEFORE_NAME = frozenset(ATTRIBUTE_QUOTES + "\\")
# Characters allowed behind a quoted value in the same line.
_BEHIND_VALUE = _OPENING | _CLOSING | {*BARS, *ascii_letters, "/", "_"}
# Characters allowed after the bracket, apart from letters.
_SECOND = frozenset(f"{_SLASHES} \t\n\r{_ZERO_WIDTH}{BARS}")

# Characters that may end a quoted value, or begin something that no value holds.
_IN_VALUE = {
    quote: pattern(rf"[{quote}{OPENING_BRACKETS}{BAR}\n]") for quote in ('"', "'")
} | dict.fromkeys(SMART_QUOTES, pattern(rf'[{SMART_QUOTES}"{OPENING_BRACKETS}{BAR}\n]'))
_IN_JSON = pattern(rf'["{{}}\[\]\\{OPENING_BRACKETS}{BAR}\n]')
_IN_JSON_STRING = pattern(rf'["\\{OPENING_BRACKETS}{BAR}\n]')

# All of a tag as releases spell it, or of one with a plain name and nothing else, where nothing in
# it can be read in two ways; or a part of such a name.
_SIMPLE = pattern(
    rf"<(/?){_DSML}( ?)(tool_calls|calls|function_calls|invoke|parameter)"
    r'(?:(?<!calls) name="([\w.:/ -]{0,512})"(?: string="(true|false)")?)?>'
    rf"|{_OPEN}(/?)({_PLAIN_WORD})(?:[{CLOSING_BRACKETS}]|(?=[{OPENING_BRACKETS}])|(\Z))"
)
# Tags as the strict grammar writes them, up to the name.
_STRICT_HEAD = pattern(rf'<{_DSML} ?(invoke|parameter) name="')
# The end of the name, or something that no name holds.
_STRICT_END = {
    "invoke": pattern(rf'(">)|\n|{_DSML}|{_ANY_FIXED}'),
    "parameter": pattern(rf'(" string="(?:true|false)">)|\n|{_DSML}|{_ANY_FIXED}'),
}
_LONGEST_STRICT_END = 32


def read_tag(source: TextBuffer, start: int) -> TagInText:
    """Reads the tag that may begin at `start`. None: it is text.

    A `PartialTag` says that its head has not all come: it is read anew with more text. From its
    name on a tag is read by a generator.
    """
    index = start - source.base
    second = source.text[index + 1 : index + 2]
    if not second:
        return MAYBE_TAG
    if source.text[index] == BAR:
        return _read_bare(source, start) if second == _DSML[1] else None
    if not (second.isalpha() or second in _SECOND):
        return None
    is_short = second in _SECOND_IN_STARTS and source.end - start <= _LONGEST_START
    if is_short and (partial := _STARTS.get(source.text[index:])):
        return partial
    simple = source.match(_SIMPLE, start)
    if simple is not None and simple[8] is not None:
        if not source.final and simple[7][0] not in _FIRST:
            return TAG_NAME
    elif simple and (simple[7] or not source.is_inert(start + 1, start + 2 + len(_DSML))):
        return _simple_tag(simple, start)
    if second.isalpha() and second not in _FIRST_LETTERS:  # as in most tags
        return _read_plain(source, start)
    return _read_head(source, start)


def _simple_tag(match: re.Match[str], start: int) -> Tag:
    slash, space, released, name, string, plain_slash, plain, _ = match.groups()
    label, attributes = plain or released, {} if name is None else {"name": name}
    kind, closing, is_marked = kind_of(label), bool(slash or plain_slash), plain is None
    tag = Tag(kind, start, match[0], closing, label, is_marked, space == " ", attributes)
    if string is not None:
        attributes["string"] = string
        if slash:  # `</D parameter name="path" string="true">` opens: a close has no name (rule 38)
            tag.closing, tag.mended = False, True
    return tag


# The head, which says what begins here.


def _read_head(source: TextBuffer, start: int) -> TagInText:
    """Reads a token, or a tag with the DSML token, unless ordinary text only spells it."""
    rest = source.slice(start, start + _LONGEST_HEAD)
    if (token := _TOKEN.match(rest)) is not None:
        is_text = source.is_inert(start, start + token.end())
        if not is_text or token[0] not in spellings.VOCABULARY_TOKENS:  # which have ids
            kind, closing = _FIXED_KINDS.get(token[0], ("think", True))
            return Tag(kind, start, token[0], closing)
    head = _HEAD.match(rest)
    if head is None:
        return MAYBE_TAG if _HEAD_START.match(rest) else _read_plain(source, start)
    partial, closing, spaced = _meaning_of(head[0])
    if head.end() == len(rest):
        return partial
    word = head[0].find(_DSML) + start
    if word >= start and source.is_inert(word, word + len(_DSML)):
        return None
    at, again, mended = start + head.end(), rest[head.end() - 1 :], False
    if head[0].endswith(_TWO_BARS) and _DSML.startswith(again[: len(_DSML)]):
        if len(again) < len(_DSML) + 2:
            return partial
        # The token is there twice: `<DD invoke name="bash">`, where D is the token (rule 38).
        spaced = again[len(_DSML)] == " "
        mended, at = True, at + len(_DSML) - 1 + spaced
    if source.match(_LABEL, at) is None:
        if not closing or source.at(at) not in _CLOSING:
            return None
        return Tag("named", start, source.slice(start, at + 1), closing, "", True, spaced)
    return _TagReader(source, start, partial, closing, True, spaced, mended).read(at)


@lru_cache(256)
def _meaning_of(head: str) -> tuple[PartialTag, bool, bool]:
    """Whether a head surely belongs to a tag, whether it closes, and whether it ends in a space."""
    before, _, behind = head.upper().partition(WORD)
    is_sure = _BARS.intersection(before + behind[:1]) and not _SPACES.intersection(before)
    closing = any(slash in head for slash in _SLASHES)
    return PartialTag.SURELY if is_sure else MAYBE_TAG, closing, head[-1].isspace()


def _read_plain(source: TextBuffer, start: int) -> TagInText:
    head = source.match(_PLAIN, start)
    if head is None:
        return None
    if head[2] is not None:
        return MAYBE_TAG
    at = source.place(head.end())
    return _TagReader(source, start, TAG_NAME, closing=bool(head[1])).read(at)


def _read_bare(source: TextBuffer, start: int) -> TagInText:
    """Reads the rest of a tag: the DSML token with no bracket before it."""
    rest = source.slice(start, start + len(_DSML) + 2)
    if len(rest) < len(_DSML) + 2:
        return MAYBE_TAG if rest.startswith(_DSML[: len(rest)]) else None
    at = start + len(_DSML) + rest[-2:-1].count(" ")
    is_token = rest.startswith(_DSML) and not source.is_inert(start, start + len(_DSML))
    if not is_token or source.match(_LABEL, at) is None:
        return None
    reader = _TagReader(source, start, MAYBE_TAG, closing=True, marked=True, spaced=True)
    return reader.read_bare(at)


# The name, the attributes and the end.


class _NoTag(Exception):
    """The text that was read turned out not to be a tag."""


@dataclass(slots=True, eq=False)
class _TagReader:
    """A tag that is being read."""

    source: TextBuffer
    start: int
    partial: PartialTag
    closing: bool
    marked: bool = False
    spaced: bool = False
    mended: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    is_quoted: bool = False  # the value of the last attribute
    is_typed: bool = False  # `string` stands before the last attribute
    # Two values of `name`, or of any attribute behind `string`, where the second may belong to the
    # value of the parameter (`string="true"name="x"`).
    has_two: bool = False
    reached: int = NOWHERE  # in the value of an attribute

    def read(self, at: int) -> Waiting[Tag | None]:
        """Reads the tag from its name on, which begins at `at`."""
        try:
            after = yield from self._run(_LABEL, at)
            if not (label := self.source.slice(at, after)):
                return None
            if not self.marked:
                self.partial = PartialTag.PLAIN
            elif not self.spaced:
                self.partial = PartialTag.SURELY
            if label.startswith("name") and self.marked and not self.closing:
                if label == "name" and self.source.at(after) == "=":
                    return (yield from self._read_wordless(at))
                label, after = yield from self._read_swapped(label, after)
            return self._without_value((yield from self._read_labelled(label, after)))
        except _NoTag:
            return None

    def _without_value(self, tag: Tag | None) -> Tag | None:
        """Turns a wrapper's tag that gives the type of a value into a broken parameter.

        A wrapper has no value: no list of calls follows `<D calls name="steps" string="false">`.
        """
        if tag is None or not tag.marked or not tag.label.lower().endswith(spellings.WRAPPER_ENDS):
            return tag
        is_parameter = "string" in tag.attributes and not tag.self_closed
        return replace(tag, kind="parameter", broken=True) if is_parameter else tag

    def read_bare(self, at: int) -> Waiting[Tag | None]:
        tag = yield from self.read(at)
        if tag is None or tag.broken or tag.raw[-1] not in _CLOSING:
            return None
        if not tag.attributes:
            return replace(tag, bare=True)
        # `D invoke name="bash">`, where D is the token, opens a call at a line's start (rule 43).
        source, before = self.source, self.source.char_before(self.start)
        opens = tag.kind in ("invoke", "parameter") and tag.name is not None
        stands_there = not before or before in _CLOSING or source.opens_line(self.start)
        return replace(tag, closing=False, mended=True) if opens and stands_there else None

    def _read_wordless(self, at: int) -> Waiting[Tag | None]:
        """A tag that lacks its word: `<D name="command" string="true">`, D being the token.

        Its attributes say what it is; a tag that breaks off is a parameter (rule 38). A tag whose
        name has no quote before it breaks off too: the word may be in it, `name=parameterpath"`.
        """
        self.mended = True
        tag = yield from self._read_labelled("parameter", at)
        if tag is None or tag.broken:
            return tag
        if self.source.at(at + len("name=")) not in _BEFORE_NAME:
            return replace(tag, broken=True)
        if "string" in tag.attributes:
            return tag
        return replace(tag, kind="invoke", label="invoke")

    def _read_swapped(self, label: str, at: int) -> Waiting[tuple[str, int]]:
        """The word of a tag that changed places with `name`, and its end (rule 38):
        `<D nameparameter="path" string="true">`, `<D name parameter="path" string="true">`."""
        word, end = label.removeprefix("name"), at
        if not word and (yield from self._at(at)) == " ":
            end = yield from self._run(_LABEL, at + 1)
            word = self.source.slice(at + 1, end)
        if word not in spellings.RELEASED_LABELS or (yield from self._at(end)) != "=":
            return label, at
        self.mended = True
        return word, end

    def _read_labelled(self, label: str, at: int) -> Waiting[Tag | None]:
        try:
            return (yield from self._read_attributes(label, at))
        except _NoTag:
            if self.is_quoted:  # no tag goes on behind it, so it was not a value
                self.attributes.popitem()
            strict = yield from self._read_strictly()
        if strict is not None or not self.marked:
            return strict
        return replace(self._made(label, at, at), broken=True)

    def _read_attributes(self, label: str, at: int) -> Waiting[Tag]:
        source = self.source
        if source.at(at) and source.at(at) in EQUALS:  # the name right after the tag's own
            if not self.marked and kind_of(label) == "named":
                raise _NoTag
            at = yield from self._read_value(kind_of(label), at + 1)
        while True:
            after = yield from self._run(SPACE, at)
            if after == source.end:  # of all text
                return (yield from self._end_before(label, at, after))
            character = source.at(after)
            if character in _CLOSING:
                return self._made(label, at, after + 1)
            if self.is_quoted and self._is_stray(character, at, after):
                raise _NoTag
            if _KEY.match(character):
                end = yield from self._read_attribute(label, at, after)
            else:
                end = yield from self._read_tail(label, at, after)
            if isinstance(end, Tag):
                return end
            at = end

    def _is_stray(self, character: str, at: int, after: int) -> bool:
        """Whether a character stands behind a quoted value in its line, and cannot be there."""
        return character not in _BEHIND_VALUE and "\n" not in self.source.slice(at, after)

    def _read_attribute(self, label: str, at: int, start: int) -> Waiting[Tag | int]:
        """The end of the attribute at `start`; or the tag, if it has ended before that."""
        source = self.source
        end = yield from self._run(_KEY_REST, start)
        equals = yield from self._run(SPACE, end)
        key = source.slice(start, end)
        if (yield from self._at(equals)) in EQUALS:
            key = key.lower() if key.lower() in _KNOWN else key
            return (yield from self._read_value(key, equals + 1))
        if key == label and self.marked and not self.attributes and at < start:
            return end  # a tag's own name may stand twice (rule 35)
        return (yield from self._end_before(label, at, start))

    def _read_tail(self, label: str, at: int, start: int) -> Waiting[Tag | int]:
        """The tag, if it ends here; or the end of bars before another attribute."""
        source = self.source
        tail = start + (source.at(start) in ATTRIBUTE_QUOTES)  # one quote too many
        run = yield from self._run(_TAIL, tail)
        behind = source.at(run)
        if behind in _CLOSING:
            return self._made(label, at, run + 1)
        is_barred = run > tail and not {"/", "\n"} & set(source.slice(at, run))
        if is_barred and _KEY.match(behind):
            return run
        return (yield from self._end_before(label, at, run))

    def _end_before(self, label: str, at: int, after: int) -> Waiting[Tag]:
        """A tag without a bracket at its end: it ends before the newline, or the next bracket.

        Text that looks like an attribute of a parameter may be its value then
        (`string="true"id = 7`, or `string="true"name="x"`).
        """
        may_hold = self.is_typed or not (self.is_quoted or _KNOWN.issuperset(self.attributes))
        if may_hold and self.marked and kind_of(label) == "parameter":
            raise _NoTag
        newline = self.source.slice(at, after).find("\n")
        if newline >= 0:
            return self._made(label, at, at + newline)
        if (yield from self._at(after)) in _OPENING:
            # White space before it is the value's: `string="true"  <b>`.
            is_parameter = self.marked and not self.closing and kind_of(label) == "parameter"
            is_space = is_parameter and self.source.slice(at, after).isspace()
            return self._made(label, at, at if is_space else after)
        raise _NoTag

    def _made(self, label: str, at: int, end: int) -> Tag:
        if end - self.start > LONGEST_TAG:
            raise _NoTag
        raw = self.source.slice(self.start, end)
        head = kind_of(label), self.start, raw, self.closing, label, self.marked, self.spaced
        is_closed = not self.closing and "/" in self.source.slice(at, end)
        is_broken = self.has_two and self.marked
        tag = Tag(*head, self.attributes, is_closed, broken=is_broken, mended=self.mended)
        opens = self.closing and self.marked and {"name", "string"} <= self.attributes.keys()
        return replace(tag, closing=False, mended=True) if opens else tag

    # Values of attributes.

    def _read_value(self, key: str, at: int) -> Waiting[int]:
        """Reads an attribute's value, and returns its end."""
        source = self.source
        at = yield from self._run(SPACE, at)
        quote = yield from self._at(at)
        is_escaped = quote == "\\"  # as in a log (rule 28)
        self.is_quoted = False
        if is_escaped:
            at += 1
            quote = yield from self._at(at)
        if quote in _IN_VALUE:
            start, found = at + 1, None
            if key == JSON_ATTRIBUTE and start > source.no_json_before and not is_escaped:
                found = yield from self._read_json(quote, start)
            if found is None:
                _, at = yield from self._next(_IN_VALUE[quote], start)
                self.is_quoted = True
                found = source.slice(start, at - 1).removesuffix("\\" if is_escaped else ""), at
            value, end = found
        else:
            end = yield from self._run(_UNQUOTED, at)
            if source.at(end) in _CLOSING and source.slice(end - 1, end) == "/":
                end -= 1
            if end == at or is_escaped:
                raise _NoTag
            value = source.slice(at, end)
        self.is_typed = "string" in self.attributes
        before = self.attributes.get(key)
        is_named_again = key == "name" and before != value
        if before is not None and (is_named_again or self.is_typed):
            self.has_two = True
        self.attributes.setdefault(key, value)
        return end

    def _next(self, marks: re.Pattern[str], at: int) -> Waiting[tuple[str, int]]:
        """The next of these marks in a value, and its end.

        A tag never contains a token of the format or a blank line.
        """
        source = self.source
        while True:
            match = source.search(marks, at, source.end)
            mark = "" if match is None else match[0]
            at, match = source.end if match is None else source.place(match.end()), None
            self.reached = at
            if at - self.start > LONGEST_TAG:
                raise _NoTag
            if not mark:
                yield self.partial
            elif mark == "\n":
                if source.at((yield from self._run(_INDENTATION, at))) == "\n":
                    raise _NoTag
            elif mark in _OPENING or mark == BAR:
                yield from self._no_token(at - 1)
            else:
                return mark, at

    def _no_token(self, at: int) -> Waiting[None]:
        source = self.source
        while True:
            rest = source.slice(at, at + _LONGEST_HEAD)
            if rest.startswith(_DSML) or _HEAD.match(rest) or _TOKEN.match(rest):
                raise _NoTag
            if not (_DSML.startswith(rest) or rest in _STARTS or _HEAD_START.match(rest)):
                return
            yield self.partial

    def _read_json(self, quote: str, start: int) -> Waiting[tuple[str, int] | None]:
        """Reads an object in quotes, which ends with its braces. None: it is something else."""
        try:
            if (yield from self._at(start)) == "{" and quote != "'":
                return (yield from self._read_object(quote, start))
        except _NoTag:  # text that no attribute holds is in no attribute's object either (rule 18)
            self.source.no_json_before = min(self.reached, self.start + LONGEST_TAG)
        return None

    def _read_object(self, quote: str, start: int) -> Waiting[tuple[str, int] | None]:
        source, at, depth, in_string = self.source, start, 0, False
        while depth or at == start:
            mark, at = yield from self._next(_IN_JSON_STRING if in_string else _IN_JSON, at)
            if mark == '"':
                in_string = not in_string
            elif mark in "{}[]":
                depth += 1 if mark in "{[" else -1
            elif in_string:
                yield from self._at(at)
                at += 1
            else:
                return (yield from self._read_escaped_object(quote, start))
        behind = yield from self._at(at)
        ends = behind == quote or (quote in SMART_QUOTES and behind in SMART_QUOTES)
        return (source.slice(start, at), at + 1) if ends else None

    def _read_escaped_object(self, quote: str, start: int) -> Waiting[tuple[str, int]]:
        """Reads an object whose own quotes are escaped."""
        mark, at = yield from self._next(_IN_JSON_STRING, start)
        while mark != quote:
            yield from self._at(at)
            mark, at = yield from self._next(_IN_JSON_STRING, at + 1)
        return re.sub(r"\\(.)", r"\1", self.source.slice(start, at - 1)), at

    # A tag in the strict spelling is a tag, whatever its name holds.

    def _read_strictly(self) -> Waiting[Tag | None]:
        source = self.source
        head = source.match(_STRICT_HEAD, self.start)
        if head is None or self.closing:
            return None
        kind, start, head = head[1], source.place(head.end()), None
        at = start
        while (match := source.search(_STRICT_END[kind], at, source.end)) is None:
            at = max(start, source.end - _LONGEST_STRICT_END)
            if source.end - self.start > LONGEST_TAG or source.final:
                return None
            yield self.partial
        end = source.place(match.end())
        if match[1] is None or end - self.start > LONGEST_TAG:
            return None
        self.attributes = {"name": source.slice(start, source.place(match.start()))}
        if kind == "parameter":
            self.attributes["string"] = "true" if "true" in match[1] else "false"
        return self._made(kind, end, end)

    # Going on through the text.

    def _at(self, at: int) -> Waiting[str]:
        """The character at a place, once it is there."""
        while not (character := self.source.at(at)):
            yield self.partial
        return character

    def _run(self, pattern: re.Pattern[str], at: int) -> Waiting[int]:
        """The end of a run of such characters. The end of all text ends it too."""
        source = self.source
        while True:
            at = source.past(pattern, at)
            if at - self.start > LONGEST_TAG:
                raise _NoTag
            if at < source.end or source.final:
                return at
            yield self.partial


@lru_cache(256)
def kind_of(label: str) -> str:
    """The kind of a tag, by the first letters of its name; "named" for any other.

    A namespace before the name, as XML has it, does not count.
    """
    label = label.rpartition(":")[2].lower()
    prefixes = spellings.TAG_PREFIXES
    return next((kind for prefix, kind in prefixes if label.startswith(prefix)), "named")

"""One tag at a time: a lexer that knows no context (recovery.md, rule 1).

`read_tag` looks at the text from a `<` on and says what stands there: a tag, no tag, or the start
of what may become one. Whatever it says holds for every way the text may go on.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias

from dsv4.format import tokens
from dsv4.format.spellings import BARS, QUOTES, SMART_QUOTES, TAG_PREFIXES, WORD

# Beyond this many characters it is no tag, and no optional white space.
LONGEST_TAG = 1024
LONGEST_SPACE = 256


class Partial(Enum):
    """The text ends inside something that may become a tag."""

    MAYBE = "nothing says yet that it is one"
    SURELY = "the DSML token is there"


class Tag:
    """A tag, from `start` to `end` of the text it was found in."""

    __slots__ = (
        "attributes",
        "bare",
        "closing",
        "end",
        "kind",
        "label",
        "plain",
        "raw",
        "self_closed",
        "start",
    )

    def __init__(self, kind: str, text: str, start: int, end: int, closing: bool = False) -> None:
        # "wrapper", "invoke", "parameter", "named" (as a tool or parameter), "think", "eos", "bos"
        self.kind = kind
        self.start = start
        self.end = end
        self.closing = closing
        self.raw = text[start:end]
        self.label = ""
        self.attributes: dict[str, str] = {}
        self.self_closed = False
        # Without the DSML token; without the angle bracket before it.
        self.plain = False
        self.bare = False

    @property
    def name(self) -> str | None:
        return self.attributes.get("name")

    def canonical(self, label: str) -> str:
        """The tag as a release spells it whose name for it is `label`."""
        if self.closing:
            return f"</{tokens.DSML}{label}>"
        attributes = ""
        if self.kind in ("invoke", "parameter"):
            attributes = f' name="{self.name}"'
        if self.kind == "parameter":
            string = "true" if self.attributes.get("string") == "true" else "false"
            attributes += f' string="{string}"'
        return f"<{tokens.DSML}{label}{attributes}>"


Reading: TypeAlias = Tag | Partial | None

_FIXED: tuple[tuple[str, str, bool], ...] = (
    (str(tokens.EOS), "eos", False),
    (str(tokens.BOS), "bos", False),
    (str(tokens.THINK_START), "think", False),
    (str(tokens.THINK_END), "think", True),
)

# What can stand behind the first character of a tag; nothing, where the text ends.
_SECOND = frozenset(
    {"", "/", " ", "\t", WORD[0], *BARS}
    | {spelling[1] for spelling, _, _ in _FIXED}
    | {prefix[0] for prefix, _ in TAG_PREFIXES}
)

_SPACED_BARS = rf"[{re.escape(BARS)} \t]{{0,8}}"
_HEAD = re.compile(rf"<[ \t]{{0,4}}(/?)[ \t]{{0,4}}{_SPACED_BARS}{WORD}{_SPACED_BARS}(/?)")
_WORD = re.compile(rf"<[ \t]{{0,4}}/?[ \t]{{0,4}}{_SPACED_BARS}{WORD}[{re.escape(BARS)}]?")
_HEAD_START = re.compile(
    rf"<[ \t]{{0,4}}(?:/[ \t]{{0,4}})?{_SPACED_BARS}(?:{WORD[0]}(?:{WORD[1]}{WORD[2]}?)?)?\Z"
)
_BARE_HEAD = re.compile(re.escape(str(tokens.DSML)) + "[ ]?")
_PLAIN_HEAD = re.compile(r"<(/?)(?=[a-z])")
_LABEL = re.compile(rf"[^\s<>=/{re.escape(BARS + QUOTES)}{{}}\[\](),;]+")

_KEY = re.compile(r"[ \t]+([A-Za-z_][\w-]*)[ \t]*=[ \t]*")
_KEY_START = re.compile(r"[ \t]+(?:[A-Za-z_][\w-]*[ \t]*)?\Z")
_TAIL = re.compile(rf"[ \t]*[{QUOTES}]?[{re.escape(BARS)}/ \t]*>")
_NO_TAIL = re.compile(rf"[ \t]*[{re.escape(BARS)} \t]*(?=[\n<])")
_TAIL_START = re.compile(rf"[ \t]*[{QUOTES}]?[{re.escape(BARS)}/ \t]*\Z")

_MARKED = rf"<(?=[ \t]{{0,4}}/?[ \t]{{0,4}}{_SPACED_BARS}{WORD})"
_VALUE_END = rf"(?=[{re.escape(BARS)}/ \t]*>|[ \t]*[\n<]|[ \t]+[A-Za-z_][\w-]*[ \t]*=)"
# In double quotes a quote ends the value only where the tag can go on. No tag stands in a value.
_DOUBLE = re.compile(rf'"((?:[^"<]|"(?!{_VALUE_END[3:]}|(?!{_MARKED})<)*)"{_VALUE_END}')
_DOUBLE_START = re.compile(rf'"(?:[^<]|(?!{_MARKED})<)*\Z')
_SINGLE = re.compile(r"'([^'<\n]*)'")
_SINGLE_START = re.compile(r"'[^'<\n]*\Z")
_SMART = re.compile(rf'[{SMART_QUOTES}]([^{SMART_QUOTES}"<\n]*)[{SMART_QUOTES}"]')
_SMART_START = re.compile(rf'[{SMART_QUOTES}][^{SMART_QUOTES}"<\n]*\Z')
_UNQUOTED = re.compile(rf"[^\s<>=/{re.escape(BARS + QUOTES)}]+")
_VALUES = {
    '"': (_DOUBLE, _DOUBLE_START),
    "'": (_SINGLE, _SINGLE_START),
    **dict.fromkeys(SMART_QUOTES, (_SMART, _SMART_START)),
}


def end_of_word(text: str, start: int) -> int | None:
    """Where the DSML token ends that stands at `start` and begins no tag. None for no token."""
    if text.startswith(tokens.DSML, start):
        return start + len(tokens.DSML)
    word = _WORD.match(text, start)
    return None if word is None else word.end()


def read_tag(text: str, start: int, plain: bool = False) -> Reading:
    """What stands at `start`, where the text has a `<` or the DSML token's first bar.

    With `plain`, tags without the DSML token are read too.
    """
    if text[start + 1 : start + 2] not in _SECOND:
        return None
    # No more than a tag may have is looked at: attributes that never end would cost all the text.
    seen = text[start : start + LONGEST_TAG + 2]
    reading = _read_bare(seen, 0) if seen[0] != "<" else _read(seen, 0, plain)
    if isinstance(reading, Tag):
        reading.start, reading.end = start, start + reading.end
        return reading if reading.end - start <= LONGEST_TAG else None
    return None if len(seen) > LONGEST_TAG else reading


def _read(text: str, start: int, plain: bool) -> Reading:
    for spelling, kind, closing in _FIXED:
        if text.startswith(spelling, start):
            return Tag(kind, text, start, start + len(spelling), closing)
    head = _HEAD.match(text, start)
    if head is not None:
        return _read_labelled(text, start, head.end(), bool(head[1] or head[2]))
    rest = text[start : start + LONGEST_TAG]
    if _HEAD_START.match(rest) or any(fixed.startswith(rest) for fixed, _, _ in _FIXED):
        return Partial.MAYBE
    return _read_plain(text, start) if plain else None


def _read_plain(text: str, start: int) -> Reading:
    head = _PLAIN_HEAD.match(text, start)
    if head is None:
        return Partial.MAYBE if text[start:] in ("<", "</") else None
    label = _LABEL.match(text, head.end())
    known = label is not None and any(
        (prefix.startswith(label[0]) and label.end() == len(text)) or label[0].startswith(prefix)
        for prefix, _ in TAG_PREFIXES
    )
    if not known:
        return None
    reading = _read_labelled(text, start, head.end(), bool(head[1]))
    if isinstance(reading, Tag):
        reading.plain = True
    return Partial.MAYBE if isinstance(reading, Partial) else reading


def _read_bare(text: str, start: int) -> Reading:
    """The DSML token with no bracket before it: what is left of a closing tag."""
    head = _BARE_HEAD.match(text, start)
    if head is None:
        return Partial.MAYBE if str(tokens.DSML).startswith(text[start : start + 6]) else None
    reading = _read_labelled(text, start, head.end(), closing=True)
    if isinstance(reading, Partial):
        return Partial.MAYBE
    if reading is not None:
        if not reading.raw.endswith(">") or reading.attributes:
            return None
        reading.bare = True
    return reading


def _read_labelled(text: str, start: int, at: int, closing: bool) -> Reading:
    label = _LABEL.match(text, at)
    if label is None:
        return Partial.SURELY if at == len(text) else None
    at = label.end()
    if at == len(text):
        return Partial.SURELY
    attributes: dict[str, str] = {}
    while (key := _KEY.match(text, at)) is not None:
        value = _read_value(text, key.end())
        if not isinstance(value, tuple):
            return value
        attributes.setdefault(key[1], value[0])
        at = value[1]
    end = _read_tail(text, at)
    if not isinstance(end, int):
        return end
    tag = Tag(_kind(label[0]), text, start, end, closing)
    tag.label = label[0]
    tag.attributes = attributes
    tag.self_closed = not closing and "/" in text[at:end]
    return tag


def _kind(label: str) -> str:
    for prefix, kind in TAG_PREFIXES:
        if label.startswith(prefix):
            return kind
    return "named"


def _read_value(text: str, at: int) -> tuple[str, int] | Partial | None:
    """The value of an attribute and where it ends."""
    if at == len(text):
        return Partial.SURELY
    whole, started = _VALUES.get(text[at], (_UNQUOTED, None))
    value = whole.match(text, at)
    if value is None:
        return Partial.SURELY if started is not None and started.match(text, at) else None
    if value.end() == len(text):
        return Partial.SURELY
    return value[1] if value.re.groups else value[0], value.end()


def _read_tail(text: str, at: int) -> int | Partial | None:
    """Where the tag ends, which may be without its bracket before a newline or another tag."""
    tail = _TAIL.match(text, at) or _NO_TAIL.match(text, at)
    if tail is not None:
        return tail.end()
    unfinished = _TAIL_START.match(text, at) or _KEY_START.match(text, at)
    return Partial.SURELY if unfinished else None

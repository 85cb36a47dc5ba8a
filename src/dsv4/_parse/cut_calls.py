"""Calls that may have been cut at the end of the text (recovery.md, rule 33): none of their markup
is shown. "Look." and the opening of a block is one, if the text ends by its length.
"""

from __future__ import annotations

import re

from dsv4._completion.limits import LONGEST_ORPHANS
from dsv4._completion.patterns import pattern
from dsv4._completion.reasons import Ended
from dsv4._format.spellings import BARS, MARKS, TAG_PREFIXES, WORD, ZERO_WIDTH
from dsv4._parse.quoting import QUOTES
from dsv4._parse.reading import Reading
from dsv4._parse.tag import MAYBE_TAG, PartialTag, Tag
from dsv4._parse.text_buffer import Steps
from dsv4._parse.twins import twin_of

# The name in the head of a tag.
_NAME_IN_HEAD = pattern(rf"(?i){WORD}[{BARS}{ZERO_WIDTH}\s]*([^\s>]*)(.*)", re.DOTALL)
_ATTRIBUTE = pattern(r"=\s*([\"']).*?(?:\1|\Z)", re.DOTALL)
_PREFIXES = tuple(prefix for prefix, _ in TAG_PREFIXES)


def may_become_call(reading: Reading, at: int, alone: bool) -> bool:
    """Whether the head of a tag may still become a call's (rule 33): `<D inv`, not `<D x`.

    `alone` is the answer where nothing follows the token.
    """
    [(name, rest)] = _NAME_IN_HEAD.findall(reading.buffer.slice(at, reading.buffer.end))
    name = name.lower()
    if not name or name.startswith(_PREFIXES):
        return alone or bool(name)
    names = [*_PREFIXES, *map(str.lower, reading.tools.declared)]
    return name in names if rest else any(one.startswith(name) for one in names)


def may_be_cut(reading: Reading, at: int) -> bool:
    """Whether markup at the end of the text may belong to a call, and is not only talked about."""
    quoted = reading.buffer.char_before(at) in QUOTES or _ends_quotation(reading, at)
    return not (reading.tools.none_declared or reading.prose.is_example or quoted)


def _ends_quotation(reading: Reading, at: int) -> bool:
    """Whether a quotation that is open closes in a tag that breaks off; not in an attribute."""
    if reading.buffer.end - at > LONGEST_ORPHANS:  # no tag is so long
        return False
    reading.prose.quoting.settle("<")
    quoting, rest = twin_of(reading.prose.quoting, {}), reading.buffer.slice(at, reading.buffer.end)
    quoting.follow(_ATTRIBUTE.sub("=", rest), at)
    quoting.settle("\n")
    return not {*reading.prose.quoting.open} <= {*quoting.open}


def is_cut(reading: Reading, tag: Tag) -> Steps[bool]:
    """Whether a call that is not certain was cut, where the text ends behind its opening."""
    buffer, ended = reading.buffer, reading.buffer.ended
    at = yield from buffer.past_space(tag.end)
    if not buffer.final or not may_be_cut(reading, tag.start):
        return False
    if at == buffer.end:
        opens_line = reading.prose.is_blank and ended is not Ended.END
        return opens_line or (ended is not None and ended.is_cut)
    behind = buffer.tag_at(at)
    if isinstance(behind, Tag) and reading.rules.role(behind) == "invoke":
        if not reading.rules.calls_declared(behind):
            return False
        at = yield from buffer.past_space(behind.end)
    return at == buffer.end or begins_tag(reading, at)


def begins_tag(reading: Reading, at: int) -> bool:
    """Whether the text ends in a part that may become a DSML tag."""
    tag = reading.buffer.tag_at(at) if reading.buffer.at(at) in MARKS else None
    is_call = tag is PartialTag.SURELY and may_become_call(reading, at, alone=True)
    return is_call or tag is MAYBE_TAG

r"""Pairs that name their content (recovery.md, rule 44): `<document>`, `[code]`,
`\begin{verbatim}`, `#+BEGIN_SRC`, `/*` and `<![CDATA[`, each with its close.

An open pair is known by its close, as `PairMark.close` spells it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from dsv4._completion.patterns import pattern
from dsv4._format.spellings import (
    CDATA,
    PLAIN_CLOSES,
    PLAIN_WRAPPER_END,
    PLAIN_WRAPPER_PREFIXES,
)

# Elements of running text, which hold words, not documents; and elements without content.
_RUNNING_TEXT = pattern(
    "a|abbr|acronym|b|bdi|bdo|big|caption|center|cite|dd|del|dfn|dl|dt|em|font|h[1-6]|i|ins|label"
    "|legend|li|mark|nobr|ol|p|rb|rp|rt|ruby|s|small|span|strike|strong|sub|summary|sup|table|tbody"
    "|td|tfoot|th|thead|think|time|tr|u|ul|var"
    "|area|base|basefont|br|col|embed|frame|hr|img|input|link|meta|param|source|track|wbr"
)
_ELEMENT = pattern(r"[a-z][\w.:-]*")
# Marks at the start of a line that are not elements.
_MARK = (
    r"\[(?P<end>/?)(?P<bracket>[a-z]\w{1,31})(?:[\s=:,][^\]\n]{0,128})?\](?![(:\[])"
    r"|\\(?P<tex>begin|end)\{(?P<environment>[a-z]{1,32}\*?)\}"
    r"|\#\+(?P<org>begin|end)_(?P<kind>[a-z]\w{0,31})"
    r"|(?P<comment>/\*|\*/)|(?P<cdata>\]\]>)"
)
MARK = pattern(rf"(?i){_MARK}")
# Directly before a call, in the middle of a line too; with options, as `{minted}{xml}` has.
_OPTIONS = r"(?:(?<=\})(?:\[[^\]\n]{0,64}\]|\{[^}\n]{0,64}\})+)?"
_LAST = pattern(
    rf"(?i)(?:(?:{_MARK}){_OPTIONS}|(?P<open_cdata>{re.escape(CDATA[0])})"
    r"|<(?P<element>[a-z][\w.:-]{0,63})(?:\s[^<>]*)?(?<!/)>)\Z"
)
# It ends in one of these, or in a name of Org's, which is no longer than this.
_ENDS_OPENING = (">", "]", "}", "*", "[")
_LONGEST_ORG = 41


class PairMark(NamedTuple):
    """A mark that opens or closes a pair, and the close that belongs to it."""

    close: str
    closes: bool


@lru_cache(maxsize=1024)  # texts about HTML name few elements, and each of them often
def is_pair(name: str) -> bool:
    """Whether an element of this name, in small letters, is a pair: not one of running text.

    Nor is a wrapper: `<tool_call>` directly before a call belongs to that call (rule 1).
    """
    local = name.rpartition(":")[2]
    if local in PLAIN_CLOSES or local.startswith(PLAIN_WRAPPER_PREFIXES):
        return False
    if local.endswith(PLAIN_WRAPPER_END) or _RUNNING_TEXT.fullmatch(local):
        return False
    return _ELEMENT.fullmatch(name) is not None


def element_close(name: str) -> str:
    return f"</{name}>"


def mark_of(match: re.Match[str]) -> PairMark:
    """The mark of a pair that a match of `MARK` has found."""
    parts = {group: text.lower() for group, text in match.groupdict().items() if text is not None}
    if "bracket" in parts:
        return PairMark(f"[/{parts['bracket']}]", bool(parts["end"]))
    if "tex" in parts:
        return PairMark(f"\\end{{{parts['environment']}}}", parts["tex"] == "end")
    if "org" in parts:
        return PairMark(f"#+end_{parts['kind']}", parts["org"] == "end")
    if "comment" in parts:
        return PairMark("*/", parts["comment"] == "*/")
    return PairMark(CDATA[1], True)


def opening_at_end(text: str) -> tuple[int, str] | None:
    """The place and the close of a pair that opens at a text's end; only white space follows it."""
    text = text.rstrip()
    if not text.endswith(_ENDS_OPENING) and "#+" not in text[-_LONGEST_ORG:]:
        return None
    # An element begins at the last bracket, all else in the last line.
    match = _LAST.search(text, max(text.rfind("<" if text[-1] == ">" else "\n"), 0))
    if match is None:
        return None
    if match["open_cdata"]:
        return match.start(), CDATA[1]
    if match["element"]:
        name = match["element"].lower()
        return (match.start(), element_close(name)) if is_pair(name) else None
    mark = mark_of(match)
    return None if mark.closes else (match.start(), mark.close)

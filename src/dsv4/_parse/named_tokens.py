"""Tokens that are only named, and so are text (recovery.md, rule 25): "It ends with", EOS in
quotes.
"""

from __future__ import annotations

from dsv4._completion.limits import LONGEST_TAG
from dsv4._completion.patterns import pattern
from dsv4._parse.quoting import PAIRS, QUOTES
from dsv4._parse.reading import Reading
from dsv4._parse.tag import TOKENS, Tag
from dsv4._parse.text_buffer import NOWHERE, Steps

_MOST_NAMED = 128  # characters of tokens in a row
# The end of a prompt that is shown within a line: a quote, or the line's end.
_ENDS_INLINE = {quote: pattern(f"[{quote}\n]") for quote in '`"'}


def is_named(reading: Reading, tag: Tag) -> Steps[bool]:
    """Whether a token is named: quoted, or in a code fence that goes on."""
    quote = reading.buffer.char_before(tag.start)
    if quote in QUOTES and (yield from _is_in_quotes(reading, tag, PAIRS.get(quote, quote))):
        return True
    if not reading.prose.is_example or reading.prose.quoting.lines().at_closing_run:
        return False
    _, ahead = yield from reading.rules.after_eos(tag)
    if ahead.kind == "role" and tag.kind == "eos":
        reading.prose.is_transcript = True  # it is shown, and nothing in it runs
    return ahead.kind != "end"


def _is_in_quotes(reading: Reading, tag: Tag, quote: str) -> Steps[bool]:
    """Whether the quote before a token closes behind it, and other tokens.

    `quote` has all characters that may close it: `„` has two.
    """
    buffer, at = reading.buffer, tag.end
    longest = 0 if reading.prose.reasoning else _MOST_NAMED  # reasoning ends wherever its end is
    while (ahead := (yield from buffer.next_tag(at, at))) is not None:
        if ahead.kind not in TOKENS or at - tag.start > longest:
            break
        at = ahead.end
    if buffer.at(at) in [*quote]:
        reading.prose.named_to = at
        return True
    if reading.prose.reasoning or tag.kind == "eos" or quote not in _ENDS_INLINE:
        return False
    return (yield from _shows_prompt(reading, tag, quote))


def _shows_prompt(reading: Reading, tag: Tag, quote: str) -> Steps[bool]:
    """Whether a line shows a prompt in quotes, from BOS or a role on."""
    buffer, at = reading.buffer, tag.end
    while (match := buffer.search(_ENDS_INLINE[quote], at, buffer.end)) is None:
        at = buffer.end
        if at - tag.start > LONGEST_TAG or not (yield from buffer.more()):
            return False
    end = buffer.place(match.start())
    is_shown = match[0] != "\n" and end - tag.start <= LONGEST_TAG
    reading.prose.named_to = end if is_shown else NOWHERE
    return is_shown

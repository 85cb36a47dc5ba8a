"""The inside of a JSON string."""

from __future__ import annotations

from dsv4.grammar.rules import (
    Expression,
    StringEnd,
    Text,
    chars,
    choice,
    lexeme,
    literal,
    repeat,
    sequence,
)

# What a string cannot hold as it is.
SPECIAL = '"\\' + "".join(map(chr, range(0x20)))
_HEX = chars("0123456789abcdefABCDEF")
# Without the escaped solidus, which nobody needs: after it a word could be completed.
ESCAPE = sequence(
    literal("\\"), choice(chars('"\\bfnrt'), sequence(literal("u"), repeat(_HEX, 4, 4)))
)


def is_whole(text: str) -> bool:
    """Whether a text has whole characters alone: half of one cannot be written as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def expanded(part: StringEnd) -> Expression:
    """The same as a text, escapes and more text."""
    text = Text((*SPECIAL, *part.without))
    more = sequence(repeat(sequence(ESCAPE, text), 0, None), literal('"'))
    if not part.filled:
        return sequence(text, more)
    begun = Text(text.without, filled=True)
    return lexeme(choice(sequence(begun, more), sequence(ESCAPE, text, more)))

"""JSON strings that cannot complete a closing tag, as few rules as xgrammar is quick with.

Each state in which nearly every character may come costs that engine as much as a whole string. So
there is one such state, and it allows no bar. A bar is taken together with the characters before
it, up to one that shows that no tag has begun. A tag itself has none: a solidus, a bar, its middle
and the second bar. What follows these is rare, and goes by rules in which few characters may come.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsv4.grammar.rules import (
    NEVER,
    Chars,
    Expression,
    Reference,
    Rules,
    chars,
    choice,
    complement,
    literal,
    minus,
    one_of,
    repeat,
    sequence,
)
from dsv4.grammar.strings import ESCAPE, SPECIAL

_QUOTE = literal('"')
# What may come where a closing tag has begun: ASCII without spaces and capitals, which thousands of
# tokens begin with.
_FEW: Chars = minus(chars((0x21, 0x7E)), SPECIAL, (0x41, 0x5A))


def is_quick(words: tuple[str, ...]) -> bool:
    """Whether there is one word, and it has two bars, the first after a solidus."""
    return len(words) == 1 and words[0][0].isascii() and words[0][1] in words[0][2:]


class QuickString:
    """The inside of a JSON string and its closing quote, without a word."""

    def __init__(self, word: str, rules: Rules) -> None:
        self.rules = rules
        self.solidus, self.bar = word[0], word[1]
        self.middle, _, self.tail = word[2:].partition(self.bar)
        self.bars = repeat(chars(self.bar), 1, None)
        self.usual = minus(complement(SPECIAL), self.bar)
        self.begun: dict[int, Reference] = {}
        # Where no bar has just come, and where one has.
        self.plain = rules.reserved("string")
        self.barred = rules.reserved("string")
        bars = repeat(chars(self.bar), 0, None)
        self.anywhere = rules.named("string", sequence(bars, self.barred))
        rules.bodies[self.plain.name] = choice(_QUOTE, *self._ways())
        rules.bodies[self.barred.name] = choice(self.plain, *self._to_bars(len(self.middle)))

    def whole(self) -> Expression:
        return self.anywhere

    def filled(self) -> Expression:
        """The same, not empty. Its first character has none before it, so a bar may follow."""
        first = minus(self.usual, self.solidus)
        return self.rules.named(
            "string",
            choice(
                sequence(self.bars, self.barred),
                sequence(first, self.anywhere),
                sequence(ESCAPE, self.anywhere),
                *self._solidus_ways(),
            ),
        )

    def _ways(self) -> tuple[Expression, ...]:
        """What may come but the end."""
        return (
            sequence(minus(self.usual, self.solidus), self.plain),
            sequence(ESCAPE, self.anywhere),
            *self._solidus_ways(),
            *self._bar_ways(),
        )

    def _bar_ways(self) -> Iterator[Expression]:
        """A character, what stands between it and a bar, and the bar.

        What stands between is an end of the middle; the character shows that it is not all of it.
        """
        for start in range(len(self.middle), -1, -1):
            excluded = self.middle[start - 1] if start else ""
            if start == len(self.middle):
                excluded += self.solidus
            end = literal(self.middle[start:])
            yield sequence(minus(self.usual, excluded), end, self.bars, self.barred)

    def _solidus_ways(self) -> tuple[Expression, ...]:
        begun = literal(self.solidus + self.bar)
        return (
            sequence(literal(self.solidus), self.plain),
            sequence(begun, self._after_solidus()),
        )

    def _to_bars(self, most: int) -> list[Expression]:
        """Ends of the middle that come right after a bar, and the next bar."""
        return [
            sequence(literal(self.middle[-length:]), self.bars, self.barred)
            for length in range(1, most + 1)
        ]

    def _after_solidus(self) -> Expression:
        """What may follow a solidus and one bar: a tag may have begun."""
        return self.rules.named(
            "string",
            choice(
                self.plain,
                sequence(self.bars, self.barred),
                *self._to_bars(len(self.middle) - 1),
                sequence(literal(self.middle + self.bar), self._after(0)),
            ),
        )

    def _after(self, length: int) -> Expression:
        """What may follow the second bar and this much of the tail.

        After a letter, the string may end or the tail go on. Elsewhere it may turn away.
        """
        following = self.tail[length : length + 1]
        if length == len(self.tail):
            return NEVER
        if length and self.tail[length - 1].isalpha():
            return choice(_QUOTE, sequence(literal(following), self._after(length + 1)))
        if length not in self.begun:
            reference = self.begun[length] = self.rules.reserved("string")
            away = one_of(minus(_FEW, following + self.solidus))
            self.rules.bodies[reference.name] = choice(
                _QUOTE,
                sequence(away, self.plain),
                sequence(ESCAPE, self.anywhere),
                sequence(self.bars, self.barred),
                *self._solidus_ways(),
                sequence(literal(following), self._after(length + 1)),
            )
        return self.begun[length]

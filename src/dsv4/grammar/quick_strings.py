"""JSON strings that cannot complete a closing tag, as few rules as xgrammar is quick with.

Each rule in which nearly every character may come costs that engine as much as a whole string. So
there is one such rule. A closing tag begins with a solidus and a bar, which hardly ever stand side
by side: the bar is taken together with the character before it, and after a solidus by rules of its
own, in which few characters may come.
"""

from __future__ import annotations

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
# What may come where a closing tag has begun: ASCII without the space, which thousands of tokens
# begin with.
_FEW: Chars = minus(chars((0x21, 0x7E)), SPECIAL)


def is_quick(words: tuple[str, ...]) -> bool:
    """Whether there is one word, and it begins with a common character and a rare one."""
    return len(words) == 1 and words[0][0].isascii() and not words[0][1].isascii()


class QuickString:
    """The inside of a JSON string and its closing quote, without a word."""

    def __init__(self, word: str, rules: Rules) -> None:
        self.rules = rules
        self.common, self.rare, self.tail = word[0], word[1], word[2:]
        self.rest = rules.reserved("string")
        # The bar may come after any character but the solidus.
        self.onward = sequence(repeat(chars(self.rare), 0, None), self.rest)
        self.begun: dict[int, Reference] = {}
        rules.bodies[self.rest.name] = choice(_QUOTE, *self._ways())

    def whole(self) -> Expression:
        return self.onward

    def filled(self) -> Expression:
        """The same, not empty."""
        return choice(sequence(literal(self.rare), self.onward), *self._ways())

    def _ways(self) -> tuple[Expression, ...]:
        usual = minus(complement(SPECIAL), self.common + self.rare)
        return sequence(usual, self.onward), *self._special_ways()

    def _special_ways(self) -> tuple[Expression, ...]:
        return (
            sequence(ESCAPE, self.onward),
            sequence(literal(self.common), self.rest),
            sequence(literal(self.common + self.rare), self._after(0)),
        )

    def _after(self, length: int) -> Expression:
        """What may follow this much of the tail.

        After a letter, the string may end or the tail go on. Elsewhere it may turn away.
        """
        if length == len(self.tail):
            return NEVER
        following = self.tail[length]
        if length and self.tail[length - 1].isalpha():
            return choice(_QUOTE, sequence(literal(following), self._after(length + 1)))
        if length not in self.begun:
            reference = self.begun[length] = self.rules.reserved("string")
            away = one_of(minus(_FEW, following + self.common))
            self.rules.bodies[reference.name] = choice(
                _QUOTE,
                sequence(away, self.onward),
                sequence(literal(self.rare), self.onward) if following != self.rare else NEVER,
                *self._special_ways(),
                sequence(literal(following), self._after(length + 1)),
            )
        return self.begun[length]

"""JSON as rules: strings, numbers between bounds, names of members, and any value."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dsv4._encode.tools import to_json
from dsv4.grammar.automaton import may_hold
from dsv4.grammar.rules import (
    ESCAPED_IN_STRINGS,
    NEVER,
    CharSet,
    ChoiceExpr,
    Expression,
    LiteralExpr,
    RepeatExpr,
    Rules,
    SequenceExpr,
    StringEndExpr,
    chars,
    choice,
    complement,
    has_no_surrogates,
    lexeme,
    literal,
    minus,
    one_of,
    optional,
    repeat,
    sequence,
)

# Numbers.


_DIGIT = chars("0123456789")
_NATURAL = choice(literal("0"), sequence(chars("123456789"), repeat(_DIGIT, 0, None)))
_FRACTION = sequence(literal("."), repeat(_DIGIT, 1, None))
_EXPONENT = sequence(chars("eE"), optional(chars("+-")), repeat(_DIGIT, 1, None))


def number_rule(may_be_negative: bool = True, may_be_positive: bool = True) -> Expression:
    """A number with or without a point. What is neither negative nor positive is zero."""
    unsigned = sequence(_NATURAL, optional(_FRACTION), optional(_EXPONENT))
    zero = sequence(literal("0"), optional(literal(".0")))
    return lexeme(
        choice(
            unsigned if may_be_positive else zero,
            sequence(literal("-"), unsigned) if may_be_negative else NEVER,
        )
    )


def integer_rule(least: int | None, most: int | None) -> Expression:
    """A whole number between the bounds, both included."""
    if least is not None and most is not None and least > most:
        return NEVER
    negative = NEVER
    if least is None or least < 0:
        smallest = 1 if most is None or most >= 0 else -most
        negative = sequence(literal("-"), _natural(smallest, None if least is None else -least))
    positive = NEVER
    if most is None or most >= 0:
        positive = _natural(max(0, least or 0), most)
    return lexeme(choice(positive, negative))


def _natural(least: int, most: int | None) -> Expression:
    """Whole numbers from least on, without leading zeros."""
    if most is None:
        if least == 0:
            return _NATURAL
        width = len(str(least))
        same = _between(str(least), "9" * width)
        longer = sequence(chars("123456789"), repeat(_DIGIT, width, None))
        return choice(same, longer)
    ways = []
    for width in range(len(str(least)), len(str(most)) + 1):
        low = max(least, 10 ** (width - 1) if width > 1 else 0)
        high = min(most, 10**width - 1)
        ways.append(_between(str(low), str(high)))
    return choice(*ways)


def _between(low: str, high: str) -> Expression:
    """Numbers of as many digits as both bounds have."""
    if low == high:
        return literal(low)
    if low[0] == high[0]:
        return sequence(literal(low[0]), _between(low[1:], high[1:]))
    rest = len(low) - 1
    first, last = int(low[0]), int(high[0])
    ways: list[Expression] = []
    if low[1:].strip("0"):  # the lowest first digit allows not every rest
        ways.append(sequence(literal(low[0]), _between(low[1:], "9" * rest)))
        first += 1
    upper: Expression = NEVER
    if high[1:].strip("9"):
        upper = sequence(literal(high[0]), _between("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        digits = one_of(chars((ord("0") + first, ord("0") + last)))
        ways.append(sequence(digits, repeat(_DIGIT, rest, rest)))
    return choice(*ways, upper) if upper != NEVER else choice(*ways)


# Names that are none of the declared ones.


# What a name that begins like a declared one may go on with. All characters would take an engine
# ten times as long, for each letter of each declared name.
_USUAL = chars((48, 57), (65, 90), (97, 122), "_-. ")


def name_unlike(
    names: Iterable[tuple[str, ...]],
    usual: CharSet,
    rest: Expression,
    end: Expression,
    empty: bool,
) -> Expression:
    """A name that is none of these, which are given character by character, as they are written.

    `usual` are the characters that it may hold, `rest` is what may follow one that leads away from
    every name, and `end` what follows a name that one of these only begins with. `empty` says
    whether it may be empty.
    """
    nexts: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        if name:
            nexts.setdefault(name[0], []).append(name[1:])
        else:
            empty = False
    away = one_of(minus(usual, "".join(c for c in nexts if len(c) == 1)))
    ways = [
        sequence(literal(c), name_unlike(more, _USUAL, rest, end, True))
        for c, more in nexts.items()
    ]
    return choice(end if empty else NEVER, sequence(away, rest), *ways)


# Strings, members and any value.


# JSON is written on one line, as the encoder writes it, with or without a space after a sign. White
# space without end is what models fall into when JSON is all they may write.
_COMMA = lexeme(sequence(literal(","), optional(literal(" "))))
_COLON = lexeme(sequence(literal(":"), optional(literal(" "))))


class JsonRules:
    """JSON that holds none of some words, which would end it for whoever reads around it."""

    def __init__(self, rules: Rules, words: tuple[str, ...]) -> None:
        self.rules = rules
        self.words = words
        # The patterns that strings were made for.
        self.patterns: dict[str, Expression] = {}
        self._any: Expression | None = None

    # Signs.

    comma = _COMMA
    colon = _COLON

    def bracketed(self, opening: str, inside: Expression, closing: str) -> Expression:
        return sequence(literal(opening), inside, literal(closing))

    # Strings.

    def string(self, filled: bool = False) -> Expression:
        whole = sequence(literal('"'), StringEndExpr(self.words, filled))
        return self.rules.named("string", lexeme(whole))

    def quoted(self, inside: Expression) -> Expression:
        return sequence(literal('"'), inside, literal('"'))

    def constant(self, value: object) -> Expression:
        """A value as the encoder writes it, with an escape where it would spell a word."""
        text = to_json(value)
        for word in self.words:
            text = text.replace(word, f"\\u{ord(word[0]):04x}{word[1:]}")
        return literal(text if has_no_surrogates(text) else json.dumps(value))

    def escaped(self, part: Expression) -> Expression:
        """A regular expression over characters as one over their JSON."""
        if isinstance(part, LiteralExpr):
            return literal(to_json(part.text)[1:-1])
        if isinstance(part, CharSet):
            special = [c for c in ESCAPED_IN_STRINGS if part.has(c)]
            plain = one_of(minus(part, ESCAPED_IN_STRINGS))
            return choice(plain, *(literal(to_json(c)[1:-1]) for c in special))
        if isinstance(part, SequenceExpr):
            return sequence(*map(self.escaped, part.parts))
        if isinstance(part, ChoiceExpr):
            return choice(*map(self.escaped, part.options))
        assert isinstance(part, RepeatExpr), part
        return repeat(self.escaped(part.part), part.least, part.most)

    # Members.

    def key(self, name: str) -> Expression:
        return sequence(self.constant(name), self.colon)

    def other_key(self, names: tuple[str, ...]) -> Expression:
        """The name of a member that is none of these."""
        if not names:
            return sequence(self.string(), self.colon)
        # One that begins with what a word begins with would need a search of its own.
        usual = complement(ESCAPED_IN_STRINGS, "".join(word[0] for word in self.words))
        rest = self.rules.named("inside", StringEndExpr(self.words))
        inside = name_unlike(map(_units, names), usual, rest, end=literal('"'), empty=True)
        key = lexeme(sequence(literal('"'), inside))
        return sequence(self.rules.named("key", key), self.colon)

    # Any value.

    def value(self) -> Expression:
        """Any value."""
        if self._any is None:
            self._any = self.rules.reserved("value")
            self.rules.bodies[self._any.name] = choice(self.string(), self.value_but_string())
        return self._any

    def value_but_string(self) -> Expression:
        return choice(self.object(), self.array(), *self.simple())

    def simple(self) -> tuple[Expression, ...]:
        return self.rules.named("number", number_rule()), *map(literal, ("true", "false", "null"))

    def array(self) -> Expression:
        items = sequence(self.value(), repeat(sequence(self.comma, self.value()), 0, None))
        return self.rules.named("array", self.bracketed("[", optional(items), "]"))

    def object(self) -> Expression:
        member = self.rules.named("member", sequence(self.other_key(()), self.value()))
        members = sequence(member, repeat(sequence(self.comma, member), 0, None))
        return self.rules.named("object", self.bracketed("{", optional(members), "}"))

    def keeps_apart(self, part: Expression) -> bool:
        """Whether no text of a regular expression holds one of the words."""
        return not may_hold(part, self.words)


def _units(name: str) -> tuple[str, ...]:
    """A name, character by character, as JSON writes it."""
    return tuple(to_json(character)[1:-1] for character in name)

"""JSON as rules: strings, numbers between bounds, names of members, and any value."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dsv4._encode.tools import to_json
from dsv4.grammar import expressions as ex
from dsv4.grammar.expressions import Expression, Rules

# Numbers.


_DIGIT = ex.chars("0123456789")
_NATURAL = ex.choice(
    ex.literal("0"), ex.sequence(ex.chars("123456789"), ex.repeat(_DIGIT, 0, None))
)
_FRACTION = ex.sequence(ex.literal("."), ex.repeat(_DIGIT, 1, None))
_EXPONENT = ex.sequence(ex.chars("eE"), ex.optional(ex.chars("+-")), ex.repeat(_DIGIT, 1, None))


def number_rule(may_be_negative: bool = True, may_be_positive: bool = True) -> Expression:
    """A number with or without a point; only zero if it may be neither negative nor positive."""
    unsigned = ex.sequence(_NATURAL, ex.optional(_FRACTION), ex.optional(_EXPONENT))
    zero = ex.sequence(ex.literal("0"), ex.optional(ex.literal(".0")))
    return ex.lexeme(
        ex.choice(
            unsigned if may_be_positive else zero,
            ex.sequence(ex.literal("-"), unsigned) if may_be_negative else ex.NEVER,
        )
    )


def integer_rule(least: int | None, most: int | None) -> Expression:
    """A whole number between the bounds, both included."""
    if least is not None and most is not None and least > most:
        return ex.NEVER
    negative = ex.NEVER
    if least is None or least < 0:
        smallest = 1 if most is None or most >= 0 else -most
        negative = ex.sequence(
            ex.literal("-"), _natural(smallest, None if least is None else -least)
        )
    positive = ex.NEVER
    if most is None or most >= 0:
        positive = _natural(max(0, least or 0), most)
    return ex.lexeme(ex.choice(positive, negative))


def _natural(least: int, most: int | None) -> Expression:
    """Whole numbers from `least` to `most`, without leading zeros."""
    if most is None:
        if least == 0:
            return _NATURAL
        width = len(str(least))
        same = _between(str(least), "9" * width)
        longer = ex.sequence(ex.chars("123456789"), ex.repeat(_DIGIT, width, None))
        return ex.choice(same, longer)
    ways = []
    for width in range(len(str(least)), len(str(most)) + 1):
        low = max(least, 10 ** (width - 1) if width > 1 else 0)
        high = min(most, 10**width - 1)
        ways.append(_between(str(low), str(high)))
    return ex.choice(*ways)


def _between(low: str, high: str) -> Expression:
    """Numbers of as many digits as both bounds have."""
    if low == high:
        return ex.literal(low)
    if low[0] == high[0]:
        return ex.sequence(ex.literal(low[0]), _between(low[1:], high[1:]))
    rest = len(low) - 1
    first, last = int(low[0]), int(high[0])
    ways: list[Expression] = []
    if low[1:].strip("0"):  # the lowest first digit does not allow every rest
        ways.append(ex.sequence(ex.literal(low[0]), _between(low[1:], "9" * rest)))
        first += 1
    upper: Expression = ex.NEVER
    if high[1:].strip("9"):
        upper = ex.sequence(ex.literal(high[0]), _between("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        digits = ex.one_of(ex.chars((ord("0") + first, ord("0") + last)))
        ways.append(ex.sequence(digits, ex.repeat(_DIGIT, rest, rest)))
    return ex.choice(*ways, upper) if upper != ex.NEVER else ex.choice(*ways)


# Names other than the declared ones.


# The characters with which a name that begins like a declared one may continue. Allowing all would
# take an engine ten times as long, for each letter of each declared name.
_USUAL = ex.chars((48, 57), (65, 90), (97, 122), "_-. ")


def name_unlike(
    names: Iterable[tuple[str, ...]],
    usual: ex.CharSet,
    rest: Expression,
    end: Expression,
    empty: bool,
) -> Expression:
    """A name other than these, which are given character by character, as they are written.

    `usual` are the characters that it may hold. `rest` follows a character that makes it differ
    from every name; `end` follows a name that is only the beginning of one of these. `empty` says
    whether it may be empty.
    """
    nexts: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        if name:
            nexts.setdefault(name[0], []).append(name[1:])
        else:
            empty = False
    away = ex.one_of(ex.minus(usual, "".join(c for c in nexts if len(c) == 1)))
    ways = [
        ex.sequence(ex.literal(c), name_unlike(more, _USUAL, rest, end, True))
        for c, more in nexts.items()
    ]
    return ex.choice(end if empty else ex.NEVER, ex.sequence(away, rest), *ways)


# Strings, members and any value.


class JsonRules:
    """JSON without some words, which would end it for the parser of the text around it."""

    def __init__(self, rules: Rules, words: tuple[str, ...]) -> None:
        self.rules = rules
        self.words = words
        # The rules of strings, by their patterns.
        self.patterns: dict[str, Expression] = {}
        self._any: Expression | None = None

    # JSON is written on one line, as the encoder writes it, with or without a space after a sign.
    # Models that may only write JSON otherwise tend to write endless white space.
    comma: Expression = ex.lexeme(ex.sequence(ex.literal(","), ex.optional(ex.literal(" "))))
    colon: Expression = ex.lexeme(ex.sequence(ex.literal(":"), ex.optional(ex.literal(" "))))

    def bracketed(self, opening: str, inside: Expression, closing: str) -> Expression:
        return ex.sequence(ex.literal(opening), inside, ex.literal(closing))

    # Strings.

    def string(self, filled: bool = False) -> Expression:
        whole = ex.sequence(ex.literal('"'), ex.StringEndExpr(self.words, filled))
        return self.rules.named("string", ex.lexeme(whole))

    def quoted(self, inside: Expression) -> Expression:
        return ex.sequence(ex.literal('"'), inside, ex.literal('"'))

    def constant(self, value: object) -> Expression:
        """A value as the encoder writes it, with an escape in any word that it would spell."""
        text = to_json(value)
        for word in self.words:
            text = text.replace(word, f"\\u{ord(word[0]):04x}{word[1:]}")
        return ex.literal(text if ex.has_no_surrogates(text) else json.dumps(value))

    def escaped(self, part: Expression) -> Expression:
        """A regular expression over characters as one over their JSON."""
        if isinstance(part, ex.LiteralExpr):
            return ex.literal(to_json(part.text)[1:-1])
        if isinstance(part, ex.CharSet):
            special = [c for c in ex.ESCAPED_IN_STRINGS if part.has(c)]
            plain = ex.one_of(ex.minus(part, ex.ESCAPED_IN_STRINGS))
            return ex.choice(plain, *(ex.literal(to_json(c)[1:-1]) for c in special))
        return ex.rebuilt(part, self.escaped)

    # Members.

    def key(self, name: str) -> Expression:
        return ex.sequence(self.constant(name), self.colon)

    def other_key(self, names: tuple[str, ...]) -> Expression:
        """The name of a member, other than these."""
        if not names:
            return ex.sequence(self.string(), self.colon)
        # A name with the first character of a word would need a separate search.
        usual = ex.complement(ex.ESCAPED_IN_STRINGS, "".join(word[0] for word in self.words))
        rest = self.rules.named("inside", ex.StringEndExpr(self.words))
        inside = name_unlike(map(_units, names), usual, rest, end=ex.literal('"'), empty=True)
        key = ex.lexeme(ex.sequence(ex.literal('"'), inside))
        return ex.sequence(self.rules.named("key", key), self.colon)

    # Any value.

    def value(self) -> Expression:
        """Any value."""
        if self._any is None:
            self._any = self.rules.reserved("value")
            self.rules.bodies[self._any.name] = ex.choice(self.string(), self.value_but_string())
        return self._any

    def value_but_string(self) -> Expression:
        return ex.choice(self.object(), self.array(), *self.simple())

    def simple(self) -> tuple[Expression, ...]:
        return self.rules.named("number", number_rule()), *map(
            ex.literal, ("true", "false", "null")
        )

    def array(self) -> Expression:
        items = ex.sequence(self.value(), ex.repeat(ex.sequence(self.comma, self.value()), 0, None))
        return self.rules.named("array", self.bracketed("[", ex.optional(items), "]"))

    def object(self) -> Expression:
        member = self.rules.named("member", ex.sequence(self.other_key(()), self.value()))
        members = ex.sequence(member, ex.repeat(ex.sequence(self.comma, member), 0, None))
        return self.rules.named("object", self.bracketed("{", ex.optional(members), "}"))

    def keeps_apart(self, part: Expression) -> bool:
        """Whether no text of a regular expression can hold one of the words, because each word has
        a character that the texts lack."""
        found = ex.characters_in(part, frozenset().union(*self.words))
        return not any(found.issuperset(word) for word in self.words)


def _units(name: str) -> tuple[str, ...]:
    """A name, character by character, as JSON writes it."""
    return tuple(to_json(character)[1:-1] for character in name)

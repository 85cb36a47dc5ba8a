"""Numbers as JSON writes them: integers between bounds, numbers with a sign."""

from __future__ import annotations

from dsv4.grammar.rules import (
    NEVER,
    Expression,
    chars,
    choice,
    lexeme,
    literal,
    one_of,
    optional,
    repeat,
    sequence,
)

_DIGIT = chars("0123456789")
_NATURAL = choice(literal("0"), sequence(chars("123456789"), repeat(_DIGIT, 0, None)))
_FRACTION = sequence(literal("."), repeat(_DIGIT, 1, None))
_EXPONENT = sequence(chars("eE"), optional(chars("+-")), repeat(_DIGIT, 1, None))


def number(may_be_negative: bool = True, may_be_positive: bool = True) -> Expression:
    """A number with or without a point. What is neither negative nor positive is zero."""
    unsigned = sequence(_NATURAL, optional(_FRACTION), optional(_EXPONENT))
    zero = sequence(literal("0"), optional(literal(".0")))
    return lexeme(
        choice(
            unsigned if may_be_positive else zero,
            sequence(literal("-"), unsigned) if may_be_negative else NEVER,
        )
    )


def integer(least: int | None, most: int | None) -> Expression:
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

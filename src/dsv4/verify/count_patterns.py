"""Changes that a server makes to every count before it reports it: a factor, rounding, a minimum.

A pattern is found where a known server explains all counts with it. It is removed before anything
else is compared: a bill that is 1.1 times as high is not another prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

# At least so many different counts must show a pattern. So many equal ones show a minimum.
LEAST_SHOWING = 4
LEAST_EQUAL = 4
# At least so many counts must differ by more than one token. A difference of one may come from
# rounding a short prompt, or from a fault.
LEAST_CLEAR = 2
# A smaller step does not count as rounding: all counts may be even by chance.
LEAST_STEP = 5
# Two counts that are multiples of so many tokens are rounded.
COARSE_STEP = 100
MOST_DECIMALS = 2
HIGHEST_FACTOR = 100

# Pairs of our count and the server's.
Counted = Sequence[tuple[int, int]]


def _nearest(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


ROUNDINGS: Mapping[str, Callable[[Fraction], int]] = {
    "up": math.ceil,
    "down": math.floor,
    "to the nearest": _nearest,
    "to the nearest even": round,
}


@dataclass(frozen=True)
class CountPattern:
    """A change of counts. `added` applies to the requests that have what `where` names. Products
    are exact, or `inexact` as with floats, where 100 times 1.1 is more than 110."""

    factor: Fraction = Fraction(1)
    step: int = 1
    rounding: str = "to the nearest"
    least: int = 0
    added: int = 0
    where: str = ""
    inexact: bool = False

    def __call__(self, count: int) -> int:
        """The number that the server reports for a `count` of its own."""
        product = Fraction(float(self.factor) * count) if self.inexact else self.factor * count
        return max(ROUNDINGS[self.rounding](product / self.step) * self.step, self.least)

    @property
    def is_lossy(self) -> bool:
        """Whether two counts may become equal, so that faults cannot be told apart by them."""
        return self.factor < 1 or self.step > 1 or self.least > 0

    @property
    def id(self) -> str:
        """The id of the finding that reports it."""
        if self.added:
            return "billing-offset"
        if self.least:
            return "billing-least"
        return "billing-rounded" if self.step > 1 else "billing-factor"

    def __str__(self) -> str:
        if self.added:
            return f"{self.added} tokens more are counted where there {self.where}"
        if self.least:
            return f"no count is below {self.least}"
        if self.step > 1:
            return f"counts are rounded {self.rounding} multiple of {self.step}".replace(
                "rounded up", "rounded up to a"
            ).replace("rounded down", "rounded down to a")
        is_whole = self.factor.denominator == 1
        rounded = "" if is_whole else f", rounded {self.rounding}".removesuffix(" even")
        return f"every count is {float(self.factor):g} times ours{rounded}"


def likely_patterns(seen: Sequence[int]) -> Iterator[CountPattern]:
    """The patterns of rounding and of a minimum that these counts may have."""
    values = set(seen)
    step = math.gcd(*values)
    if step >= (LEAST_STEP if len(values) >= LEAST_SHOWING else COARSE_STEP) and len(values) > 1:
        yield from (CountPattern(step=step, rounding=name) for name in ROUNDINGS)
    if values and seen.count(min(values)) >= LEAST_EQUAL:
        yield CountPattern(least=min(values))


def factors_of(counted: Counted) -> Iterator[CountPattern]:
    """The patterns with which all these counts are our counts times one factor. Each count limits
    the factor to an interval, which is short where the count is high."""
    changed = {ours: abs(seen - ours) for ours, seen in counted if ours != seen}
    clear = [ours for ours, difference in changed.items() if difference > 1]
    if len(changed) < LEAST_SHOWING or len(clear) < LEAST_CLEAR or any(n < 1 for n, _ in counted):
        return
    for name, (below, above) in _MARGINS.items():
        low = max((seen - below) / ours for ours, seen in counted)
        high = min((seen + above) / ours for ours, seen in counted)
        factor = _plainest(low, high) if low <= high else None
        if factor is None or factor == 1:
            continue
        for inexact in (False, True):
            pattern = CountPattern(factor, rounding=name, inexact=inexact)
            if all(pattern(ours) == seen for ours, seen in counted):
                yield pattern


_HALF = Fraction(1, 2)
# The amounts by which a product may be below, and above, the count that it is rounded to.
_MARGINS = {
    "to the nearest": (_HALF, _HALF),
    "to the nearest even": (_HALF, _HALF),
    "up": (Fraction(1), Fraction(0)),
    "down": (Fraction(0), Fraction(1)),
}


def plainest_factor(ours: int, seen: int) -> Fraction | None:
    """The plainest factor from our difference between two counts to theirs, which were rounded."""
    return _plainest(Fraction(seen - 1, ours), Fraction(seen + 1, ours))


def _plainest(low: Fraction | float, high: Fraction | float) -> Fraction | None:
    """The number with the fewest decimals in an interval; None where none is plain enough to have
    been chosen as a factor."""
    for decimals in range(MOST_DECIMALS + 1):
        scale = 10**decimals
        number = math.ceil(low * scale)
        if 0 < number <= high * scale and number <= HIGHEST_FACTOR * scale:
            return Fraction(number, scale)
    return None

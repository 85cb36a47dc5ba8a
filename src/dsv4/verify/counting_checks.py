"""Whether counts can be believed: are they of this vocabulary, or estimates?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dsv4.verify.observations import Observation
from dsv4.verify.probes import PROBES

# Texts whose tokens have very different lengths: no estimate is right for all of them.
VOCABULARY_PROBES = (
    "count-chinese",
    "count-code",
    "count-digits",
    "count-emoji",
    "count-newlines",
)
# Their tokens in the vocabulary of V4. The prompts around them are the same for all.
TEXT_TOKENS = {
    "plain": 1,
    "count-100": 100,
    "count-1000": 1000,
    "count-chinese": 8,
    "count-code": 17,
    "count-digits": 14,
    "count-emoji": 13,
    "count-newlines": 8,
}
# So many texts must have other counts than they should before counting itself is doubted.
LEAST_DOUBTS = 3
# By how many tokens an estimate may miss a straight line: it is rounded.
ROUNDING = 1.0


def counting_fault(observations: Iterable[Observation]) -> str | None:
    """The fault of a counter that is none: "counts-estimated" or "other-vocabulary".

    None where the counts are of this vocabulary, or too few were seen to tell.
    """
    counted_texts = [
        (o.probe, o.count)
        for o in observations
        if o.probe in TEXT_TOKENS and o.count is not None and not o.refused
    ]
    # Two servers in turn have two prompts around the same texts.
    around = {count - TEXT_TOKENS[probe] for probe, count in counted_texts if probe == "plain"}
    texts = {probe: count for probe, count in counted_texts if probe in VOCABULARY_PROBES}
    wrong = [probe for probe, count in texts.items() if count - TEXT_TOKENS[probe] not in around]
    if not around or len(wrong) < LEAST_DOUBTS:
        return None
    counted = [(PROBES[probe].request["messages"][0]["content"], n) for probe, n in counted_texts]
    return "counts-estimated" if _is_estimate(counted) else "other-vocabulary"


MEASURES: tuple[Callable[[str], int], ...] = (
    len,
    lambda text: len(text.encode()),
    lambda text: len(text.split()),
)


def _is_estimate(counted: Sequence[tuple[str, int]]) -> bool:
    """Whether the counts follow from the characters, the bytes or the words of the texts."""
    return any(_is_line([(measure(text), n) for text, n in counted]) for measure in MEASURES)


def _is_line(points: Sequence[tuple[int, int]]) -> bool:
    """Whether all points are on one line, but for rounding."""
    (x0, y0), (x1, y1) = min(points), max(points)
    if x0 == x1:
        return False
    slope = (y1 - y0) / (x1 - x0)
    return all(abs(y0 + slope * (x - x0) - y) <= ROUNDING + 1e-9 for x, y in points)

"""Checks of what counts mean: this vocabulary or estimates, with cached tokens or without."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from dsv4.profiles.request_changes import messages_in
from dsv4.profiles.server_requests import Object
from dsv4.verify.count_patterns import COARSE_STEP
from dsv4.verify.observations import Observation
from dsv4.verify.probes import PROBES

# Texts whose tokens have very different lengths, so that no estimate is right for all of them, with
# their number of tokens in the vocabulary of V4. The prompts around them are the same for all.
_VOCABULARY_TOKENS = {
    **{"count-chinese": 8, "count-code": 17, "count-digits": 14},
    **{"count-emoji": 13, "count-newlines": 8},
}
TEXT_TOKENS = {"plain": 1, "count-100": 100, "count-1000": 1000, **_VOCABULARY_TOKENS}
# At least so many texts must have wrong counts before counting itself is doubted.
LEAST_DOUBTS = 3
# More are needed to doubt the vocabulary: a proxy that changes texts may change some of them.
LEAST_OF_OTHER_VOCABULARY = 4
# The number of tokens by which an estimate may miss a straight line: it is rounded.
ROUNDING = 2.0
# So many different counts with a common divisor are rounded; so many equal ones are not counts.
LEAST_ROUNDED = 6
LEAST_DIVISOR = 5
LEAST_CONSTANT = 4

ROUNDED = "counts-estimated"
# At least so many conversations must have the same count as others with the same ending, with at
# least so many endings.
LEAST_ALIKE = 8
LEAST_ENDINGS = 3

Counted = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class UsageReading:
    """The `observations` by one reading of usage, and the `fault` of a server that counts so."""

    observations: Sequence[Observation]
    fault: str = ""


def usage_readings(observations: Sequence[Observation]) -> list[UsageReading]:
    """The ways to read usage: `prompt_tokens` is the whole prompt, or only the part that was not
    cached, so that both numbers together are the prompt."""
    whole = [
        replace(o, count=o.count + o.cached) if o.count is not None and o.cached else o
        for o in observations
    ]
    readings = [UsageReading(observations)]
    if whole != list(observations):
        readings.append(UsageReading(whole, WITHOUT_CACHED))
    return readings


WITHOUT_CACHED = "counts-without-cached"


def counting_doubt(observations: Sequence[Observation]) -> tuple[str, str] | None:
    """The fault of a counter that does not count these tokens, and what shows it, in words.

    None where the counts are of this vocabulary, or too few were seen to tell.
    """
    counts = {o.probe: o.count for o in observations if o.count is not None and not o.refused}
    values = set(counts.values())
    if len(counts) >= LEAST_CONSTANT and len(values) == 1:
        return "counts-constant", f"{len(counts)} requests are counted as {values.pop():,} tokens"
    divisor = gcd(*values) if values else 1
    least = LEAST_DIVISOR if len(values) >= LEAST_ROUNDED else COARSE_STEP
    if len(counts) >= LEAST_ROUNDED and len(values) > 1 and divisor >= least:
        return ROUNDED, f"all {len(counts)} counts are multiples of {divisor}"
    return _doubt_of_texts(observations)


def _doubt_of_texts(observations: Sequence[Observation]) -> tuple[str, str] | None:
    # Two servers in turn have two prompts around the same texts. Cached tokens may be left out.
    counted_texts = [
        (o.probe, count)
        for o in observations
        if o.probe in TEXT_TOKENS and o.count is not None and not o.refused
        for count in {o.count, o.count + (o.cached or 0)}
    ]
    around = {count - TEXT_TOKENS[probe] for probe, count in counted_texts if probe == "plain"}
    right = {probe for probe, count in counted_texts if count - TEXT_TOKENS[probe] in around}
    wrong = {probe for probe, _ in counted_texts if probe in _VOCABULARY_TOKENS} - right
    if not around or len(wrong) < LEAST_DOUBTS:
        return None
    counted = [(PROBES[probe].request["messages"][0]["content"], n) for probe, n in counted_texts]
    name = _estimate(counted)
    if name is not None:
        return "counts-estimated", f"the counts follow from the {name} of the texts"
    # In any vocabulary a word is as long the thousandth time as the first.
    if right & LONG_TEXTS != LONG_TEXTS or len(wrong) < LEAST_OF_OTHER_VOCABULARY:
        return None
    return "other-vocabulary", f"{', '.join(sorted(wrong))} have other counts"


LONG_TEXTS = {"count-100", "count-1000"}
MEASURES: dict[str, Callable[[str], int]] = {
    "characters": len,
    "bytes": lambda text: len(text.encode()),
    "words": lambda text: len(text.split()),
    "characters as JSON": lambda text: len(json.dumps(text)),
}


def _estimate(counted: Counted) -> str | None:
    """The measure of the texts that the counts follow from, if they follow from length only."""
    for name, measure in MEASURES.items():
        if _is_line([(measure(text), n) for text, n in counted]):
            return name
    as_json = [(json.dumps(text, ensure_ascii=False), n) for text, n in counted]
    return "scripts" if _is_by_script(counted) or _is_by_script(as_json) else None


def _is_line(points: Sequence[tuple[int, int]]) -> bool:
    """Whether all points are on one line, but for rounding."""
    (x0, y0), (x1, y1) = min(points), max(points)
    if x0 == x1:
        return False
    slope = (y1 - y0) / (x1 - x0)
    return all(abs(y0 + slope * (x - x0) - y) <= ROUNDING + 1e-9 for x, y in points)


def _is_by_script(counted: Counted) -> bool:
    """Whether ASCII characters all weigh the same, and all others the same but something else."""
    ascii_only = [(len(text), n) for text, n in counted if text.isascii()]
    others = [(sum(not c.isascii() for c in text), text, n) for text, n in counted]
    if len(ascii_only) < LEAST_CONSTANT or not _is_line(ascii_only):
        return False
    (x0, y0), (x1, y1) = min(ascii_only), max(ascii_only)
    slope = (y1 - y0) / (x1 - x0)
    rest = [
        (many, round(n - slope * (len(text) - many - x0) - y0)) for many, text, n in others if many
    ]
    return len(rest) > 1 and _is_line([(0, 0), *rest])


def repeated_counts(observations: Iterable[Observation]) -> tuple[str, str] | None:
    """The fault of counts that depend only on the end of a request, and what shows it, in words."""
    counted = [
        (o.body, o.count)
        for o in observations
        if o.count is not None and o.body is not None and messages_in(o.body)
    ]
    for words, ending in _ENDINGS.items():
        endings = _shared_endings(counted, ending)
        conversations, alike = sum(endings.values()), len(endings)
        if alike >= LEAST_ENDINGS and conversations - alike >= LEAST_ALIKE:
            reason = f"{conversations} conversations have {alike} counts, by {words}"
            return "counts-repeated", reason
    return None


def _shared_endings(
    counted: Iterable[tuple[Object, int]], ending: Callable[[Object], object]
) -> dict[str, int]:
    """The endings that several conversations have, with the number of conversations. Empty if
    requests with the same ending have different counts."""
    counts: dict[str, set[int]] = {}
    conversations: dict[str, set[str]] = {}
    for body, count in counted:
        end = json.dumps(ending(body))
        counts.setdefault(end, set()).add(count)
        conversations.setdefault(end, set()).add(json.dumps(messages_in(body)))
    if any(len(values) > 1 for values in counts.values()):
        return {}
    return {end: len(same) for end, same in conversations.items() if len(same) > 1}


def _last_of_user(body: Object) -> Object | None:
    own = [message for message in messages_in(body) if message.get("role") == "user"]
    return own[-1] if own else None


_ENDINGS: Mapping[str, Callable[[Object], object]] = {
    "their last message": lambda body: messages_in(body)[-1],
    "their last message and tools": lambda body: (messages_in(body)[-1], body.get("tools")),
    "the last message of a user": _last_of_user,
}

"""The search for the pattern in the counts of a server, by the known server that it fits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dsv4.verify.common_causes import having_each_aspect
from dsv4.verify.count_patterns import (
    ROUNDINGS,
    CountPattern,
    factors_of,
    likely_patterns,
    plainest_factor,
)
from dsv4.verify.fits import Fits, usual_count
from dsv4.verify.hypotheses import Hypothesis
from dsv4.verify.nearest import off_by

# Two texts that differ by `_WORDS` words, in any prompt around them.
_SHORT, _LONG, _WORDS = "count-100", "count-1000", 900
# At least so many requests must be longer by one number of tokens, and all that are like them.
LEAST_ADDED = 3
# The words in which a pattern names what requests have in common.
_WORDS_FOR = {
    "system": "is a system text",
    "tools": "are tools",
    "tool": "are results of tools",
    "assistant": "are earlier answers",
    "reasoning_effort": "is an effort",
    "developer": "is a developer text",
}


def pattern_of(fits: Fits) -> CountPattern | None:
    """The factor or the rounding with which a known server explains all counts, if none does
    without. Factors come first: they keep counts distinct."""
    servers = fits.forecasts.servers()
    if any(map(fits.exact_in_counts, servers)):
        return None
    for server in servers:
        if (counted := _counted(fits, server)) is not None:
            for pattern in factors_of(counted):
                return pattern
    return next((p for p in likely_patterns(_seen(fits)) if p.step > 1 and _fits(fits, p)), None)


def late_patterns(fits: Fits) -> Iterator[CountPattern]:
    """Patterns to try where neither a fault nor a pattern of all counts explains them: a minimum,
    and the factor by which a long text is counted longer than a short one."""
    yield from (p for p in likely_patterns(_seen(fits)) if p.least)
    counts = {o.probe: o.count for o in fits.observations if o.count is not None}
    if _SHORT in counts and _LONG in counts:
        factor = plainest_factor(_WORDS, counts[_LONG] - counts[_SHORT])
        if factor is not None and factor > 1:
            patterns = [CountPattern(factor, rounding=name) for name in ROUNDINGS]
            yield max(patterns, key=partial(_explained_with, fits))


def _explained_with(fits: Fits, pattern: CountPattern) -> int:
    """The largest number of answers that a server explains with a pattern."""
    patterned = Fits(fits.observations, fits.forecasts.with_pattern(pattern))
    servers = fits.forecasts.servers()
    return max(sum(patterned.fits(each, o) for o in fits.observations) for each in servers)


def _seen(fits: Fits) -> list[int]:
    return list({o.probe: o.count for o in fits.observations if o.count is not None}.values())


def _fits(fits: Fits, pattern: CountPattern) -> bool:
    patterned = Fits(fits.observations, fits.forecasts.with_pattern(pattern))
    return any(map(patterned.exact_in_counts, fits.forecasts.servers()))


def _counted(fits: Fits, server: Hypothesis) -> list[tuple[int, int]] | None:
    """Each expected count with the one that was seen; None if the server would refuse any."""
    found: list[tuple[int, int]] = []
    for observation in fits.observations:
        is_forecast, prediction = fits.forecasts.prediction(server, observation.probe)
        if observation.count is None or not is_forecast:
            continue
        expected = usual_count(prediction, server.server.special_text_acts)
        if expected is None:
            return None
        found.append((expected, observation.count))
    return found


def added_where(fits: Fits) -> tuple[Hypothesis, CountPattern] | None:
    """The server whose counts are one number higher for all requests that have something, and
    right for all others."""
    requests = {o.probe: o.body for o in fits.observations if o.body is not None}
    having = having_each_aspect(requests)
    for server in fits.forecasts.servers():
        if _counted(fits, server) is None:
            continue
        off = off_by(fits, server)
        added = set(off.values()) - {0}
        changed = {probe for probe, n in off.items() if n}
        if len(added) != 1 or min(added) < 0 or len(changed) < LEAST_ADDED:
            continue
        for aspect, words in _WORDS_FOR.items():
            if changed == having[aspect] & off.keys():
                return server, CountPattern(added=added.pop(), where=words)
    return None

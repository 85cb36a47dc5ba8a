"""The choice of requests to send again: a deviation must come twice before a fault is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice

from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.server_faults import variants
from dsv4.verify.fits import LEAST_SHOWING
from dsv4.verify.hypotheses import Forecaster, Hypothesis
from dsv4.verify.observations import Observation
from dsv4.verify.probes import FOLLOW_UPS, PROBES, SIBLINGS, TELLING, Probe, is_mixed
from dsv4.verify.verdicts import Explanation, ServerVerdict

MOST_REPEATS = 14
MOST_REPEATS_QUICKLY = 4
# The number of requests sent again for each fault, and the times that a varying one is sent.
REPEATED_OF_FAULT = 2
MOST_TIMES = 4
# So many different requests that show a fault are as good as one that was repeated.
MOST_ONCE = 3


def next_doubts(
    verdict: ServerVerdict,
    observations: Sequence[Observation],
    forecaster: Forecaster,
    most: int,
    *,
    quick: bool = False,
) -> list[Probe]:
    """The requests to send next, at most `most`; empty where nothing is in doubt any more. A quick
    run repeats one request for each fault."""
    if verdict.outcome in ("void", "nothing seen"):
        return []
    times = Counter(o.probe for o in observations if o.tells)
    again = [
        *_varying(verdict, observations, times),
        *_deviating(verdict, times, forecaster, 1 if quick else REPEATED_OF_FAULT),
    ]
    doubts = _confirming(verdict, times, forecaster)
    doubts += [PROBES[id] for id in dict.fromkeys(again) if id in PROBES]
    if not doubts:
        doubts = _telling_apart(verdict, times, forecaster)
    return doubts[:most]


def _varying(
    verdict: ServerVerdict, observations: Sequence[Observation], times: Counter[str]
) -> list[str]:
    """Requests that were answered in two ways: more answers tell more surely whose they are."""
    answers: dict[str, set[int | None]] = {}
    for o in observations:
        answers.setdefault(o.probe, set()).add(o.count)
    return [
        id
        for id, values in answers.items()
        if len(values) > 1 and times[id] < MOST_TIMES and not verdict.others
    ]


def _deviating(
    verdict: ServerVerdict, times: Counter[str], forecaster: Forecaster, repeated: int
) -> Iterable[str]:
    """Requests that were answered once and are unexplained or show a fault; the plainest first."""
    plainest = {id: sum(id in forecaster.touched(fault) for fault in variants()) for id in times}
    unexplained = [each.probe for each in verdict.unexplained]
    yield from sorted((id for id in unexplained if times[id] == 1), key=plainest.__getitem__)
    for ids in verdict.shown_by.values():
        if not any(times[id] > 1 for id in ids) and len(ids) < MOST_ONCE:
            yield from sorted(ids, key=plainest.__getitem__)[:repeated]
    best = verdict.best
    if best is not None and not best.hypothesis.server.special_text_acts:
        yield from (id for p in verdict.acting if times[id := f"inject-{p}"] == 1)
    yield from (id for id in verdict.refused if times[id] == 1)


def _confirming(verdict: ServerVerdict, times: Counter[str], forecaster: Forecaster) -> list[Probe]:
    """A second request for each fault that only one request shows. Two requests for a fault that is
    shown only by refusals, or only by requests with everything in them."""
    probes: list[Probe] = []
    for id, showing in verdict.shown_by.items():
        ids = [each for each in showing if not is_mixed(each)]
        if not FAULTS[id].changes_prompts or len(ids) >= LEAST_SHOWING:
            continue
        if ids:
            probes += [SIBLINGS[each] for each in ids if each in SIBLINGS]
        elif verdict.best is not None and (showing or verdict.refused):
            telling = _counted_otherwise(verdict.best.hypothesis, times, forecaster)
            probes += islice(telling, LEAST_SHOWING)
    return [each for each in probes if not times[each.id]]


def _counted_otherwise(
    best: Hypothesis, times: Counter[str], forecaster: Forecaster
) -> Iterator[Probe]:
    """New requests that a server answers, but without its faults would refuse or count
    differently."""
    for probe in TELLING:
        forecast = forecaster.count(best, probe.id)
        is_new = forecast != forecaster.count(best.without_faults, probe.id) and not times[probe.id]
        if is_new and forecast[1] is not None:
            yield probe


def _telling_apart(
    verdict: ServerVerdict, times: Counter[str], forecaster: Forecaster
) -> list[Probe]:
    """The request that tells most of the equally good explanations apart."""
    explanations = [verdict.best, *verdict.alternatives]
    if verdict.outcome != "explained" or len(explanations) < 2:
        return []
    new = [
        probe
        for probe in (*PROBES.values(), *FOLLOW_UPS)
        if not times[probe.id] and not is_mixed(probe.id)
    ]
    answers = [len(possible_answers(explanations, probe, forecaster)) for probe in new]
    most = max(answers, default=0)
    return [new[answers.index(most)]] if most > 1 else []


def possible_answers(
    explanations: Sequence[Explanation | None], probe: Probe, forecaster: Forecaster
) -> set[Hashable]:
    """The possible answers. Empty where one of them is unknown, or is a refusal, which would say
    little."""
    answers: set[Hashable] = set()
    for each in filter(None, explanations):
        _, count = forecaster.count(each.hypothesis, probe.id)
        if count is None:
            return set()
        added = each.added_to(probe.id, forecaster.touched)
        added += "counts-include-completion" in each.faults  # by the one token of the answer
        counts = [count] if isinstance(count, int) else count.values()
        answers.add(frozenset(n + added for n in counts))
    return answers

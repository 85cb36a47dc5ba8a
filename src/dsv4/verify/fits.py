"""The observations that a hypothesis explains, that it contradicts, and that show its faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.text_shields import TextPlace
from dsv4.verify.forecast_sources import Forecasts
from dsv4.verify.hypotheses import Hypothesis, Prediction
from dsv4.verify.observations import Observation
from dsv4.verify.probes import is_mixed
from dsv4.verify.prompt_matches import LONGEST_STAND_IN, is_shown
from dsv4.verify.verdicts import Explanation, Mismatch

# A fault is named when at least so many requests show it. Refusals do not count: anything wrong
# with a request may have it refused. In fewer requests, or in one that has everything in it, an
# unlisted fault may look like this one.
LEAST_SHOWING = 2
# The same limit where every request is changed by the fault, or where it shows in refusals.
LEAST_WITHOUT_CONTRAST = 3


class Fits:
    """Tells which of the `observations` a hypothesis explains.

    A hypothesis has no forecast for some requests. It neither contradicts nor explains what was
    seen of them.
    """

    def __init__(self, observations: Sequence[Observation], forecasts: Forecasts) -> None:
        self.observations = observations
        self.forecasts = forecasts
        self._order: dict[Hypothesis, Sequence[Observation]] = {}
        self._failing: dict[Hypothesis, frozenset[str]] = {}

    def fits(self, hypothesis: Hypothesis, observation: Observation, added: int = 0) -> bool:
        """Whether a hypothesis does not contradict an observation."""
        is_forecast, prediction = self.forecasts.prediction(hypothesis, observation.probe)
        return not is_forecast or self._agrees(hypothesis, observation, prediction, added)

    def explains(self, hypothesis: Hypothesis, observation: Observation, added: int = 0) -> bool:
        """Whether a hypothesis forecasts what was observed."""
        is_forecast, prediction = self.forecasts.prediction(hypothesis, observation.probe)
        return is_forecast and self._agrees(hypothesis, observation, prediction, added)

    def _agrees(
        self, hypothesis: Hypothesis, observation: Observation, prediction: Prediction, added: int
    ) -> bool:
        if not _is_count(prediction, observation.count, added):
            return False
        stands_in = any(
            fault.fault.any_length and observation.probe in self.forecasts.touched(fault)
            for fault in hypothesis.faults
        )
        other = LONGEST_STAND_IN if stands_in else 0 if added else None
        return is_shown(self.forecasts, hypothesis, observation, other)

    def explained_by(self, each: Explanation) -> list[Observation]:
        """The observations that an explanation forecasts."""
        return [
            o
            for o in self.observations
            if self.explains(each.hypothesis, o, self.added_to(each, o))
        ]

    def added_to(self, each: Explanation, observation: Observation) -> int:
        """The number of tokens that an explanation adds to this count."""
        return each.added_to(observation.probe, self.forecasts.touched)

    def failed(self, server: Hypothesis) -> frozenset[str]:
        """The requests that a server contradicts."""
        if server not in self._failing:
            failing = (o.probe for o in self.observations if not self.fits(server, o))
            self._failing[server] = frozenset(failing)
        return self._failing[server]

    def exact(self, hypothesis: Hypothesis) -> bool:
        """Whether nothing is contradicted. Most hypotheses fail where the clean server does: those
        observations are tested first."""
        server = hypothesis.without_faults
        return all(self.fits(hypothesis, o) for o in self.hardest_first(server))

    def exact_in_counts(self, hypothesis: Hypothesis) -> bool:
        """Whether no count is contradicted. A server refuses requests for many reasons."""
        return all(self.fits(hypothesis, o) for o in self.observations if o.count is not None)

    def explained_refusals(self, hypothesis: Hypothesis) -> int:
        """The number of refusals that a hypothesis forecasts."""
        return sum(o.count is None and self.explains(hypothesis, o) for o in self.observations)

    def hardest_first(self, server: Hypothesis) -> Sequence[Observation]:
        if server not in self._order:
            self._order[server] = sorted(self.observations, key=lambda o: self.fits(server, o))
        return self._order[server]

    def bits(self, holds: Callable[[Observation], bool]) -> int:
        """The observations for which a condition holds, as bits of a number."""
        return sum(1 << n for n, observation in enumerate(self.observations) if holds(observation))

    def mismatches(self, each: Explanation) -> Iterator[Mismatch]:
        """The observations that an explanation contradicts."""
        server = each.hypothesis
        for observation in self.observations:
            if self.fits(server, observation, self.added_to(each, observation)):
                continue
            _, prediction = self.forecasts.prediction(server, observation.probe)
            expected = usual_count(prediction, server.server.special_text_acts)
            yield Mismatch(observation.probe, expected, observation.count)

    # Evidence for a fault.

    def showing(self, each: Explanation, id: str) -> list[Observation]:
        """The observations that an explanation forecasts, and would not without this fault.
        Refusals show that something is wrong, but not what. So they show only a fault that is
        itself a refusal, and only if the server has not simply failed."""
        without, refuses = _without(each, id), FAULTS[id].refuses
        return [
            o
            for o in self.explained_by(each)
            if (o.count is not None or (refuses and not o.failed))
            and not self.fits(without.hypothesis, o, without.added)
        ]

    def is_shown(self, each: Explanation, id: str) -> bool:
        """Whether a shown prompt, or enough requests, show a fault. More requests are needed if no
        other one is left unchanged, or if the fault shows in refusals."""
        showing = self.showing(each, id)
        if any(o.shows_prompt for o in showing):
            return True
        names = {o.probe for o in showing}
        contrast = any(
            o.count is not None and o.probe not in names for o in self.explained_by(each)
        )
        is_plain = contrast and not FAULTS[id].refuses
        least = LEAST_SHOWING if is_plain else LEAST_WITHOUT_CONTRAST
        plain = [o for o in showing if not is_mixed(o.probe)]
        if FAULTS[id].replaces_prompt and len({o.count for o in plain}) < LEAST_WITHOUT_CONTRAST:
            return False  # any text has some number of tokens
        return len({json.dumps(o.body, default=str) for o in plain}) >= least

    def acting(self, best: Explanation) -> frozenset[TextPlace]:
        """The places whose special tokens act, by the counts."""
        acting: set[TextPlace] = set()
        for observation in self.observations:
            _, prediction = self.forecasts.prediction(best.hypothesis, observation.probe)
            if prediction is None or isinstance(prediction, int) or observation.count is None:
                continue
            fitting = [a for a, n in prediction.items() if n + best.added == observation.count]
            if len(fitting) == 1:
                acting |= fitting[0]
        return frozenset(acting)


def _without(each: Explanation, id: str) -> Explanation:
    """The same explanation without one of its faults and the tokens that this fault adds."""
    others = tuple(fault for fault in each.hypothesis.faults if fault.id != id)
    adds = any(fault.id == id and fault.fault.any_length for fault in each.hypothesis.faults)
    hypothesis = replace(each.hypothesis, faults=others)
    return Explanation(hypothesis, (), 0 if adds or id == "counts-offset" else each.added)


def _is_count(prediction: Prediction, tokens: int | None, added: int) -> bool:
    if prediction is None or tokens is None:
        return prediction is None and tokens is None
    if isinstance(prediction, int):
        return prediction + added == tokens
    return any(count + added == tokens for count in prediction.values())


def usual_count(prediction: Prediction, acts: bool) -> int | None:
    """The count as one number. Where a text spells special tokens, they act if `acts`."""
    if prediction is None or isinstance(prediction, int):
        return prediction
    return prediction[max(prediction, key=len) if acts else frozenset()]

"""The choice of the next request, by what it would tell apart; and faults that none tells apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.server_faults import FaultVariant, variants
from dsv4.verify.fits import LEAST_SHOWING, LEAST_WITHOUT_CONTRAST
from dsv4.verify.forecast_sources import Forecasts
from dsv4.verify.hypotheses import (
    Counts,
    Forecaster,
    Hypothesis,
    Prediction,
    clean_servers,
    forecasts_of_probes,
    hypotheses,
)
from dsv4.verify.observations import Observation
from dsv4.verify.probes import is_mixed
from dsv4.verify.prompt_matches import is_shown


def next_probe(
    remaining: Mapping[Hypothesis, Counts | Mapping[str, str | None]], sent_probes: Collection[str]
) -> str | None:
    """The probe after whose answer the fewest hypotheses remain, on average.

    `remaining` are the hypotheses that explain everything so far, with the counts that they
    forecast, or the prompts where a server shows them; `sent_probes` are not sent again. None if
    no probe tells any of them apart.
    """
    candidates = dict.fromkeys(id for counts in remaining.values() for id in counts)
    best: tuple[int, str] | None = None
    for id in candidates:
        if id in sent_probes:
            continue
        answers = Counter(_answer(counts, id) for counts in remaining.values())
        size_sum = sum(size * size for size in answers.values())
        if len(answers) > 1 and (best is None or size_sum < best[0]):
            best = size_sum, id
    return None if best is None else best[1]


# Enough to single out every likely server that can be told apart. Few need more than ten; a clean
# one needs most, because it has to be told from all its faults.
MOST_QUICK = 20
# Probes for when no likely server is left: the plainest requests of some groups, so that an
# unlisted fault is found in the right one. The default run looks at all groups.
FURTHER_PROBES = ("plain", "tools-two", "loop")
# The first probe: it tells as much apart as the largest.
FIRST = "rich"
# Efforts that users send.
_COMMON_EFFORTS = ("effort-low", "effort-high", "effort-max")


def likely_servers() -> list[Hypothesis]:
    """The hypotheses of a quick run: every clean server, and every fault but the rarest."""
    return [each for each in hypotheses() if all(map(_is_likely, each.faults))]


def _is_likely(fault: FaultVariant) -> bool:
    swap = fault.fault.group == "effort" and "-as-" in fault.id
    return not swap or fault.id.startswith(_COMMON_EFFORTS)


def still_possible(
    remaining: Mapping[Hypothesis, Counts], id: str, count: int | None
) -> dict[Hypothesis, Counts]:
    """The hypotheses that also explain this answer; None is a refusal."""
    return {
        hypothesis: counts
        for hypothesis, counts in remaining.items()
        if id not in counts or _is_answer(counts[id], count)
    }


def _is_answer(prediction: Prediction, count: int | None) -> bool:
    if prediction is None or isinstance(prediction, int):
        return prediction == count
    return count in prediction.values()


class QuickSearch:
    """The hypotheses that a quick run has not ruled out, by counts, or by prompts if shown."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster
        self._remaining = likely_servers()
        self._prompts_are_shown = False

    @property
    def is_lost(self) -> bool:
        """Whether no likely server is left."""
        return not self._remaining

    @property
    def may_be_clean(self) -> bool:
        """Whether a server without a fault is left."""
        return any(not each.faults for each in self._remaining)

    def next(self, sent_probes: Collection[str]) -> str | None:
        """The probe that tells most of the hypotheses apart; later, one that confirms a fault.
        The first probe is small: it is unknown how the server counts, and one answer could be
        counted with more tokens than the whole run may cost."""
        if FIRST not in sent_probes:
            return FIRST
        if not self._remaining:
            return next((id for id in FURTHER_PROBES if id not in sent_probes), None)
        of = self._forecaster.prompts if self._prompts_are_shown else self._forecaster.counts
        best = next_probe({each: of(each) for each in self._remaining}, sent_probes)
        return best or self._confirming(sent_probes)

    def _confirming(self, sent_probes: Collection[str]) -> str | None:
        """A probe that shows the fault that is left, and few other faults; then a similar one that
        this fault leaves unchanged, while another fault there would change it."""
        server = self._remaining[0]
        if not server.faults or self._prompts_are_shown:
            return None
        forecast = self._forecaster.counts(server)
        usual = self._forecaster.counts(server.without_faults)
        changing = {id: self._changing(id) for id in forecast}
        changed = [id for id in forecast if forecast[id] != usual.get(id)]
        showing = [id for id in changed if not is_mixed(id)]
        new = [id for id in showing if id not in sent_probes]
        if any(fault.fault.replaces_prompt for fault in server.faults):
            # Any text has some number of tokens: only several different counts are evidence.
            answers = {_answer(forecast, id) for id in showing if id in sent_probes}
            other = (id for id in new if _answer(forecast, id) not in {*answers, None})
            return next(other, None) if len(answers) < LEAST_WITHOUT_CONTRAST else None
        silent = [id for id in forecast if id not in changed and forecast[id] is not None]
        is_plain = bool(silent) and not any(fault.fault.refuses for fault in server.faults)
        least = LEAST_SHOWING if is_plain else LEAST_WITHOUT_CONTRAST
        if new and len(showing) - len(new) < least:
            return min(new, key=lambda id: len(changing[id]))
        plainest = min(showing, key=lambda id: len(changing[id]), default=None)
        if plainest is None or not silent:
            return None
        like = max(silent, key=lambda id: len(changing[id] & changing[plainest]))
        return None if like in sent_probes else like

    def _changing(self, id: str) -> set[FaultVariant]:
        """The faults that can change this request."""
        return {fault for fault in variants() if id in self._forecaster.touched(fault)}

    def narrow(self, observation: Observation) -> None:
        """Rules out the hypotheses that do not explain this answer."""
        probe, counts = observation.probe, dict[Hypothesis, Counts]()
        for each in self._remaining:  # only for this request: most are ruled out
            is_forecast, count = self._forecaster.count(each, probe)
            counts[each] = {probe: count} if is_forecast else {}
        fitting = list(still_possible(counts, probe, observation.count))
        if observation.shows_prompt:
            self._prompts_are_shown = True
            is_its_prompt = self._shown_by(observation)
            self._remaining = [each for each in fitting if is_its_prompt(each)]
        else:
            self._remaining = fitting

    def _shown_by(self, observation: Observation) -> Callable[[Hypothesis], bool]:
        """Returns a test for whether a hypothesis writes the prompt that was shown. Many write the
        same one, which is compared once."""
        forecasts = Forecasts(self._forecaster)
        results: dict[tuple[str, str | None], bool] = {}

        def is_its_prompt(hypothesis: Hypothesis) -> bool:
            key = hypothesis.texts, forecasts.prompt(hypothesis, observation.probe)
            if key not in results:
                results[key] = is_shown(forecasts, hypothesis, observation)
            return results[key]

        return is_its_prompt


def _answer(counts: Counts | Mapping[str, str | None], id: str) -> Hashable:
    """The forecast of a hypothesis as a hashable value."""
    prediction = counts.get(id, "unknown")
    if prediction is None or isinstance(prediction, (int, str)):
        return prediction
    return frozenset(prediction.values())


# The faults that can be told apart at all: mutation testing for the probes.


@dataclass(frozen=True)
class Matrix:
    """The faults of a server that the probes tell apart, and those that they do not.

    `alike` are sets of fault ids with the same answers to all probes. The empty id is the clean
    server: faults in a set with it cannot be seen. `apart` of `pairs` are told apart.
    """

    server: Hypothesis
    alike: tuple[tuple[str, ...], ...]
    apart: int
    pairs: int

    @property
    def score(self) -> float:
        """The share of the pairs that are told apart."""
        return self.apart / self.pairs if self.pairs else 1.0


def matrix(server: Hypothesis, forecaster: Forecaster | None = None) -> Matrix:
    """The faults that the built-in probes tell apart on one clean `server`. Only faults that change
    any of its prompts are among them: what a server always does is not a fault there.

    `forecaster` has the forecasts for the probes; without one they are made.
    """
    forecaster = forecaster or forecasts_of_probes()
    rows: dict[str, set[Hashable]] = {"": {_row(forecaster.counts(server))}}
    for fault in variants():
        faulty = server.having(fault)
        if _changes_any(faulty, server, forecaster):
            rows.setdefault(fault.id, set()).add(_row(forecaster.counts(faulty)))
    pairs = list(combinations(rows, 2))
    apart = sum(rows[a].isdisjoint(rows[b]) for a, b in pairs)
    return Matrix(server, tuple(_alike(rows)), apart, len(pairs))


def _changes_any(faulty: Hypothesis, server: Hypothesis, forecaster: Forecaster) -> bool:
    """Whether any prompt of the two differs. Counts are compared first: they mostly differ too."""
    if forecaster.counts(faulty) != forecaster.counts(server):
        return True
    return forecaster.prompts(faulty) != forecaster.prompts(server)


def _row(counts: Counts) -> Hashable:
    return tuple((id, _answer(counts, id)) for id in counts)


def _alike(rows: Mapping[str, Iterable[Hashable]]) -> list[tuple[str, ...]]:
    """The sets of ids that share a row."""
    sharing: dict[Hashable, list[str]] = defaultdict(list)
    for id, own in rows.items():
        for row in own:
            sharing[row].append(id)
    order = ["", *FAULTS]
    groups = {tuple(sorted(ids, key=order.index)) for ids in sharing.values() if len(ids) > 1}
    return sorted(groups, key=lambda ids: [order.index(id) for id in ids])


def all_matrices(forecaster: Forecaster | None = None) -> list[Matrix]:
    """The matrix of each known server. The forecasts are shared."""
    return [matrix(server, forecaster) for server in clean_servers()]

"""From observations to the servers that explain them. Pure: nothing is read, sent or kept."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any

from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.request_changes import longest_text
from dsv4.profiles.server_faults import KNOWN_TOGETHER, FaultVariant, variants
from dsv4.profiles.text_shields import TextPlace
from dsv4.verify.count_patterns import CountPattern
from dsv4.verify.counting_checks import ROUNDED, counting_doubt, repeated_counts, usage_readings
from dsv4.verify.fits import Fits
from dsv4.verify.forecast_sources import Forecasts
from dsv4.verify.hypotheses import Forecaster, Hypothesis, clean_servers, forecasts_of_probes
from dsv4.verify.nearest import (
    LEAST_BY_REQUEST,
    LEAST_OF_ONE_SERVER,
    nearest,
    nearest_of_varying,
    two_servers,
)
from dsv4.verify.observations import Observation
from dsv4.verify.pattern_search import added_where, late_patterns, pattern_of
from dsv4.verify.probes import PROBES, is_mixed
from dsv4.verify.verdicts import Explanation, Outcome, ServerVerdict

# A text of unknown length explains any one count. Three that agree are evidence.
LEAST_OF_UNKNOWN_LENGTH = 3
# A run with fewer observations is a quick one.
LEAST_OF_A_RUN = 12

# With more explanations than these, too few requests were seen: their names do not matter yet.
MOST_COMPARED = 24

# The faults whose limits are searched, and the most characters that one token may have.
LIMITS = ("long-texts-truncated", "results-truncated")
WORD = 8


def explain(
    observations: Iterable[Observation],
    *,
    forecaster: Forecaster | None = None,
    preferred: Sequence[str] = (),
    dialect: str | None = None,
) -> ServerVerdict:
    """The servers that explain all `observations`, the simplest first.

    Observations may be in any order, and any part of what a run would give.
    `forecaster` makes the forecasts for all requests that were seen, and keeps them; without one
    they are made with the bundled vocabulary. `preferred` are profiles that the server itself
    names; `dialect` is the one that its address tells, a key of `dsv4.DIALECTS`. Of equally good
    explanations, theirs come first.
    """
    telling = [o for o in observations if o.tells and o.body is not None]
    if not telling:
        return ServerVerdict("nothing seen")
    forecasts = Forecasts(forecaster or _forecaster_for(telling), clean_servers())
    search = partial(_Search, preferred=preferred, dialect=dialect)
    fits = Fits(telling, forecasts)
    doubt = counting_doubt(telling)
    if doubt is None or doubt[0] == ROUNDED:
        pattern = pattern_of(fits)
        if pattern is not None:
            return search(Fits(telling, forecasts.with_pattern(pattern))).with_pattern(pattern)
    if doubt is not None:
        return _void(telling, *doubt)
    first, *others = usage_readings(telling)
    verdict = search(Fits(first.observations, forecasts)).verdict()
    for reading in others if verdict.outcome != "explained" else ():
        other = search(Fits(reading.observations, forecasts)).verdict()
        if other.outcome == "explained":
            return replace(other, faults=tuple(sorted({*other.faults, reading.fault})))
    if verdict.outcome == "not explained" and not verdict.faults:
        doubt = repeated_counts(telling)
        return _void(telling, *doubt) if doubt else search(fits).with_any_pattern(verdict)
    return verdict


def _void(telling: Sequence[Observation], fault: str, reason: str) -> ServerVerdict:
    """Counts that cannot be believed."""
    return ServerVerdict("void", faults=(fault,), of=len(telling), reason=reason)


def _forecaster_for(observations: Sequence[Observation]) -> Forecaster:
    if all(o.request is None for o in observations):
        return forecasts_of_probes()
    return Forecaster({o.probe: o.body or {} for o in observations})


class _Search:
    """The search for what explains some observations: clean servers first, then faults."""

    def __init__(self, fits: Fits, preferred: Sequence[str], dialect: str | None) -> None:
        self._fits, self._preferred, self._dialect = fits, preferred, dialect

    def verdict(self) -> ServerVerdict:
        varying = self._varying
        if varying:
            return self._varied(varying)
        if self._by_counts:
            # Refusals break ties between these servers, and are no reason to look at others.
            levels = (self._clean, self._one_fault_by_refusals, self._open)
            return self._first_of(*levels) or self._nearest()
        # Two servers are tried behind two faults: what may be either's explains more by chance.
        return (
            self._first_of(self._one_fault, self._two_faults)
            or self._by_request()
            or self._first_of(self._faults_of_proxies)
            or self._nearest()
        )

    def _first_of(self, *levels: Callable[[], Iterator[Explanation]]) -> ServerVerdict | None:
        """The verdict of the first of these levels that explains enough; None if none does."""
        for level in levels:
            enough = filter(self._explains_enough, level())
            explanations = _simplest(enough, self._fits, self._preferred, self._dialect)
            if explanations:
                return self._explained(explanations)
        return None

    @cached_property
    def _by_counts(self) -> list[Hypothesis]:
        """The clean servers that contradict no count."""
        return [s for s in self._fits.forecasts.servers() if self._fits.exact_in_counts(s)]

    def _one_fault_by_refusals(self) -> Iterator[Explanation]:
        """One fault of these servers that explains the refusals too; or another format altogether,
        whose server refuses as none of these does. Refusals of one kind have many possible reasons.
        Refusals of several kinds may identify the server, or one of these refuses more than it used
        to."""
        yield from self._one_fault(self._by_counts)
        kinds = {
            PROBES[o.probe].group for o in self._observations if o.refused and o.probe in PROBES
        }
        formats = [
            each
            for each in (self._one_fault() if len(kinds) > 1 else ())
            if any(fault.fault.replaces_prompt for fault in each.hypothesis.faults)
        ]
        yield from formats
        if formats:
            yield from self._open()

    def _open(self) -> Iterator[Explanation]:
        """Clean servers by their counts only: refusals are left open."""
        most = max(map(self._fits.explained_refusals, self._by_counts))
        for server in self._by_counts:
            if self._fits.explained_refusals(server) == most:
                yield Explanation(server, ())

    def _by_request(self) -> ServerVerdict | None:
        """The verdict that two known servers answer, depending on the request; None if not."""
        pair = two_servers(self._fits, LEAST_BY_REQUEST)
        reason = "every count is one of theirs; which of them answers depends on the request"
        return None if pair is None else self._of_two(pair, reason)

    def with_pattern(self, pattern: CountPattern) -> ServerVerdict:
        """The verdict for counts that have this pattern. Rounded counts cannot be believed: they
        tell which servers it may be, but not which faults they have."""
        verdict = self.verdict() if not pattern.is_lossy else self._first_of(self._open)
        assert verdict is not None
        if pattern.step > 1:
            verdict = replace(verdict, outcome="void", faults=(ROUNDED,), reason=str(pattern))
        return replace(verdict, pattern=pattern)

    def with_any_pattern(self, verdict: ServerVerdict) -> ServerVerdict:
        """A verdict that explains little, or a better one with a pattern: a minimum, a factor of a
        server that has faults, or a number that is added to some requests."""
        for pattern in late_patterns(self._fits):
            fits = Fits(self._observations, self._fits.forecasts.with_pattern(pattern))
            search = _Search(fits, self._preferred, self._dialect)
            if pattern.is_lossy and search._by_counts:
                return search.with_pattern(pattern)
            other = search.verdict() if not pattern.is_lossy else verdict
            if other.explained > verdict.explained:
                return replace(other, pattern=pattern)
        found = added_where(self._fits)
        if found is None:
            return verdict
        server, pattern = found
        return _judged("not explained", self._fits, Explanation(server, ()), pattern=pattern)

    @cached_property
    def _varying(self) -> list[str]:
        """The requests that were answered in two ways."""
        answers: dict[str, set[int | None]] = {}
        for observation in self._observations:
            if observation.count is not None:
                answers.setdefault(observation.probe, set()).add(observation.count)
        different = [probe for probe, values in answers.items() if len(values) > 1]
        return [] if self._explained_by_completions(different) else different

    def _explained_by_completions(self, probes: Sequence[str]) -> bool:
        """Whether the answers to these requests differ only by the tokens of the completions."""
        for probe in probes:
            own = [o for o in self._observations if o.probe == probe and not o.refused]
            if len({(o.count or 0) - o.completion_tokens for o in own}) > 1:
                return False
        return True

    def _explains_enough(self, each: Explanation) -> bool:
        """Whether a hypothesis explains enough. One without a forecast for some requests must
        explain more than any clean server: where it forecasts nothing, it cannot be wrong."""
        hypothesis = each.hypothesis
        known = [
            o for o in self._observations if self._fits.forecasts.prediction(hypothesis, o.probe)[0]
        ]
        forecasts = len(known)
        is_other_format = any(fault.fault.replaces_prompt for fault in hypothesis.faults)
        if is_other_format and len({o.count for o in known}) < LEAST_OF_UNKNOWN_LENGTH:
            return False  # any text has some number of tokens
        return forecasts == len(self._observations) or forecasts > self._explained_by_clean

    @property
    def _observations(self) -> Sequence[Observation]:
        return self._fits.observations

    @cached_property
    def _explained_by_clean(self) -> int:
        """The largest number of observations that a clean server explains."""
        servers = self._fits.forecasts.servers()
        return max(sum(self._fits.explains(s, o) for o in self._observations) for s in servers)

    # From the simplest on.

    def _clean(self) -> Iterator[Explanation]:
        for server in self._fits.forecasts.servers():
            if self._fits.exact(server):
                yield Explanation(server, ())

    def _one_fault(self, servers: Sequence[Hypothesis] = ()) -> Iterator[Explanation]:
        for server in servers or self._fits.forecasts.servers():
            yield from self._miscounted(server)
            failed = self._fits.failed(server)
            faulty = self._fits.forecasts.with_one_fault(server, failed)
            yield from filter(None, map(self._matched, faulty))
            yield from (
                Explanation(hypothesis, hypothesis.ids)
                for hypothesis in self._limits(server, failed)
                if self._fits.exact(hypothesis)
            )

    def _two_faults(self) -> Iterator[Explanation]:
        for server in self._fits.forecasts.servers():
            for hypothesis in self._fits.forecasts.with_one_fault(server, frozenset()):
                yield from self._miscounted(hypothesis)
            yield from filter(None, map(self._matched, self._pairs_of_faults(server)))

    def _pairs_of_faults(self, server: Hypothesis) -> Iterator[Hypothesis]:
        """The pairs of faults that are not ruled out by the effect of each by itself.

        Sets of observations are bits of a number. Where only one fault of a pair has to do with a
        request, that fault must explain it by itself.
        """
        everything = (1 << len(self._observations)) - 1
        clean = self._fits.bits(lambda o: self._fits.fits(server, o))
        single = [
            (fault, bits, _FitsOfFault(self._fits, server, fault, clean))
            for fault, bits in self._touched_bits.items()
            if not fault.fault.replaces_prompt and bits & ~clean
        ]
        for (one, touches, fits), (other, also, fits_too) in combinations(single, 2):
            if everything & ~touches & ~also & ~clean or one.id == other.id:
                continue
            if fits.all_of(touches & ~also) and fits_too.all_of(also & ~touches):
                yield server.having(one, other)

    def _faults_of_proxies(self) -> Iterator[Explanation]:
        """Explanations with three faults, as of a proxy that rewrites much."""
        for server in self._fits.forecasts.servers():
            for hypothesis in (server.having(*faults) for faults in KNOWN_TOGETHER):
                if self._fits.exact(hypothesis):
                    yield Explanation(hypothesis, hypothesis.ids)

    @cached_property
    def _touched_bits(self) -> Mapping[FaultVariant, int]:
        """The observations that each fault has to do with."""

        def bits(fault: FaultVariant) -> int:
            touched = self._fits.forecasts.touched(fault)
            return self._fits.bits(lambda observation: observation.probe in touched)

        return {fault: bits(fault) for fault in variants()}

    def _limits(self, server: Hypothesis, failed: frozenset[str]) -> Iterator[Hypothesis]:
        """The server with a limit of characters that the first request it fails would show."""
        first = next(
            (o for o in self._observations if o.probe in failed and o.count is not None), None
        )
        if first is None:
            return

        longest = longest_text(first.body or {})
        for id in LIMITS:

            def cut(characters: int, id: str = id) -> Hypothesis:
                return server.having(FaultVariant(id, characters))

            def long_enough(characters: int, cut: Callable[[int], Hypothesis] = cut) -> bool:
                _, count = self._fits.forecasts.prediction(cut(characters), first.probe)
                return not isinstance(count, int) or count >= (first.count or 0)

            least = bisect_left(range(1, longest), True, key=long_enough) + 1
            yield from (cut(n) for n in range(least, min(least + WORD, longest)))

    def _matched(self, hypothesis: Hypothesis) -> Explanation | None:
        unknown = [f for f in hypothesis.faults if f.fault.any_length]
        if self._fits.exact(hypothesis):
            return Explanation(hypothesis, hypothesis.ids)
        if len(unknown) != 1:
            return None
        free, fixed = self._parted[unknown[0]]
        added = self._constant(hypothesis, free)
        if not added or not all(self._fits.fits(hypothesis, o) for o in fixed):
            return None
        server = hypothesis.without_faults
        if not self._mostly_fails(server, free) or not self._is_longer(server, free):
            return None
        return Explanation(hypothesis, hypothesis.ids, added)

    @cached_property
    def _parted(self) -> Mapping[FaultVariant, tuple[list[Observation], list[Observation]]]:
        """The observations that each fault of unknown length has to do with, and the others."""
        parted = {}
        for fault in variants():
            if fault.fault.any_length:
                touched = self._fits.forecasts.touched(fault)
                free = [o for o in self._observations if o.probe in touched]
                parted[fault] = free, [o for o in self._observations if o.probe not in touched]
        return parted

    def _is_longer(self, server: Hypothesis, free: Sequence[Observation]) -> bool:
        """Whether these prompts are longer than a clean server's, as with a text that is added."""
        for observation in free:
            _, usual = self._fits.forecasts.prediction(server, observation.probe)
            if isinstance(usual, int) and observation.count is not None:
                return observation.count > usual
        return False

    def _constant(self, hypothesis: Hypothesis, free: Sequence[Observation]) -> int:
        """The number of tokens by which all of these differ from the forecasts; 0 if it varies."""
        difference: int | None = None
        counted: set[str] = set()
        for observation in free:
            is_forecast, prediction = self._fits.forecasts.prediction(hypothesis, observation.probe)
            if not is_forecast:
                continue
            if prediction is None or observation.count is None:
                if prediction is not observation.count:
                    return 0
                continue
            if isinstance(prediction, int):
                own = observation.count - prediction
                if not own or (difference is not None and own != difference):
                    return 0
                difference = own
                counted.add(observation.probe)
        if difference is None or len(counted) < LEAST_OF_UNKNOWN_LENGTH:
            return 0
        return difference if all(self._fits.fits(hypothesis, o, difference) for o in free) else 0

    def _miscounted(self, hypothesis: Hypothesis) -> Iterator[Explanation]:
        """The hypothesis with a counter that adds something to every count."""
        if any(fault.fault.any_length for fault in hypothesis.faults):
            return
        if not self._mostly_fails(hypothesis.without_faults, self._observations):
            return
        for explanation in self._miscounts(hypothesis):
            if not hypothesis.faults or self._shows_plainly(hypothesis):
                yield explanation

    def _miscounts(self, hypothesis: Hypothesis) -> Iterator[Explanation]:
        if self._without_completions.exact(hypothesis):
            faults = tuple(sorted((*hypothesis.ids, "counts-include-completion")))
            yield Explanation(hypothesis, faults)
        added = self._constant(hypothesis, self._fits.hardest_first(hypothesis.without_faults))
        if added:
            faults = tuple(sorted((*hypothesis.ids, "counts-offset")))
            yield Explanation(hypothesis, faults, added)

    def _mostly_fails(self, server: Hypothesis, observations: Sequence[Observation]) -> bool:
        """Whether a clean server explains few of these. A number that is added to all counts shows
        in most of them; where it does not, it only compensates for a wrongly assumed fault."""
        counted = [o for o in observations if o.count is not None]
        failed = self._fits.failed(server)
        return sum(o.probe in failed for o in counted) * 2 >= len(counted)

    def _shows_plainly(self, hypothesis: Hypothesis) -> bool:
        """Whether the faults change the count of a request besides the one that has everything in
        it. That one by itself would agree with any faults, given a suitable added number."""
        clean = hypothesis.without_faults
        predict = self._fits.forecasts.prediction
        return any(
            predict(hypothesis, o.probe) != predict(clean, o.probe)
            for o in self._observations
            if not is_mixed(o.probe)
        )

    @cached_property
    def _without_completions(self) -> Fits:
        """The same observations, with the tokens of answers taken out of every count."""
        corrected = [
            o if o.count is None else replace(o, count=o.count - o.completion_tokens)
            for o in self._observations
        ]
        return Fits(corrected, self._fits.forecasts)

    # From explanations to a verdict.

    def _explained(self, explanations: Sequence[Explanation]) -> ServerVerdict:
        fits = self._fits
        if "counts-include-completion" in explanations[0].faults:
            fits = self._without_completions
        first, *rest = self._by_prompts(explanations)
        best, *synonyms = first
        others = [each[0] for each in rest]
        acting = fits.acting(best)
        certain = {
            id
            for id in best.faults
            if all(id in each.faults for each in others)
            and (not FAULTS[id].changes_prompts or fits.is_shown(best, id))
        }
        if self._may_be_two:
            certain = {id for id in certain if not FAULTS[id].changes_prompts}
        every = {id for each in (best, *others) for id in each.faults}
        all_of_them = self._observations
        clean, predict = best.hypothesis.without_faults, fits.forecasts.prediction
        return _judged(
            "explained",
            fits,
            best,
            alternatives=tuple(others),
            synonyms=tuple(synonyms),
            faults=_with_injections(best, certain, acting),
            possible=tuple(sorted(every - certain)),
            refused=_names(o for o in all_of_them if o.refused and not self._fits.fits(clean, o)),
            unforecast=_names(o for o in all_of_them if not predict(best.hypothesis, o.probe)[0]),
        )

    @property
    def _may_be_two(self) -> bool:
        """Whether two known servers, told by request, explain what few requests show of a fault."""
        is_short = len(self._observations) < LEAST_OF_A_RUN
        return is_short and two_servers(self._fits, 1) is not None

    def _by_prompts(self, explanations: Sequence[Explanation]) -> list[list[Explanation]]:
        """Sets of explanations that are one server under several names, the usual name first. A
        rarer form of a fault may amount to another fault: SGLang's template has no effort, so that
        a default effort there is nothing but thinking by default."""
        sets: list[list[Explanation]] = []
        compared = explanations if len(explanations) <= MOST_COMPARED else ()
        for each in explanations:
            same = (one for one in sets if self._are_one(one[0], each))
            one = next(same, None) if each in compared else None
            if one is None:
                sets.append([each])
            else:
                one.append(each)
        return [sorted(one, key=_is_rare) for one in sets]

    def _are_one(self, first: Explanation, other: Explanation) -> bool:
        is_one_form = _is_rare(first) or _is_rare(other)
        return is_one_form and self._fits.forecasts.are_same(first, other)

    def _nearest(self) -> ServerVerdict:
        """The verdict that leaves least unexplained. Only certain faults are named."""
        best, *others = nearest(self._fits, self._preferred)
        if best.faults and not any(self._fits.showing(best, id) for id in best.faults):
            # Only refusals speak for them, and anything else wrong would explain those as well.
            best, others = Explanation(best.hypothesis.without_faults, ()), []
        acting = self._fits.acting(best)
        if len(self._fits.explained_by(best)) * 2 < len(self._observations):
            acting = frozenset()  # so it may well be another server
        return _judged(
            "not explained",
            self._fits,
            best,
            alternatives=tuple(others),
            acting=acting,
            faults=_with_injections(best, (), acting),
            possible=tuple(sorted({id for each in (best, *others) for id in each.faults})),
        )

    def _varied(self, varying: Sequence[str]) -> ServerVerdict:
        """The verdict where a request was answered in two ways: by two servers, or unexplained."""
        reason = f"{', '.join(varying)}: answered in more than one way"
        pair = two_servers(self._fits, LEAST_OF_ONE_SERVER)
        return self._jittering(varying, reason) if pair is None else self._of_two(pair, reason)

    def _jittering(self, varying: Sequence[str], reason: str) -> ServerVerdict:
        """The verdict for counts that vary, which say little. There is one finding for all of them,
        and none for requests that are off by no more than those answered in two ways."""
        seen = [
            [o.count for o in self._observations if o.probe == id and o.count] for id in varying
        ]
        spread = max(max(counts) - min(counts) for counts in seen)
        (server, near), *others = nearest_of_varying(self._fits, spread)
        best = Explanation(server, ())
        unexplained = tuple(each for each in self._fits.mismatches(best) if each.probe not in near)
        inexact = (o for o in self._observations if not self._fits.explains(server, o))
        return _judged(
            "not explained",
            self._fits,
            best,
            alternatives=tuple(Explanation(other, ()) for other, _ in others),
            acting=frozenset(),
            unexplained=unexplained,
            unforecast=_names(inexact),
            faults=("counts-vary",),
            reason=reason,
        )

    def _of_two(self, pair: tuple[Hypothesis, Hypothesis], reason: str) -> ServerVerdict:
        best, other = Explanation(pair[0], ("two-servers",)), Explanation(pair[1], ())
        return ServerVerdict(
            "explained",
            best,
            explained=len(self._observations),
            of=len(self._observations),
            acting=self._fits.acting(best),
            faults=best.faults,
            others=(other,),
            reason=reason,
        )


def _judged(outcome: Outcome, fits: Fits, best: Explanation, **values: Any) -> ServerVerdict:
    """The verdict of an explanation, with the values that follow from its fits."""
    usual: dict[str, Any] = {
        "explained": len(fits.explained_by(best)),
        "of": len(fits.observations),
        "unexplained": tuple(fits.mismatches(best)),
        "acting": fits.acting(best),
        "shown_by": {id: _names(fits.showing(best, id)) for id in best.faults},
    }
    return ServerVerdict(outcome, best, **{**usual, **values})


class _FitsOfFault:
    """The observations that a fault explains by itself. Only those that were asked for are tested,
    so that a forecast that no pair needs is not made."""

    def __init__(self, fits: Fits, server: Hypothesis, fault: FaultVariant, clean: int) -> None:
        self._fits, self._hypothesis, self._clean = fits, server.having(fault), clean
        self._any_length = fault.fault.any_length
        self._tested_bits = self._failing = 0

    def all_of(self, wanted: int) -> bool:
        """Whether it explains all of these; tests those first that the clean server does not."""
        if self._any_length:
            return True
        for bits in (wanted & ~self._clean, wanted & self._clean):
            if wanted & self._failing:
                return False
            self._ask(bits & ~self._tested_bits)
        return not wanted & self._failing

    def _ask(self, bits: int) -> None:
        """Tests these observations until one fails."""
        while bits:
            bit = bits & -bits
            bits ^= bit
            self._tested_bits |= bit
            if not self._fits.fits(self._hypothesis, self._fits.observations[bit.bit_length() - 1]):
                self._failing |= bit
                return


def _is_rare(each: Explanation) -> bool:
    """Whether any of the faults is not in its usual form."""
    return any(fault.variant and not fault.fault.family for fault in each.hypothesis.faults)


def _names(observations: Iterable[Observation]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(o.probe for o in observations))


def _with_injections(
    best: Explanation, faults: Iterable[str], acting: frozenset[TextPlace]
) -> tuple[str, ...]:
    """The faults, with injections, unless this server is known to let special tokens act."""
    if best.hypothesis.server.special_text_acts:
        return tuple(sorted(faults))
    return tuple(sorted({*faults, *(f"inject-{place}" for place in acting)}))


_RAREST_FIRST = (
    *("dynamo-1.6", "llama.cpp-2026.10", "llama.cpp", "recipe-0.2.0"),
    *("sglang-0.5.23", "vllm-0.32", "vllm-0.33"),
)
_COMMON = Counter({profile: n for n, profile in enumerate(_RAREST_FIRST, 1)})


def _simplest(
    explanations: Iterable[Explanation], fits: Fits, preferred: Sequence[str], dialect: str | None
) -> list[Explanation]:
    """Each explanation once, in a fixed order: by how much it explains, then by what the server and
    its address say, then by how common the server is."""
    unique: dict[tuple[str, str, tuple[str, ...]], Explanation] = {}
    for each in explanations:
        key = each.hypothesis.profile, each.hypothesis.texts, each.faults
        unique.setdefault(key, each)
    order = {id: n for n, id in enumerate(FAULTS)}
    return sorted(
        unique.values(),
        key=lambda each: (
            -len(fits.explained_by(each)),
            sum(FAULTS[id].any_length or id == "counts-offset" for id in each.faults),
            each.added != 0,
            [order[id] for id in each.faults],
            dialect not in (None, each.hypothesis.texts),
            each.hypothesis.profile not in preferred,
            -_COMMON[each.hypothesis.profile],
        ),
    )

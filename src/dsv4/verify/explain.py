"""From observations to the servers that explain them. Pure: nothing is read, sent or kept."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, TypeAlias

from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.request_changes import longest_text
from dsv4.profiles.server_faults import KNOWN_TOGETHER, FaultVariant, variants
from dsv4.profiles.text_shields import TextPlace
from dsv4.verify.counting_checks import counting_fault
from dsv4.verify.hypotheses import (
    Counts,
    Forecaster,
    Hypothesis,
    Prediction,
    clean_servers,
    forecasts_of_probes,
)
from dsv4.verify.observations import Observation
from dsv4.verify.prompt_matches import LONGEST_STAND_IN, is_shown

# A text of unknown length explains any one count. Three that agree are evidence.
LEAST_OF_UNKNOWN_LENGTH = 3
# Servers that answer in turn are told apart by what each alone explains.
LEAST_OF_ONE_SERVER = 2
# Beyond two faults nothing is named unless so many requests show it.
MOST_FAULTS = 3
LEAST_OF_THREE_FAULTS = 8

# The probe that nearly every fault changes.
EVERYTHING = "rich"

# The fault whose limit is searched, and over how many characters one token may reach.
LIMIT = "long-texts-truncated"
WORD = 8

Outcome: TypeAlias = Literal["explained", "not explained", "void", "nothing seen"]


@dataclass(frozen=True)
class Explanation:
    """A hypothesis that explains what was seen.

    `faults` are ids, sorted, with those of counting. `added` is how many tokens a hidden text or a
    counter adds, 0 where none does.
    """

    hypothesis: Hypothesis
    faults: tuple[str, ...]
    added: int = 0


@dataclass(frozen=True)
class Mismatch:
    """A request that is not explained: what was expected, and what was seen; None is a refusal."""

    probe: str
    expected: int | None
    seen: int | None


@dataclass(frozen=True)
class ServerVerdict:
    """What explains the observations.

    - `outcome`: "explained"; "not explained", and then `best` is the nearest, clean server and
      `unexplained` what it fails; "void" where the counts cannot be believed; "nothing seen".
    - `best`: the simplest explanation. `alternatives`: others that are as simple.
    - `explained`, `of`: how many observations `best` explains, and how many there are.
    - `acting`: the places whose special tokens become control tokens, and `inert` those where they
      stay text, as far as that was seen.
    - `others`: where several servers answer in turn, those besides `best`.
    """

    outcome: Outcome
    best: Explanation | None = None
    alternatives: tuple[Explanation, ...] = ()
    explained: int = 0
    of: int = 0
    unexplained: tuple[Mismatch, ...] = ()
    acting: frozenset[TextPlace] = frozenset()
    inert: frozenset[TextPlace] = frozenset()
    faults: tuple[str, ...] = ()
    others: tuple[Explanation, ...] = ()


def explain(
    observations: Iterable[Observation],
    *,
    counts: Mapping[Hypothesis, Counts] | None = None,
    forecaster: Forecaster | None = None,
) -> ServerVerdict:
    """The servers that explain all `observations`, the simplest first.

    Observations may be in any order, and any part of what a run would give. `counts` are forecasts
    that were made before, by hypothesis and the names of probes: then nothing else is tried.
    `forecaster` has the forecasts for all requests that were seen, and keeps those that it makes;
    without one they are made with the bundled vocabulary.
    """
    seen = [o for o in observations if o.tells and o.body is not None]
    if not seen:
        return ServerVerdict("nothing seen")
    void = counting_fault(seen)
    if void is not None:
        return ServerVerdict("void", faults=(void,), of=len(seen))
    if counts is not None:
        return _Search(seen, _Given(counts)).verdict()
    return _Search(seen, MadeForecasts(forecaster or _forecaster_for(seen))).verdict()


def _forecaster_for(seen: Sequence[Observation]) -> Forecaster:
    if all(o.request is None for o in seen):
        return forecasts_of_probes()
    return Forecaster({o.probe: o.body or {} for o in seen})


# Where the forecasts come from.


class MadeForecasts:
    """Forecasts that are made when they are asked for."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster
        self._ids: dict[tuple[str, str, frozenset[TextPlace]], list[int | None]] = {}

    def servers(self) -> Sequence[Hypothesis]:
        return clean_servers()

    def with_one_fault(self, server: Hypothesis, needed: frozenset[str]) -> Iterator[Hypothesis]:
        """The server with each fault that has to do with all requests that it is needed for."""
        for fault in variants():
            if needed <= self.touched(fault):
                yield server.having(fault)

    def touched(self, fault: FaultVariant) -> frozenset[str]:
        return self._forecaster.touched(fault)

    def prediction(self, hypothesis: Hypothesis, id: str) -> tuple[bool, Prediction]:
        """Whether anything is known of the prompt, and the count."""
        return self._forecaster.count(hypothesis, id)

    def prompt(self, hypothesis: Hypothesis, id: str) -> str | None:
        found = self._forecaster.forecast(hypothesis, id)
        return None if found is None else found.prompt

    def ids(
        self, hypothesis: Hypothesis, prompt: str, acting: frozenset[TextPlace]
    ) -> list[int | None]:
        dialect = hypothesis.server.release(hypothesis.dialect)
        key = prompt, dialect.name, acting
        if key not in self._ids:
            self._ids[key] = self._forecaster.counter.ids(prompt, dialect, acting)
        return self._ids[key]


class _Given:
    """Forecasts of counts that were given, and no others."""

    def __init__(self, counts: Mapping[Hypothesis, Counts]) -> None:
        self._counts = counts
        self._by_server: dict[tuple[Hypothesis, int], list[Hypothesis]] = {}
        for hypothesis in counts:
            server = replace(hypothesis, faults=())
            key = server, len(hypothesis.faults)
            self._by_server.setdefault(key, []).append(hypothesis)

    def servers(self) -> Sequence[Hypothesis]:
        return [hypothesis for hypothesis in self._counts if not hypothesis.faults]

    def with_one_fault(self, server: Hypothesis, needed: frozenset[str]) -> Iterator[Hypothesis]:
        return iter(self._by_server.get((server, 1), ()))

    def with_two_faults(self, server: Hypothesis) -> Iterator[Hypothesis]:
        return iter(self._by_server.get((server, 2), ()))

    def touched(self, fault: FaultVariant) -> frozenset[str]:
        return frozenset()

    def prediction(self, hypothesis: Hypothesis, id: str) -> tuple[bool, Prediction]:
        counts = self._counts[hypothesis]
        return id in counts, counts.get(id)

    def prompt(self, hypothesis: Hypothesis, id: str) -> str | None:
        return None

    def ids(
        self, hypothesis: Hypothesis, prompt: str, acting: frozenset[TextPlace]
    ) -> list[int | None]:
        return []


# The search.


Matcher: TypeAlias = Callable[[Hypothesis], "Explanation | None"]


class _Search:
    def __init__(self, seen: Sequence[Observation], forecasts: MadeForecasts | _Given) -> None:
        self._seen = seen
        self._forecasts = forecasts
        self._order: dict[Hypothesis, Sequence[Observation]] = {}
        self._failing: dict[Hypothesis, frozenset[str]] = {}

    def verdict(self) -> ServerVerdict:
        if self._inconsistent:
            return self._two_servers()
        for level in (self._clean, self._one_fault, self._two_faults, self._three_faults):
            found = _simplest(level(), self._unknown)
            if found:
                return self._explained(found)
        return self._nearest()

    @cached_property
    def _inconsistent(self) -> bool:
        """Whether one request was counted in two ways."""
        answers: dict[str, set[int | None]] = {}
        for observation in self._seen:
            answers.setdefault(observation.probe, set()).add(observation.seen)
        different = [probe for probe, values in answers.items() if len(values) > 1]
        return bool(different) and not self._explained_by_completions(different)

    def _explained_by_completions(self, probes: Sequence[str]) -> bool:
        """Whether the answers to these differ by no more than the tokens of the completions."""
        for probe in probes:
            own = [o for o in self._seen if o.probe == probe]
            if any(o.refused for o in own):
                return False
            if len({(o.count or 0) - o.completion_tokens for o in own}) > 1:
                return False
        return True

    # From the simplest on.

    def _clean(self) -> Iterator[Explanation]:
        for server in self._forecasts.servers():
            if self._exact(server):
                yield Explanation(server, ())

    def _one_fault(self) -> Iterator[Explanation]:
        for server in self._forecasts.servers():
            yield from self._miscounted(server)
            failed = self._failed(server)
            for hypothesis in self._forecasts.with_one_fault(server, failed):
                found = self._matched(hypothesis)
                if found is not None:
                    yield found
            yield from (
                Explanation(hypothesis, hypothesis.ids)
                for hypothesis in self._limits(server, failed)
                if self._exact(hypothesis)
            )

    def _two_faults(self) -> Iterator[Explanation]:
        for server in self._forecasts.servers():
            for hypothesis in self._forecasts.with_one_fault(server, frozenset()):
                yield from self._miscounted(hypothesis)
            pairs = (
                self._forecasts.with_two_faults(server)
                if isinstance(self._forecasts, _Given)
                else self._pairs_of_faults(server)
            )
            for hypothesis in pairs:
                found = self._matched(hypothesis)
                if found is not None:
                    yield found

    def _pairs_of_faults(self, server: Hypothesis) -> Iterator[Hypothesis]:
        """The pairs of faults that are not ruled out by what each does by itself.

        Sets of observations are bits of a number. Where only one fault of a pair has to do with a
        request, that fault must explain it by itself.
        """
        everything = (1 << len(self._seen)) - 1
        clean = self._bits(lambda o: self._fits(server, o))
        touched = {fault: self._touched_bits(fault) for fault in variants()}
        single = [
            (fault, bits, _FitsOfFault(self, server, fault, clean))
            for fault, bits in touched.items()
            if not fault.fault.replaces_prompt and bits & ~clean
        ]
        for (one, touches, fits), (other, also, fits_too) in combinations(single, 2):
            if everything & ~touches & ~also & ~clean or one.id == other.id:
                continue
            if fits.all_of(touches & ~also) and fits_too.all_of(also & ~touches):
                yield server.having(one, other)

    def _three_faults(self) -> Iterator[Explanation]:
        """Three faults, as a proxy has them that rewrites much. Where no known one does, many
        requests must show them: with few, three faults would explain anything."""
        if isinstance(self._forecasts, _Given):
            return
        for server in self._forecasts.servers():
            for hypothesis in (server.having(*faults) for faults in KNOWN_TOGETHER):
                if self._exact(hypothesis):
                    yield Explanation(hypothesis, hypothesis.ids)
            if len(self._failed(server)) >= LEAST_OF_THREE_FAULTS:
                for hypothesis in self._triples(server):
                    yield Explanation(hypothesis, hypothesis.ids)

    def _triples(self, server: Hypothesis) -> Iterator[Hypothesis]:
        """Those that explain everything. Each fault is one that explains by itself a request that
        the others left open."""
        faults = [
            (fault, self._forecasts.touched(fault))
            for fault in variants()
            if not fault.fault.any_length and not fault.fault.replaces_prompt
        ]
        # What few faults have to do with tells most.
        specific = sorted(self._seen, key=lambda o: sum(o.probe in t for _, t in faults))
        tried: set[frozenset[FaultVariant]] = set()

        def search(chosen: frozenset[FaultVariant]) -> Iterator[Hypothesis]:
            hypothesis = server.having(*chosen)
            failing = next((o for o in specific if not self._fits(hypothesis, o)), None)
            if failing is None:
                if len(chosen) == MOST_FAULTS:
                    yield hypothesis
                return
            if len(chosen) == MOST_FAULTS:
                return
            for fault, touched in faults:
                more = chosen | {fault}
                if (
                    failing.probe in touched
                    and more not in tried
                    and len({each.id for each in more}) == len(more)
                    and self._fits(server.having(*more), failing)
                ):
                    tried.add(more)
                    yield from search(more)

        yield from search(frozenset())

    def _touched_bits(self, fault: FaultVariant) -> int:
        touched = self._forecasts.touched(fault)
        return self._bits(lambda observation: observation.probe in touched)

    def fits_at(self, hypothesis: Hypothesis, index: int) -> bool:
        """Whether a hypothesis explains the observation with this number."""
        return self._fits(hypothesis, self._seen[index])

    def _bits(self, holds: Callable[[Observation], bool]) -> int:
        return sum(1 << n for n, observation in enumerate(self._seen) if holds(observation))

    def _limits(self, server: Hypothesis, failed: frozenset[str]) -> Iterator[Hypothesis]:
        """The server with a limit of characters that the first request it fails would show."""
        if isinstance(self._forecasts, _Given):
            return
        first = next((o for o in self._seen if o.probe in failed and o.count is not None), None)
        if first is None:
            return

        def cut(characters: int) -> Hypothesis:
            return server.having(FaultVariant(LIMIT, characters))

        def falls_short(characters: int) -> bool:
            _, found = self._forecasts.prediction(cut(characters), first.probe)
            return isinstance(found, int) and found < (first.count or 0)

        longest = longest_text(first.body or {})
        least = bisect_left(range(1, longest), True, key=lambda n: not falls_short(n)) + 1
        yield from (cut(n) for n in range(least, min(least + WORD, longest)))

    def _failed(self, server: Hypothesis) -> frozenset[str]:
        if server not in self._failing:
            failing = (o.probe for o in self._seen if not self._fits(server, o))
            self._failing[server] = frozenset(failing)
        return self._failing[server]

    # Whether a hypothesis fits.

    def _unknown(self, hypothesis: Hypothesis) -> int:
        """How many prompts nobody can know."""
        return sum(not self._forecasts.prediction(hypothesis, o.probe)[0] for o in self._seen)

    def _fits(self, hypothesis: Hypothesis, observation: Observation, added: int = 0) -> bool:
        known, prediction = self._forecasts.prediction(hypothesis, observation.probe)
        if not known:
            return True
        if not _agrees(prediction, observation.seen, added):
            return False
        stands_in = any(
            fault.fault.any_length and observation.probe in self._forecasts.touched(fault)
            for fault in hypothesis.faults
        )
        other = LONGEST_STAND_IN if stands_in else 0 if added else None
        return is_shown(self._forecasts, hypothesis, observation, other)

    def _exact(self, hypothesis: Hypothesis) -> bool:
        """Most hypotheses fail where the clean server does: that is looked at first."""
        server = Hypothesis(hypothesis.profile, hypothesis.dialect)
        return all(self._fits(hypothesis, o) for o in self._hardest_first(server))

    def _hardest_first(self, server: Hypothesis) -> Sequence[Observation]:
        if server not in self._order:
            self._order[server] = sorted(self._seen, key=lambda o: self._fits(server, o))
        return self._order[server]

    def _matched(self, hypothesis: Hypothesis) -> Explanation | None:
        unknown = [f for f in hypothesis.faults if f.fault.any_length]
        if self._exact(hypothesis):
            return Explanation(hypothesis, hypothesis.ids)
        if len(unknown) != 1:
            return None
        touched = self._forecasts.touched(unknown[0])
        free = [o for o in self._seen if o.probe in touched]
        fixed = [o for o in self._seen if o.probe not in touched]
        if not self._mostly_fails(replace(hypothesis, faults=()), free):
            return None
        added = self._constant(hypothesis, free)
        if not added or not all(self._fits(hypothesis, o) for o in fixed):
            return None
        return Explanation(hypothesis, hypothesis.ids, added)

    def _constant(self, hypothesis: Hypothesis, free: Sequence[Observation]) -> int:
        """By how many tokens all of these differ from their forecasts; 0 if not by the same."""
        difference: int | None = None
        counted = 0
        for observation in free:
            known, prediction = self._forecasts.prediction(hypothesis, observation.probe)
            if not known:
                continue
            if prediction is None or observation.seen is None:
                if prediction is not observation.seen:
                    return 0
                continue
            if isinstance(prediction, int):
                own = observation.seen - prediction
                if not own or (difference is not None and own != difference):
                    return 0
                difference, counted = own, counted + 1
        if difference is None or counted < LEAST_OF_UNKNOWN_LENGTH:
            return 0
        return difference if all(self._fits(hypothesis, o, difference) for o in free) else 0

    def _miscounted(self, hypothesis: Hypothesis) -> Iterator[Explanation]:
        """The hypothesis with a counter that adds something to every count."""
        if any(fault.fault.any_length for fault in hypothesis.faults):
            return
        if not self._mostly_fails(replace(hypothesis, faults=()), self._seen):
            return
        for found in self._miscounts(hypothesis):
            if not hypothesis.faults or self._shows_plainly(hypothesis):
                yield found

    def _miscounts(self, hypothesis: Hypothesis) -> Iterator[Explanation]:
        if self._without_completions._exact(hypothesis):
            faults = tuple(sorted((*hypothesis.ids, "counts-include-completion")))
            yield Explanation(hypothesis, faults)
        added = self._constant(hypothesis, self._hardest_first(replace(hypothesis, faults=())))
        if added:
            faults = tuple(sorted((*hypothesis.ids, "counts-offset")))
            yield Explanation(hypothesis, faults, added)

    def _mostly_fails(self, server: Hypothesis, seen: Sequence[Observation]) -> bool:
        """Whether a clean server explains few of these. A number that is added to all counts is
        seen in most of them: where it is not, it only makes up for a fault that is none."""
        counted = [o for o in seen if o.seen is not None]
        failed = self._failed(server)
        return sum(o.probe in failed for o in counted) * 2 >= len(counted)

    def _shows_plainly(self, hypothesis: Hypothesis) -> bool:
        """Whether the faults change another count than that of the request that has everything in
        it: with any number added, that one alone would say whatever it is asked."""
        clean = replace(hypothesis, faults=())
        predict = self._forecasts.prediction
        return any(
            predict(hypothesis, o.probe) != predict(clean, o.probe)
            for o in self._seen
            if o.probe != EVERYTHING
        )

    @cached_property
    def _without_completions(self) -> _Search:
        """The same search, with the tokens of answers taken out of every count."""
        corrected = [
            o if o.count is None else replace(o, count=o.count - o.completion_tokens)
            for o in self._seen
        ]
        return _Search(corrected, self._forecasts)

    # What comes of it.

    def _explained(self, found: Sequence[Explanation]) -> ServerVerdict:
        best, *others = found
        acting, inert = self._safety(best)
        return ServerVerdict(
            "explained",
            best,
            tuple(others),
            explained=len(self._seen),
            of=len(self._seen),
            acting=acting,
            inert=inert,
            faults=_with_injections(best, acting),
        )

    def _safety(
        self, best: Explanation, seen: Sequence[Observation] | None = None
    ) -> tuple[frozenset[TextPlace], frozenset[TextPlace]]:
        """The places whose special tokens act, and those where they do not, by the counts."""
        acts: set[TextPlace] = set()
        inert: set[TextPlace] = set()
        for observation in self._seen if seen is None else seen:
            _, prediction = self._forecasts.prediction(best.hypothesis, observation.probe)
            if prediction is None or isinstance(prediction, int) or observation.seen is None:
                continue
            fitting = [a for a, n in prediction.items() if n + best.added == observation.seen]
            if len(fitting) == 1:
                acts |= fitting[0]
                inert |= frozenset().union(*prediction) - fitting[0]
        return frozenset(acts), frozenset(inert - acts)

    def _nearest(self) -> ServerVerdict:
        """The clean server that fails least: nothing is named that is not certain."""
        servers = self._forecasts.servers()
        fits = {s: sum(self._fits(s, o) for o in self._seen) for s in servers}
        nearest = max(servers, key=lambda server: (self._alike(server), fits[server]))
        best = Explanation(nearest, ())
        acting, inert = self._safety(best)
        return ServerVerdict(
            "not explained",
            best,
            explained=fits[nearest],
            of=len(self._seen),
            unexplained=tuple(self._mismatches(nearest)),
            acting=acting,
            inert=inert,
            faults=_with_injections(best, acting),
        )

    def _alike(self, server: Hypothesis) -> int:
        """How many counts are off by the same number, which may be none: a text that is added to
        every request changes all of them."""
        off: Counter[int | None] = Counter()
        for observation in self._seen:
            _, prediction = self._forecasts.prediction(server, observation.probe)
            expected = usual_count(prediction, server.server.special_text_acts)
            if expected is None or observation.seen is None:
                off[None] += expected is observation.seen
            else:
                off[observation.seen - expected] += 1
        refused = off.pop(None, 0)
        return refused + max(off.values(), default=0)

    def _mismatches(self, server: Hypothesis) -> Iterator[Mismatch]:
        for observation in self._seen:
            if self._fits(server, observation):
                continue
            _, prediction = self._forecasts.prediction(server, observation.probe)
            expected = usual_count(prediction, server.server.special_text_acts)
            yield Mismatch(observation.probe, expected, observation.seen)

    def _two_servers(self) -> ServerVerdict:
        """Two servers, of which each explains some, and both together all."""
        servers = [Explanation(server, ()) for server in self._forecasts.servers()]
        found = self._pair(servers, servers) or self._pair(servers, list(self._faulty()))
        if found is None:
            verdict = self._nearest()
            return replace(verdict, faults=tuple(sorted({*verdict.faults, "two-servers"})))
        faults = {"two-servers"}.union(*(each.faults for each in found))
        acting, inert = self._safety(found[0])
        return ServerVerdict(
            "explained",
            Explanation(found[0].hypothesis, tuple(sorted(faults)), found[0].added),
            (),
            explained=len(self._seen),
            of=len(self._seen),
            acting=acting,
            inert=inert,
            faults=tuple(sorted(faults)),
            others=found[1:],
        )

    def _faulty(self) -> Iterator[Explanation]:
        for server in self._forecasts.servers():
            for hypothesis in self._forecasts.with_one_fault(server, frozenset()):
                yield Explanation(hypothesis, hypothesis.ids)

    def _pair(
        self, first: Sequence[Explanation], second: Sequence[Explanation]
    ) -> tuple[Explanation, Explanation] | None:
        everything = frozenset(range(len(self._seen)))
        best: tuple[int, tuple[Explanation, Explanation]] | None = None
        masks = {each.hypothesis: self._mask(each.hypothesis) for each in (*first, *second)}
        for one in first:
            for other in second:
                a, b = masks[one.hypothesis], masks[other.hypothesis]
                needed = min(len(a - b), len(b - a))
                if a | b == everything and needed >= LEAST_OF_ONE_SERVER:
                    pair = (one, other) if len(a) >= len(b) else (other, one)
                    size = len(a & b)
                    if best is None or size < best[0]:
                        best = size, pair
        return None if best is None else best[1]

    def _mask(self, hypothesis: Hypothesis) -> frozenset[int]:
        return frozenset(n for n, o in enumerate(self._seen) if self._fits(hypothesis, o))


class _FitsOfFault:
    """Which observations a fault explains by itself, as far as it was asked: a forecast that no
    pair needs is not made."""

    def __init__(
        self, search: _Search, server: Hypothesis, fault: FaultVariant, clean: int
    ) -> None:
        self._search, self._hypothesis, self._clean = search, server.having(fault), clean
        self._any_length = fault.fault.any_length
        self._known = self._failing = 0

    def all_of(self, wanted: int) -> bool:
        """Whether it explains all of these. What the clean server does not is asked first."""
        if self._any_length:
            return True
        for bits in (wanted & ~self._clean, wanted & self._clean):
            if wanted & self._failing:
                return False
            self._ask(bits & ~self._known)
        return not wanted & self._failing

    def _ask(self, bits: int) -> None:
        """Until one fails."""
        while bits:
            bit = bits & -bits
            bits ^= bit
            self._known |= bit
            if not self._search.fits_at(self._hypothesis, bit.bit_length() - 1):
                self._failing |= bit
                return


def _agrees(prediction: Prediction, seen: int | None, added: int) -> bool:
    if prediction is None or seen is None:
        return prediction is None and seen is None
    if isinstance(prediction, int):
        return prediction + added == seen
    return any(count + added == seen for count in prediction.values())


def usual_count(prediction: Prediction, acts: bool) -> int | None:
    """One number where a text spells tokens: as this server is known to count them."""
    if prediction is None or isinstance(prediction, int):
        return prediction
    return prediction[max(prediction, key=len) if acts else frozenset()]


def _with_injections(best: Explanation, acting: frozenset[TextPlace]) -> tuple[str, ...]:
    """The faults, with the injections that are not this server's own way."""
    if best.hypothesis.server.special_text_acts:
        return best.faults
    return tuple(sorted({*best.faults, *(f"inject-{place}" for place in acting)}))


_COMMON = Counter(
    {
        "vllm-0.32": 5,
        "sglang-0.5.23": 4,
        "recipe-0.2.0": 3,
        "llama.cpp": 2,
        "llama.cpp-2026.10": 1,
    }
)


def _simplest(
    found: Iterable[Explanation], unknown: Callable[[Hypothesis], int]
) -> list[Explanation]:
    """Each explanation once, in a fixed order: exact ones first, then as servers are common."""
    unique: dict[tuple[str, str, tuple[str, ...]], Explanation] = {}
    for each in found:
        key = each.hypothesis.profile, each.hypothesis.texts, each.faults
        unique.setdefault(key, each)
    order = {id: n for n, id in enumerate(FAULTS)}
    return sorted(
        unique.values(),
        key=lambda each: (
            unknown(each.hypothesis),
            sum(FAULTS[id].any_length or id == "counts-offset" for id in each.faults),
            each.added != 0,
            [order[id] for id in each.faults],
            -_COMMON[each.hypothesis.profile],
        ),
    )

"""Evidence: for every known server and every known way of being odd, no false word is said.

Each habit is put around each server, and what a run says of the two is compared with what is true
of them: no fault is named that is not there, the server is named where its counts are its own, and
what is odd is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odd_habits import (
    HABITS,
    ROUTES,
    Habit,
    Habitual,
    last_message,
    last_message_and_tools,
    last_of_user,
    second_of,
)
from stand_ins import FORECASTER, StandIn
from unknown_faults import CLEANED_FAULTS, CROWDED_FAULTS

from dsv4.profiles.profile import GATEWAY, PROFILES
from dsv4.profiles.text_shields import TEXT_PLACES
from dsv4.verify import PROBES, Hypothesis, Observation, Report, ServerProblem, run
from dsv4.verify.counting_checks import repeated_counts
from dsv4.verify.fits import usual_count
from dsv4.verify.hypotheses import clean_servers
from dsv4.verify.own_ways import OWN_WAYS
from dsv4.verify.probes import CROWDED
from dsv4.verify.runner import RunMode, planned
from parts import ALL, each_share, part, share_of

SERVERS = clean_servers()
PAIRS = [(truth, habit) for habit in HABITS.values() for truth in SERVERS]
# So that the servers of a part have other habits.
STRIDE = 1009
LOST_OR_CLEANED = {**CROWDED_FAULTS, **CLEANED_FAULTS}


def counts_of(hypothesis: Hypothesis) -> dict[str, int | None]:
    acts = hypothesis.server.special_text_acts
    counts = FORECASTER.counts(hypothesis)
    return {id: usual_count(count, acts) for id, count in counts.items()}


def is_like(found: Hypothesis, truth: Hypothesis, sent: set[str]) -> bool:
    """Whether two servers count all of these requests alike."""
    a, b = counts_of(found), counts_of(truth)
    return all(a.get(id) == b.get(id) for id in sent)


def false_words(truth: Hypothesis, habit: Habit, mode: RunMode) -> Iterator[str]:
    """What a run says of a server with a habit, and is not true; and what it should say."""
    client = Habitual(truth, habit)
    try:
        report = run(client, forecaster=FORECASTER, mode=mode)
    except ServerProblem as problem:
        yield f"gave up: {problem}"
        return
    if client.requests > planned(mode)[0]:
        yield f"{client.requests} requests"
    yield from _accusations(truth, habit, report, mode)
    yield from _names(truth, habit, report, mode)
    yield from _sentences(report)


def _accusations(truth: Hypothesis, habit: Habit, report: Report, mode: RunMode) -> Iterator[str]:
    both = [truth, second_of(truth)] if habit.id in ROUTES else [truth]
    places = TEXT_PLACES if any(each.server.special_text_acts for each in both) else ()
    # Stand-ins see no pictures. Few requests leave odd counts open, which is said.
    known = {"images-unseen", *habit.may, *(f"inject-{place}" for place in places)}
    if mode == "quick" and habit.may:
        known.add("not-explained")
    ways = {id for each in both for id in OWN_WAYS[each.server.family]}
    for finding in report.findings:
        ids = {id for each in finding.id.split("|") for id in each.split("+")}
        if finding.verdict == "fault" and not ids <= known:
            yield f"fault {finding.id}: {finding.message} ({finding.probe}, {finding.seen})"
        if finding.verdict == "differs" and not ids <= known | ways:
            yield f"differs {finding.id}: {finding.message}"
    faults = {id for id in report.verdict.faults if id not in known}
    if faults:
        yield f"faults {faults}"


def _names(truth: Hypothesis, habit: Habit, report: Report, mode: RunMode) -> Iterator[str]:
    verdict = report.verdict
    sent = {id for id in PROBES if id in report_probes(report, mode)}
    named = [
        each.hypothesis for each in (verdict.best, *verdict.alternatives, *verdict.others) if each
    ]
    true = [truth, second_of(truth)] if habit.id in ROUTES else [truth]
    is_open = mode == "quick" and verdict.outcome == "not explained"
    is_true = any(is_like(found, one, sent) for found in named for one in true)
    if named and not is_open and not is_true:
        yield f"{verdict.outcome}: {', '.join(map(str, named))}"
    if mode == "quick":
        return
    if not habit.hides and verdict.outcome != "explained":
        yield f"{verdict.outcome}, by {[each.probe for each in verdict.unexplained]}"
    wrong = [f for f in report.findings if f.verdict in ("fault", "differs")]
    said = {id for f in wrong for id in f.id.split("|")}
    if habit.may and not habit.is_silent and not said & habit.may:
        yield f"nothing is said: expected one of {sorted(habit.may)}"


def report_probes(report: Report, mode: RunMode) -> set[str]:
    return set(PROBES) if mode != "quick" else {"plain", "tools-two"}


def _sentences(report: Report) -> Iterator[str]:
    """No number is nobody's that a known server gives."""
    for finding in report.findings:
        words = f"{finding.message} {finding.effect}"
        if "any known server" not in words and "no known server" not in words:
            continue
        seen = finding.seen.partition(" tokens")[0].replace(",", "")
        if seen.isdecimal() and int(seen) in {counts_of(s).get(finding.probe) for s in SERVERS}:
            yield f"{finding.probe}: {seen} tokens are a known server's"
    yield from (note for note in report.notes if "No known server" in note)


def test_every_profile_is_a_server() -> None:
    """A profile is a hypothesis, whatever it is a profile of."""
    profiles = {*PROFILES, GATEWAY.name}
    assert {each.profile for each in SERVERS} == profiles


@each_share
@pytest.mark.parametrize("mode", ["default", "quick"])
def test_no_word_is_false(mode: Any, share: int) -> None:
    wrong = {
        f"{habit.id}: {truth}": words
        for truth, habit in share_of(part(PAIRS, STRIDE), share)
        if (words := list(false_words(truth, habit, mode)))
    }
    assert wrong == {}


class TestCountsThatAreRepeated:
    """Counts of other requests, from a cache in front that reads only the end of a request."""

    @staticmethod
    def observations(truth: Hypothesis, ending: Callable[[Any], object]) -> list[Observation]:
        kept: dict[str, int | None] = {}
        return [
            Observation(id, kept.setdefault(str(ending(PROBES[id].request)), count))
            for id, count in counts_of(truth).items()
            if id in PROBES
        ]

    @pytest.mark.parametrize("ending", [last_message, last_message_and_tools, last_of_user])
    @pytest.mark.parametrize("truth", part(SERVERS, 17), ids=str)
    def test_are_told(self, truth: Hypothesis, ending: Callable[[Any], object]) -> None:
        found = repeated_counts(self.observations(truth, ending))
        assert found is not None
        assert found[0] == "counts-repeated"

    @pytest.mark.parametrize("truth", part(SERVERS, 17), ids=str)
    def test_are_of_many_requests(self, truth: Hypothesis) -> None:
        assert repeated_counts(self.observations(truth, last_message)[:12]) is None

    @pytest.mark.parametrize("truth", part(SERVERS, 17), ids=str)
    def test_are_no_counts_of_prompts(self, truth: Hypothesis) -> None:
        assert repeated_counts(self.observations(truth, lambda body: body)) is None


class TestWhatOnlyCrowdedRequestsShow:
    """Long, many and repeated things, which servers lose in silence."""

    @staticmethod
    def count(truth: Hypothesis, **options: Any) -> int:
        reply = StandIn(truth, **options).post("/chat/completions", PROBES[CROWDED].request)
        count: int = reply.body["usage"]["prompt_tokens"]
        return count

    @pytest.mark.parametrize("truth", part(SERVERS, 9), ids=str)
    def test_each_changes_the_count_by_a_number_of_its_own(self, truth: Hypothesis) -> None:
        clean = self.count(truth)
        off = {id: self.count(truth, changed=f.change) - clean for id, f in CROWDED_FAULTS.items()}
        assert 0 not in off.values()
        assert len(set(off.values())) == len(off), off

    @pytest.mark.parametrize("mode", ["default", "quick"])
    @pytest.mark.parametrize("id", part(list(LOST_OR_CLEANED), 128))
    def test_no_server_that_loses_them_is_clean(self, id: str, mode: Any) -> None:
        first = list(LOST_OR_CLEANED).index(id) % len(SERVERS)
        for truth in SERVERS if ALL else SERVERS[first : first + 1]:
            client = StandIn(truth, changed=LOST_OR_CLEANED[id].change)
            report = run(client, forecaster=FORECASTER, mode=mode)
            # SGLang refuses a type that it does not know, and the refusals are what is told.
            assert report.is_faulty or report.verdict.refused, truth
            told = {finding.id for finding in report.findings}
            assert report.verdict.faults or "not-explained" in told, truth

"""The gauntlet: no false accusation in any mode, listed faults named, clean servers clean."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from gauntlet_servers import KINDS, AnyServer, Listed, listed, servers_of
from stand_ins import FORECASTER, LookAmong

from dsv4.profiles.fault_table import FAULTS
from dsv4.verify import PROBES, Hypothesis, Report, ServerProblem, run
from dsv4.verify.doubts import possible_answers
from dsv4.verify.hypotheses import clean_servers
from dsv4.verify.probes import FOLLOW_UPS
from dsv4.verify.verdicts import Explanation
from parts import ALL, part

MODES = ("quick", "default", "full")
# What is promised: so many of all servers, of which so many have faults that no table lists, and so
# many are noisy; so many of a hundred listed faults are named exactly, or called possible by a
# quick run; so many requests of one, on average over all of them.
ALL_SERVERS, UNLISTED_SERVERS, NOISY_SERVERS = 150, 50, 30
LEAST_NAMED = 95
QUICK_REQUESTS = 8


def report_on(each: AnyServer, mode: Any) -> Report | None:
    try:
        return run(each.make(), forecaster=FORECASTER, mode=mode)
    except ServerProblem:  # a sentence in place of a report
        return None


def servers_like(each: AnyServer) -> Sequence[Hypothesis]:
    return [server for server in clean_servers() if server.dialect == each.truth.dialect]


def accused(report: Report) -> set[str]:
    """The faults that a report names: what a server does with special tokens is known of it."""
    named = {f.id for f in report.findings if f.verdict == "fault" and f.id in FAULTS}
    return {id for id in {*named, *report.verdict.faults} if FAULTS[id].group != "safety"}


def is_named(each: Listed, report: Report) -> bool:
    """Whether the faults are named, or stand in one entry with those that no request tells from
    them: their prompts have as many tokens, whatever is asked."""
    verdict = report.verdict
    if accused(report) in each.names:
        return True
    truth = Explanation(each.truth, each.truth.ids)
    tied = [found for found in (verdict.best, *verdict.alternatives) if found is not None]
    entries = [set(finding.id.split("|")) for finding in report.findings]
    return (
        verdict.outcome == "explained"
        and any({"+".join(names) for names in each.names} & entry for entry in entries)
        and not any(
            len(possible_answers([truth, *tied], probe, FORECASTER)) > 1
            for probe in (*PROBES.values(), *FOLLOW_UPS)
        )
    )


def is_called_possible(each: Listed, report: Report) -> bool:
    """Whether the faults are those of the only explanation, which more requests would confirm."""
    verdict = report.verdict
    best = verdict.best
    is_only = verdict.outcome == "explained" and not verdict.alternatives
    return is_only and best is not None and set(best.faults) in each.names


def test_there_are_as_many_servers_as_promised() -> None:
    assert sum(len(servers_of(kind)) for kind in KINDS) == ALL_SERVERS
    assert len(servers_of("unlisted")) == UNLISTED_SERVERS
    assert len(servers_of("noisy")) == NOISY_SERVERS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["unlisted", "noisy"])
def test_nothing_is_named_that_is_not_there(kind: str, mode: str, look_among: LookAmong) -> None:
    wrong = {}
    for each in part(servers_of(kind), 60):
        look_among(servers_like(each))
        report = report_on(each, mode)
        if report is not None and not accused(report) <= each.allowed:
            wrong[each.name] = accused(report)
    assert wrong == {}


@pytest.mark.parametrize("mode", MODES)
def test_clean_servers_are_clean(mode: str) -> None:
    for each in part(servers_of("clean"), 8):
        report = report_on(each, mode)
        assert report is not None
        assert (report.verdict.outcome, accused(report)) == ("explained", set()), each.name


@pytest.mark.parametrize("mode", MODES)
def test_listed_faults_are_named(mode: str) -> None:
    servers = part(listed(), 11)
    missed = []
    for each in servers:
        report = report_on(each, mode)
        assert report is not None
        assert accused(report) <= each.allowed, each.name
        is_possible = mode == "quick" and is_called_possible(each, report)
        if not (is_named(each, report) or is_possible):
            missed.append(each.name)
    # A part is no fair sample: one that is missed may be in it.
    most = len(servers) * (100 - LEAST_NAMED) // 100 if ALL else 1
    assert len(missed) <= most, missed


def test_a_quick_run_is_quick(look_among: LookAmong) -> None:
    """A part is no fair sample, so that one is held to what it is known to take at most."""
    servers = [each for kind in KINDS for each in part(servers_of(kind), 10)]
    requests = 0
    for each in servers:
        look_among(servers_like(each))
        client = each.make()
        with suppress(ServerProblem):
            run(client, forecaster=FORECASTER, mode="quick")
        requests += client.requests
    most = QUICK_REQUESTS if len(servers) == ALL_SERVERS else QUICK_REQUESTS + 2
    assert requests <= most * len(servers)

"""What servers do by themselves: said where a request shows it, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from stand_ins import FORECASTER, VLLM, StandIn, count_on, server

from dsv4.verify import Hypothesis, Report, run
from dsv4.verify.hypotheses import clean_servers
from dsv4.verify.own_ways import OWN_WAYS, released_server
from rows import each_row


def ways_of(truth: Hypothesis, **options: Any) -> dict[str, Any]:
    report: Report = run(StandIn(truth), forecaster=FORECASTER, **options)
    return {f.id: f for f in report.findings if f.id in OWN_WAYS[truth.server.family]}


@each_row("truth", [(each,) for each in clean_servers()])
def test_each_is_shown_by_what_a_server_like_it_would_count(truth: Hypothesis) -> None:
    reference = released_server(truth, FORECASTER)
    assert reference.texts == truth.texts
    for id, finding in ways_of(truth).items():
        expected, seen = count_on(reference, finding.probe), count_on(truth, finding.probe)
        assert (finding.expected, finding.shown_by) == (f"{expected} tokens", (finding.probe,)), id
        assert finding.seen.startswith(f"{seen} tokens, as "), id
        assert "proxy" not in finding.mend, id  # it is the server itself


# Dialects have rules of their own, and servers other defaults than the released encoder.
WAYS = [
    ("vllm-0.32", "v4", {*OWN_WAYS["vllm"]}),
    # It refuses the effort that V4 takes for another one.
    ("vllm-0.32", "v4.1", {*OWN_WAYS["vllm"]} - {"effort-medium-as-low"}),
    # What else it does has prompts of as many tokens, as long as nobody asks it to think.
    ("sglang-0.5.23", "v4", {"thinking-type-ignored"}),
]


@pytest.mark.parametrize(("profile", "dialect", "ways"), WAYS)
def test_those_that_counts_show(profile: str, dialect: str, ways: set[str]) -> None:
    assert ways_of(server(profile, dialect)).keys() == ways


def test_two_ways_are_shown_by_two_requests() -> None:
    ways = ways_of(VLLM)
    assert ways["tools-kept-at-none"].probe == "choice-none"
    assert ways["tool-choice-ignored"].probe == "choice-named"


@pytest.mark.parametrize("group", ["thinking", "tools"])
def test_a_group_does_not_pass_where_nobody_asked_what_the_server_is_known_to_do(
    group: str,
) -> None:
    report = run(StandIn(VLLM), forecaster=FORECASTER, mode="quick")
    assert report.verdict.best is not None
    assert report.groups[group] in ("inconclusive", "differs")


# A vLLM that was started with defaults of its own, which change every count.


def test_what_a_default_of_effort_changes_is_none_of_them() -> None:
    found = ways_of(server("vllm-0.32", "v4", "effort-max-by-default/1"))["developer-dropped"]
    expected, seen = (int(text.split()[0]) for text in (found.expected, found.seen))
    text = (count_on(VLLM, "system") or 0) - (count_on(VLLM, "plain") or 0)
    assert 0 < expected - seen <= text + 2  # the developer's four words


def test_what_a_server_does_only_while_it_thinks() -> None:
    """vLLM drops a developer's message from a prompt that ends in thinking, and from no other."""
    silent = server("vllm-0.32", "v4", "thinking-off-by-default")
    assert (count_on(silent, "developer") or 0) > (count_on(silent, "plain") or 0)
    assert "developer-dropped" not in ways_of(silent)

"""A run costs no more prompt tokens than it announces, whatever the server counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any
from zlib import crc32

import pytest
from gauntlet_servers import Noisy, _counted
from stand_ins import FORECASTER, VLLM, LookAmong, server

from dsv4.verify import PROBES, Reply, Report, run
from dsv4.verify.picture_checks import PICTURES, picture_request
from dsv4.verify.runner import RunMode, planned
from dsv4.verify.token_budget import TokenBudget, TokensSpent, forecast_tokens
from parts import part

MODES: tuple[RunMode, ...] = ("quick", "default", "full")
COUNTERS: dict[str, Callable[[int], int]] = {
    "as it should": lambda count: count,
    "a hidden text of 50 tokens": lambda count: count + 50,
    "a hidden text of 1,500 tokens": lambda count: count + 1_500,
    "twice as much": lambda count: 2 * count,
    "ten times as much": lambda count: 10 * count,
}


class Counting(Noisy):
    """A server that counts as it likes. `counted` is the sum of what it says."""

    def __init__(self, count: Callable[[int], int]) -> None:
        super().__init__(VLLM, _counted(lambda usual, _: self._add(count(usual))))
        self.counted = 0

    def _add(self, count: int) -> int:
        self.counted += count
        return count


@pytest.fixture
def fewer_servers(look_among: LookAmong) -> None:
    look_among([VLLM, server("sglang-0.5.23")])


def run_over(name: str, mode: RunMode, **options: Any) -> tuple[Counting, Report]:
    client = Counting(COUNTERS[name])
    return client, run(client, forecaster=FORECASTER, mode=mode, **options)


@pytest.mark.usefixtures("fewer_servers")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", COUNTERS)
def test_no_run_passes_what_it_announces(name: str, mode: RunMode) -> None:
    client, report = run_over(name, mode)
    assert client.counted == report.prompt_tokens <= planned(mode)[1]


@pytest.mark.parametrize("parallel", [1, 4])
def test_what_was_not_asked_is_said(parallel: int) -> None:
    client, report = run_over("a hidden text of 1,500 tokens", "default", parallel=parallel)
    note = next(note for note in report.notes if note.startswith("Not sent"))
    assert f"{planned()[1]:,} prompt tokens" in note
    asked = {o for o in PROBES if f" {o}," in note or f" {o}." in note}
    assert len(asked) > len(PROBES) / 2  # which is too little to measure by
    assert report.too_little
    assert client.counted <= planned()[1]


def test_a_run_that_is_complete_says_nothing_of_it() -> None:
    _, report = run_over("as it should", "default")
    assert not any("Not sent" in note for note in report.notes)
    assert not report.too_little


def test_a_small_excess_leaves_out_few_requests() -> None:
    _, report = run_over("a hidden text of 50 tokens", "default")
    assert not report.too_little
    assert report.verdict.faults == ("counts-offset",)


def test_what_a_long_request_costs_more_is_not_expected_of_short_ones() -> None:
    budget = TokenBudget(10_000, FORECASTER.counter)
    requests = [PROBES[id].request for id in ("plain", "count-1000", "plain")]
    for body, more in zip(requests, (0, 500), strict=False):
        own, expected = budget.reserve(body)
        budget.settle(own, expected, own + more)
    own, expected = budget.reserve(requests[-1])
    assert expected - own == pytest.approx(own * 0.46, abs=1)


def test_whoever_allows_more_is_told_more() -> None:
    _, report = run_over("a hidden text of 1,500 tokens", "default", tokens=500_000)
    assert not any("Not sent" in note for note in report.notes)
    assert report.prompt_tokens > planned()[1]


def test_a_request_of_ones_own_is_announced_too() -> None:
    body = {"messages": [{"role": "user", "content": "word " * 30_000}]}
    assert planned("default", (), body)[1] > planned()[1] + 30_000


class Slow(Noisy):
    """A server that takes another time for each request, and fails at some. `bodies` is what it was
    sent."""

    def __init__(self, count: Callable[[int, str], int], failing: int) -> None:
        super().__init__(VLLM, _counted(count))
        self.bodies: list[str] = []
        self._failing = failing

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        text = json.dumps([path, body])
        self.bodies.append(text)
        number = crc32(text.encode())
        time.sleep(number % 7 / 2_000)
        if number % 10 < self._failing:
            return Reply(500, body={})
        return super().post(path, body)


# By the count that is usual, and the text of a request.
SURPRISES: dict[str, Callable[[int, str], int]] = {
    **{name: lambda usual, _, count=count: count(usual) for name, count in COUNTERS.items()},  # type: ignore[misc]
    "tools three times as much": lambda usual, text: usual * (3 if '"function"' in text else 1),
}


LIMITS = (1_500, 3_000, 6_000, 9_000, 12_000, 16_000)


@pytest.mark.usefixtures("fewer_servers")
class TestAtOnce:
    """How many requests are under way at once makes no difference, where limits bind too."""

    def sent_at_once(self, parallel: int, tokens: int, *of: Any) -> tuple[list[str], Any]:
        client = Slow(*of)
        report = run(client, forecaster=FORECASTER, parallel=parallel, tokens=tokens)
        # A minute may end between two runs.
        return sorted(client.bodies), {**report.to_dict(), "date": ""}

    @pytest.mark.parametrize(("name", "tokens"), part([*product(SURPRISES, LIMITS)], 7))
    def test_tokens(self, name: str, tokens: int) -> None:
        alone, *others = (
            self.sent_at_once(parallel, tokens, SURPRISES[name], 0) for parallel in (1, 4, 8)
        )
        assert all(other == alone for other in others)

    @pytest.mark.parametrize("failing", [1, 3])
    def test_requests(self, failing: int) -> None:
        alone, *others = (
            self.sent_at_once(parallel, 20_000, lambda usual, _: usual, failing)
            for parallel in (1, 4, 8)
        )
        assert all(other == alone for other in others)
        assert len(alone[0]) <= planned()[0]


class TestForecasts:
    @pytest.mark.parametrize("id", PROBES)
    def test_probes_are_counted_as_the_gateway_does(self, id: str) -> None:
        known, count = FORECASTER.count(server("dsv4", "v4-0731"), id)
        forecast = forecast_tokens(PROBES[id].request, FORECASTER.counter)
        if known and isinstance(count, int):
            assert count <= forecast <= count + 40  # V4.1 may count a little more
        else:  # a refusal, or texts that spell tokens
            assert forecast > 0

    @pytest.mark.parametrize("name", PICTURES)
    def test_pictures_are_counted(self, name: str) -> None:
        tokens = forecast_tokens(picture_request(PICTURES[name]), FORECASTER.counter)
        assert PICTURES[name].tokens <= tokens <= PICTURES[name].tokens + 100

    def test_what_is_no_chat_request_is_counted(self) -> None:
        tokens = forecast_tokens({"prompt": "word " * 500}, FORECASTER.counter)
        assert 500 <= tokens <= 600


class TestBudget:
    def budget(self, most: int) -> TokenBudget:
        return TokenBudget(most, FORECASTER.counter)

    def test_what_is_under_way_is_reserved(self) -> None:
        body = {"prompt": "word " * 100}
        once = forecast_tokens(body, FORECASTER.counter)
        budget = self.budget(2 * once)
        first = budget.reserve(body)
        budget.reserve(body)
        with pytest.raises(TokensSpent):
            budget.reserve(body)
        budget.settle(*first, 0)  # it was refused
        budget.reserve(body)

    @pytest.mark.parametrize(("times", "added"), [(3, 0), (1, 400)])
    def test_an_excess_is_expected_again(self, times: int, added: int) -> None:
        short, long, longest = ({"prompt": "word " * count} for count in (100, 300, 1_000))
        own = {id(body): forecast_tokens(body, FORECASTER.counter) for body in (short, long)}
        budget = self.budget(100_000)
        for body in (short, long):
            if body is long:  # nothing else is known yet than a request of one size
                assert budget.reserve(body)[1] >= own[id(body)] * times + added
            budget.settle(*budget.reserve(body), own[id(body)] * times + added)
        expected = forecast_tokens(longest, FORECASTER.counter) * times + added
        assert budget.reserve(longest)[1] == pytest.approx(expected, abs=2)

    def test_without_a_count_the_forecast_is_spent(self) -> None:
        budget = self.budget(10_000)
        reserved = budget.reserve({"prompt": "Hi"})
        budget.settle(*reserved, None)
        assert budget.spent == reserved[1]

"""What counts as evidence: nothing is named that few requests, or none, show."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from gauntlet_servers import Noisy, _counted
from stand_ins import FORECASTER, VLLM, LookAmong, StandIn, count_on, observed, server
from test_runner import agent_log

from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.server_faults import fault_named
from dsv4.verify import (
    PROBES,
    Hypothesis,
    Observation,
    Reply,
    Report,
    explain,
    explain_recorded,
    run,
)
from dsv4.verify.doubts import MOST_REPEATS
from dsv4.verify.report_views import report_html, report_junit, report_text
from dsv4.verify.runner import planned
from parts import ALL, fewer, part
from rows import each_row

SGLANG = server("sglang-0.5.23")


def report_on(client: Any, **options: Any) -> Report:
    return run(client, forecaster=FORECASTER, **options)


def with_count(line: str, change: Callable[[int], int]) -> str:
    row = json.loads(line)
    usage = row["response"]["usage"]
    usage["prompt_tokens"] = change(usage["prompt_tokens"])
    return json.dumps(row)


class TestForecastsThatDoNotExist:
    """A hypothesis that forecasts nothing of a request explains nothing of it."""

    def test_one_odd_count_in_a_log_names_nothing(self, look_among: LookAmong) -> None:
        look_among([VLLM, SGLANG])
        turns = 30 if ALL else 16  # what each sends is all before it
        lines = agent_log(VLLM, turns)
        lines[7] = with_count(lines[7], lambda count: count + 5)
        report = explain_recorded(lines, FORECASTER)
        assert report.verdict.faults == ()
        assert report.to_dict()["prompt"]["profile"] == "vllm-0.32"
        assert (report.verdict.explained, report.verdict.of) == (turns - 1, turns)

    def test_random_counts_in_a_log_name_nothing(self, look_among: LookAmong) -> None:
        look_among([VLLM, SGLANG])
        chance = random.Random(4)
        lines = [with_count(line, lambda _: chance.randrange(9_000)) for line in agent_log(VLLM)]
        report = explain_recorded(lines, FORECASTER)
        assert (report.verdict.outcome, report.verdict.faults) == ("not explained", ())

    def test_another_template_is_named_by_what_it_forecasts(self) -> None:
        truth = server("vllm-0.32", "v4", "template-chatml")
        found = explain(observed(truth), forecaster=FORECASTER)
        assert found.faults == ("template-chatml",)
        assert found.explained == found.of
        tools = replace(observed(truth)[0], probe="tools-two")  # of which nobody knows the prompt
        more = explain([*observed(truth), tools], forecaster=FORECASTER)
        assert (more.faults, more.of - more.explained) == (("template-chatml",), 1)


class InTurn(StandIn):
    """Two servers behind one address; the second answers one request of so many, at random."""

    def __init__(self, often: Hypothesis, seldom: Hypothesis, seed: int) -> None:
        super().__init__(often)
        self._both, self._chance = (often, seldom), random.Random(seed)

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        self.servers = [self._both[self._chance.random() < 0.2]]
        return super().post(path, body)


class TestAnswersThatVary:
    @pytest.mark.parametrize("seed", range(fewer(4, 2)))
    def test_two_servers_are_no_fault_of_either(self, seed: int, look_among: LookAmong) -> None:
        look_among([VLLM, SGLANG, server("recipe-0.2.0")])
        report = report_on(InTurn(server("recipe-0.2.0"), SGLANG, seed))
        assert report.verdict.faults == ("two-servers",)
        quick = report_on(InTurn(server("recipe-0.2.0"), SGLANG, seed), mode="quick")
        assert set(quick.verdict.faults) <= {"two-servers", "counts-vary"}

    def test_one_odd_answer_that_does_not_come_again(self, look_among: LookAmong) -> None:
        look_among([VLLM, SGLANG])
        odd = OddOnce("effort-max", count_on(VLLM, "effort-high") or 0)
        report = report_on(odd)
        assert report.verdict.faults == ("counts-vary",)
        (finding,) = [f for f in report.findings if f.id == "counts-vary"]
        assert "effort-max" in finding.seen

    def test_a_failure_that_does_not_come_again_is_none(self) -> None:
        class Failing(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                reply = super().post(path, body)
                return Reply(500, body={}) if self.requests % 3 == 0 else reply

        assert report_on(Failing(VLLM)).verdict.faults == ()
        assert report_on(Failing(VLLM), mode="quick").verdict.faults == ()

    def test_a_fault_that_one_probe_shows_is_confirmed_by_another_request(self) -> None:
        asked: list[Any] = []

        class Noting(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                asked.append(body.get("tool_choice"))
                return super().post(path, body)

        report = report_on(Noting(server("sglang-0.5.23", "v4", "tools-kept-at-none")))
        assert report.verdict.faults == ("tools-kept-at-none",)
        (finding,) = [f for f in report.findings if f.id == "tools-kept-at-none"]
        assert finding.shown_by == ("choice-none", "choice-none-longer")
        assert asked.count("none") == 3  # the probe, once more, and the longer one
        seen = observed(server("sglang-0.5.23", "v4", "tools-kept-at-none"))
        assert explain(seen, forecaster=FORECASTER).faults == ()

    def test_a_clean_server_is_asked_nothing_again(self) -> None:
        client = StandIn(VLLM)
        report_on(client)
        assert client.requests <= planned()[0] - MOST_REPEATS


class OddOnce(StandIn):
    """A vLLM that counts one request wrongly the first time."""

    def __init__(self, probe: str, count: int) -> None:
        super().__init__(VLLM)
        self._request, self._count_once = PROBES[probe].request, count

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        reply = super().post(path, body)
        if self._count_once and self._request.items() <= body.items():
            reply.body["usage"]["prompt_tokens"], self._count_once = self._count_once, 0
        return reply


class Counting(StandIn):
    """A vLLM whose usage says something else than the tokens of the prompt."""

    def __init__(self, usage: Callable[[int, str], dict[str, Any]]) -> None:
        super().__init__(VLLM)
        self._usage = usage

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        reply = super().post(path, body)
        if path != "/chat/completions" or reply.refused:
            return reply
        answers = [reply.body] if reply.body else [e for e in reply.events if "usage" in e]
        for answer in answers:
            text = json.dumps(body["messages"], ensure_ascii=False)
            answer["usage"] |= self._usage(answer["usage"]["prompt_tokens"], text)
        return reply


def cached(count: int, text: str) -> dict[str, Any]:
    """Blocks of 16 tokens that a cache knew, which are left out; one request more, one less."""
    known = count // 2 // 16 * 16
    return {"prompt_tokens": count - known, "prompt_tokens_details": {"cached_tokens": known}}


ODD_USAGE = {
    "cached tokens left out": (cached, ("counts-without-cached",), "explained"),
    "rounded to tens": (
        lambda count, _: {"prompt_tokens": round(count, -1)},
        ("counts-estimated",),
        "void",
    ),
    "characters of JSON / 4": (
        lambda _, text: {"prompt_tokens": len(json.dumps(text)) // 4},
        ("counts-estimated",),
        "void",
    ),
    "by script": (
        lambda _, text: {
            "prompt_tokens": int(sum(0.3 if c.isascii() else 0.6 for c in text) + 0.5)
        },
        ("counts-estimated",),
        "void",
    ),
    "always 0": (lambda *_: {"prompt_tokens": 0}, ("counts-constant",), "void"),
    "always 7": (lambda *_: {"prompt_tokens": 7}, ("counts-constant",), "void"),
}


class TestUsage:
    @each_row("name", [(name,) for name in part(list(ODD_USAGE), 8)])
    def test_it_is_read_as_a_whole(self, name: str) -> None:
        usage, faults, outcome = ODD_USAGE[name]
        report = report_on(Counting(usage))
        assert (report.verdict.faults, report.verdict.outcome) == (faults, outcome)

    def test_what_a_cache_knew_the_second_time_is_no_second_server(self) -> None:
        known: set[str] = set()

        def usage(count: int, text: str) -> dict[str, Any]:
            again = text in known
            known.add(text)
            cached = count // 16 * 16 if again else 0
            return {"prompt_tokens": count - cached, "prompt_cache_hit_tokens": cached}

        report = report_on(Counting(usage))
        assert report.verdict.faults == ("counts-without-cached",)
        assert report.verdict.best is not None
        assert report.verdict.best.hypothesis == VLLM

    def test_jitter_is_called_what_it_is(self, look_among: LookAmong) -> None:
        look_among([VLLM, SGLANG])
        chance = random.Random(3)
        jitter = Counting(lambda count, _: {"prompt_tokens": count + chance.randrange(3)})
        assert report_on(jitter).verdict.faults == ("counts-vary",)


class TestRefusals:
    """Whatever makes a request wrong has it refused: a refusal does not say what."""

    def test_results_that_come_as_the_users_are_not_calls_that_are_dropped(
        self, look_among: LookAmong
    ) -> None:
        look_among([server("recipe-0.2.0"), SGLANG])

        def as_user(body: dict[str, Any]) -> dict[str, Any]:
            return {
                **body,
                "messages": [
                    {"role": "user", "content": m["content"]} if m["role"] == "tool" else m
                    for m in body["messages"]
                ],
            }

        report = report_on(StandIn(server("recipe-0.2.0"), changed=as_user))
        assert report.verdict.faults == ()
        assert report.groups["history"] in ("fault", "inconclusive")
        assert "(messages[" in report_text(report)  # the server's own words

    def test_refusals_alone_name_nothing_and_list_what_would_explain_them(self) -> None:
        report = report_on(StandIn(server("dsv4", "v3.2", "one-call-kept")))
        assert report.verdict.faults == ()
        assert report.verdict.possible == ("one-call-kept",)
        (finding,) = [f for f in report.findings if "one-call-kept" in f.message]
        assert (finding.verdict, finding.shown_by) == ("inconclusive", ("rich", "calls-two"))
        assert report.groups["history"] == "inconclusive"


class TestNearest:
    def test_it_has_the_faults_that_leave_least_unexplained(self, look_among: LookAmong) -> None:
        truth = server("vllm-0.32", "v4", "tools-compact")
        look_among([VLLM, SGLANG])
        odd = {"spaces": 3, "parts": 9}
        seen = [
            replace(o, count=o.count and o.count + odd.get(o.probe, 0)) for o in observed(truth)
        ]
        found = explain(seen, forecaster=FORECASTER)
        assert (found.outcome, found.faults) == ("not explained", ())
        assert found.best is not None
        assert found.best.hypothesis == truth
        assert {each.probe for each in found.unexplained} == set(odd)

    def test_it_has_its_faults_where_every_count_is_multiplied(self, look_among: LookAmong) -> None:
        look_among([VLLM, server("sglang-0.5.23")])
        truth = server("vllm-0.32", "v4", "effort-max-as-high", "reasoning-space")
        dearer = Noisy(truth, _counted(lambda count, _: round(count * 1.1)))
        report = report_on(dearer)
        assert report.verdict.faults == truth.ids
        (billed,) = [f for f in report.findings if f.id == "billing-factor"]
        assert billed.message == "every count is 1.1 times ours, rounded to the nearest"
        assert (billed.probe, billed.expected, billed.seen) == ("plain", "84 tokens", "92 tokens")
        assert "curl" in billed.curl

    def test_a_group_that_is_not_explained_never_passes_and_known_differences_stay(
        self, look_among: LookAmong
    ) -> None:
        look_among([VLLM, SGLANG])

        def shouted(body: dict[str, Any]) -> dict[str, Any]:
            parts = [m for m in body["messages"] if isinstance(m["content"], list)]
            return {**body, "messages": [*body["messages"], *parts]} if parts else body

        report = report_on(StandIn(VLLM, changed=shouted))
        assert report.verdict.outcome == "not explained"
        assert report.groups["content"] == "fault"
        assert report.groups["thinking"] == "differs"

    def test_the_address_breaks_ties_between_dialects(self) -> None:
        """Without thinking, V4 and V4.1 are counted alike."""
        counts = FORECASTER.counts(Hypothesis("recipe-0.2.0", "v4.1"))
        alike = [Observation(id, counts[id]) for id in ("thinking-type-off", "effort-none")]
        for dialect, texts in [(None, "v4-0731"), ("v4.1", "v4.1"), ("v4-0731", "v4-0731")]:
            best = explain(alike, forecaster=FORECASTER, dialect=dialect).best
            assert best is not None
            assert best.hypothesis.texts == texts

    @pytest.mark.parametrize(
        ("url", "model", "dialect"),
        [
            ("https://api.deepseek.com/v1", "deepseek-flash", "v4.1"),
            ("https://api.deepseek.com/v1", "deepseek-v4-pro", "v4-0731"),
            ("https://api.deepseek.com.example", "deepseek-flash", None),
        ],
    )
    def test_the_official_address_tells_the_dialect_of_a_model_and_counts_tell_more(
        self, url: str, model: str, dialect: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dialects = set()

        def noted(*args: Any, **options: Any) -> Any:
            dialects.add(options["dialect"])
            return explain(*args, **options)

        monkeypatch.setattr("dsv4.verify.runner.explain", noted)
        stand_in = StandIn(VLLM)
        monkeypatch.setattr(stand_in, "url", url)
        report = report_on(stand_in, model=model, only=["system"])
        assert dialects == {dialect}
        assert report.to_dict()["prompt"]["dialect"] == "v4-0731"

    def test_the_servers_own_word_breaks_ties_and_is_shown(self) -> None:
        plain = [Observation("plain", 84), Observation("system", 87)]
        first = explain(plain, forecaster=FORECASTER).best
        other = explain(plain, forecaster=FORECASTER, preferred=["recipe-0.2.0"]).best
        assert first is not None
        assert other is not None
        assert (first.hypothesis.profile, other.hypothesis.profile) == ("vllm-0.32", "recipe-0.2.0")

        class Named(StandIn):
            def get(self, path: str) -> Reply:
                model = {"id": "ds", "owned_by": "vllm"}
                listed = {"data": [model]} if path == "/models" else {"version": "0.32.0"}
                return Reply(200, body=listed)

        report = report_on(Named(VLLM), only=["system"])
        assert report.model == "ds"
        for view in (report_text, report_html):
            assert "owner of the model vllm, version 0.32.0" in view(report)
        assert report.to_dict()["own_word"]["version"] == "0.32.0"


class TestEqualExplanations:
    def test_all_of_them_are_in_every_view_and_none_is_accused(self) -> None:
        report = report_on(StandIn(server("vllm-0.32", "v4", "arguments-lost")))
        assert report.verdict.faults == ()
        named = [each["faults"] for each in report.to_dict()["prompt"]["alternatives"]]
        assert named == [["arguments-lost"], ["arguments-twice-encoded"]]
        (finding,) = [f for f in report.findings if "arguments-lost" in f.id]
        assert finding.id == "arguments-lost|arguments-twice-encoded"
        assert (finding.verdict, report.groups["history"]) == ("fault", "fault")
        for view in (report_text, report_html, report_junit):
            assert "arguments-twice-encoded" in view(report)


class TestThinkingByDefault:
    @each_row(
        "profile, fault",
        [
            ("vllm-0.32", "thinking-off-by-default"),
            ("recipe-0.2.0", "thinking-off-by-default/1"),
        ],
    )
    def test_it_is_one_fault_of_the_server_that_it_is(self, profile: str, fault: str) -> None:
        truth = server(profile, "v4", fault)
        report = report_on(StandIn(truth))
        prompt = report.to_dict()["prompt"]
        assert (prompt["profile"], prompt["faults"]) == (profile, [*truth.ids])

    @pytest.mark.parametrize("fault", ["thinking-on-by-default", "effort-max-by-default/1"])
    def test_an_effort_in_sglangs_template_is_thinking_by_default(self, fault: str) -> None:
        """It reads efforts outside of it: so all prompts are the same, and it is one fault, which
        has all of the names."""
        report = report_on(StandIn(server("sglang-0.5.23", "v4", fault)))
        assert report.verdict.faults == ("thinking-on-by-default",)
        named = [each["faults"] for each in report.to_dict()["prompt"]["synonyms"]]
        assert named == [["effort-low-by-default"], ["effort-max-by-default"]]
        for view in (report_text, report_html, report_junit):
            assert "which is the same as" in view(report)
            assert "effort-max-by-default" in view(report)

    def test_an_effort_of_its_own_is_told_from_it(self) -> None:
        report = report_on(StandIn(server("sglang-0.5.23", "v4", "effort-max-by-default")))
        assert report.verdict.faults == ("effort-max-by-default",)

    def test_a_vllm_with_a_default_is_written_as_that_server_writes_it(self) -> None:
        """vLLM 0.32 with `--default-chat-template-kwargs '{"thinking": false}'`: what a request
        says for itself counts, and an effort turns thinking on."""
        off = VLLM.having(fault_named("thinking-off-by-default"))
        counts = {id: count_on(off, id) for id in ("plain", "thinking-kwargs-on", "effort-high")}
        assert counts == {"plain": 5, "thinking-kwargs-on": 84, "effort-high": 84}


def test_a_statement_about_tool_choice_says_what_was_measured() -> None:
    assert FAULTS["tool-choice-ignored"].message == "`tool_choice` does not change the prompt"
    report = report_on(StandIn(VLLM))
    assert report_text(report).count("`tool_choice` does not change the prompt") == 1

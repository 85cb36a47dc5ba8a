"""What is asked once more, or as well: where one request more tells, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from stand_ins import FORECASTER, VLLM, LookAmong, StandIn, server

from dsv4.profiles.request_changes import default_system, system_for_developers
from dsv4.verify import PROBES, Hypothesis, Reply, Report, run
from dsv4.verify.probes import FOLLOW_UPS

REQUESTS = {probe.id: probe.request for probe in (*PROBES.values(), *FOLLOW_UPS)}


class Noting(StandIn):
    """Knows which probes it was asked, by their requests."""

    def __init__(self, truth: Hypothesis, **options: Any) -> None:
        super().__init__(truth, **options)
        self.asked: list[str] = []

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        kept = ("model", "max_tokens", "temperature", "return_token_ids", "stream")
        own = {k: v for k, v in body.items() if k not in (*kept, "stream_options")}
        self.asked += [id for id, request in REQUESTS.items() if request == own]
        return super().post(path, body)

    def report(self, mode: Any = "default") -> Report:
        return run(self, forecaster=FORECASTER, mode=mode)


# What the probes leave alike, and the request that tells it apart.
TOLD_APART = [
    ("sglang-0.5.23", "v4", "effort-xhigh-as-low", "effort-xhigh-loop"),
    ("sglang-0.5.23", "v4", "effort-high-by-default", "effort-none-kwargs"),
    ("sglang-0.5.23", "v4", "reasoning-dropped", "loop-field"),
    ("llama.cpp", "v4", "thinking-off-by-default", "thinking-kwargs-on-loop"),
    ("vllm-0.32", "v4.1", "developer-as-system", "developer-long"),
    ("dsv4", "v4", "effort-ignored", "effort-none-loop"),
    ("sglang-0.5.23", "v4", "trailing-newline", "continued-newline"),
    ("sglang-0.5.23", "v4", "think-token-missing", "continued-newline"),
    # The official API refuses a call without a result, and takes it where the call is lost.
    ("recipe-0.2.0", "v4", "calls-dropped", "call-unanswered-11"),
]


class TestTellingApart:
    @pytest.mark.parametrize(("profile", "dialect", "fault", "request_id"), TOLD_APART)
    def test_one_more_request_tells_which_of_two_faults_it_is(
        self, profile: str, dialect: str, fault: str, request_id: str
    ) -> None:
        client = Noting(server(profile, dialect, fault))
        assert client.report().verdict.faults == (fault,)
        assert request_id in client.asked

    def test_what_no_request_tells_apart_is_not_asked_for(self) -> None:
        client = Noting(server("vllm-0.32", "v4", "bos-twice"))
        verdict = client.report().verdict
        assert verdict.faults == ()
        assert verdict.possible == ("bos-twice", "counts-offset", "trailing-newline")
        assert not {probe.id for probe in FOLLOW_UPS} & {*client.asked}

    def test_a_clean_server_is_asked_nothing_more(self) -> None:
        client = Noting(VLLM)
        client.report()
        assert not {probe.id for probe in FOLLOW_UPS} & {*client.asked}

    def test_a_quick_run_asks_too(self) -> None:
        client = Noting(server("sglang-0.5.23", "v4", "effort-high-by-default"))
        assert client.report("quick").verdict.faults == ("effort-high-by-default",)


TEXTS = ("You are the assistant of a shop, and speak of nothing else than what it sells.", "Hm.")
TAKING_DEVELOPERS = ("vllm-0.32", "sglang-0.5.23", "llama.cpp")


class TestTextsOfAnyLength:
    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("profile", TAKING_DEVELOPERS)
    def test_one_that_is_added_for_developers(self, profile: str, text: str) -> None:
        client = StandIn(server(profile), changed=system_for_developers(text))
        report = run(client, forecaster=FORECASTER)
        assert report.verdict.faults == ("developer-text-added",)
        (finding,) = [f for f in report.findings if f.id == "developer-text-added"]
        assert finding.shown_by == ("developer", "developer-early", "developer-system")

    @pytest.mark.parametrize("roles", [("system",), ("system", "developer")])
    @pytest.mark.parametrize("profile", [*TAKING_DEVELOPERS, "recipe-0.2.0"])
    def test_one_that_is_added_where_there_is_none(
        self, profile: str, roles: tuple[str, ...]
    ) -> None:
        for text in TEXTS:
            client = StandIn(server(profile), changed=default_system(text, *roles))
            report = run(client, forecaster=FORECASTER)
            assert report.verdict.faults == ("system-default-added",)

    def test_a_shorter_prompt_has_no_text_added(self, look_among: LookAmong) -> None:
        """Two words of each developer message are lost."""
        look_among([server("sglang-0.5.23"), server("vllm-0.32")])

        def shorter(body: dict[str, Any]) -> dict[str, Any]:
            messages = [
                {**m, "content": "Be kind."} if m["role"] == "developer" else m
                for m in body["messages"]
            ]
            return {**body, "messages": messages}

        client = StandIn(server("sglang-0.5.23"), changed=shorter)
        report = run(client, forecaster=FORECASTER)
        assert (report.verdict.outcome, report.verdict.faults) == ("not explained", ())


class TestRefusals:
    def test_tools_that_are_refused_are_named_by_three_refusals(self) -> None:
        report = Noting(server("recipe-0.2.0", "v4", "tools-refused")).report()
        assert report.verdict.faults == ("tools-refused",)

    def test_two_refusals_are_too_few(self) -> None:
        class Refusing(Noting):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                if body.get("tools"):
                    return Reply(400, body={"error": {"message": "no tools"}})
                return super().post(path, body)

        report = run(Refusing(VLLM), forecaster=FORECASTER, only=["system", "thinking"])
        assert report.verdict.faults == ()
        assert "tools-refused" in report.verdict.possible
        assert "fault" not in (report.groups["tools"], report.groups["prompt"])
        (said,) = [finding for finding in report.findings if "tools-refused" in finding.message]
        assert (said.verdict, said.message[:8]) == ("inconclusive", "possible")
        assert "no tools" in said.seen

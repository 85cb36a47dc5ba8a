"""Whole runs over servers in this process: what each is called, and what that costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from gauntlet_servers import is_visible as visible
from http_servers import served
from stand_ins import FORECASTER, VLLM, LookAmong, StandIn, server
from unknown_faults import UNCOUNTED_FAULTS, UNKNOWN_FAULTS, UnknownFault

from dsv4 import profiles
from dsv4.profiles.request_changes import messages_in, system_text_added
from dsv4.profiles.server_faults import variants
from dsv4.verify import (
    HttpServer,
    Hypothesis,
    Reply,
    Report,
    ServerFinding,
    ServerProblem,
    choice,
    explain_recorded,
    run,
)
from dsv4.verify.answers import value_at
from dsv4.verify.choice import MOST_QUICK, likely_servers
from dsv4.verify.doubts import MOST_REPEATS
from dsv4.verify.hypotheses import clean_servers
from dsv4.verify.own_word import OWN_WORD_REQUESTS
from dsv4.verify.probes import PROBES, probes
from dsv4.verify.prompt_routes import ROUTES
from dsv4.verify.report import OWN_WAYS
from dsv4.verify.report_views import report_changes, report_html, report_junit, report_text
from dsv4.verify.runner import RunMode, planned
from dsv4.verify.sending import TOO_LONG
from parts import part
from rows import each_row

EFFORT_SWAPS = "-as-"


def report_on(client: Any, **options: Any) -> Report:
    return run(client, forecaster=FORECASTER, **options)


def report_over_http(stand_in: StandIn, **options: Any) -> Report:
    with served(stand_in) as url:
        return report_on(HttpServer(url), **options)


def is_named(report: Report, truth: Hypothesis) -> bool:
    """Whether the server is what the report says, or one of a set that it says."""
    prompt = report.to_dict()["prompt"]
    named = [prompt, *prompt["alternatives"], *prompt["synonyms"]]
    wanted = (truth.profile, truth.texts, list(truth.ids))
    return wanted in [(n["profile"], n["dialect"], n["faults"]) for n in named]


def has_own_counts(hypothesis: Hypothesis) -> bool:
    """Whether no server without a fault counts the same, which would be simpler."""
    return FORECASTER.counts(hypothesis) not in map(FORECASTER.counts, clean_servers())


BASES = [each for each in clean_servers() if each.texts != "v4-vision"]
SINGLES = [
    server.having(fault)
    for n, fault in enumerate(variants())
    if EFFORT_SWAPS not in fault.id or n % 4 == 0
    for server in (BASES[n % len(BASES)],)
]

PAIRS = [
    *(
        ("vllm-0.32", "v4", faults)
        for faults in (
            "effort-max-as-high reasoning-space",
            "tools-sorted texts-stripped",
            "bos-twice tools-wrapped",
            "no-header tools-ascii",
            "system-dropped calls-dropped",
            "effort-always-high tools-reversed",
            "thinking-always results-reserialised",
            "history-truncated/6 effort-april",
        )
    ),
    *(
        ("sglang-0.5.23", "v4", faults)
        for faults in (
            "bos-missing results-reserialised",
            "trailing-newline tools-indented",
            "developer-dropped first-part-only",
            "thinking-kwargs-ignored tools-compact",
            "effort-ignored one-call-kept",
            "tools-descriptions-stripped texts-stripped",
        )
    ),
    *(
        ("recipe-0.2.0", "v4", faults)
        for faults in (
            "system-dropped tools-compact",
            "thinking-type-ignored parts-joined-by-nothing",
            "effort-max-as-low tools-sorted",
            "response-format-unseen texts-stripped",
            "billing-kept tools-wrapped",
        )
    ),
    *(
        ("llama.cpp", "v4", faults)
        for faults in (
            "effort-april first-part-only",
            "bos-twice effort-always-max",
            "tools-dropped arguments-twice-encoded",
            "result-tags-missing tools-ascii",
        )
    ),
    *(
        ("dsv4", dialect, faults)
        for dialect, faults in (
            ("v4-0731", "reasoning-dropped response-format-unseen"),
            ("v4-0731", "tools-kept-at-none texts-stripped"),
            ("v4-0731", "reasoning-space tools-indented"),
            ("v4", "effort-ignored parts-joined-by-nothing"),
            ("v4", "bos-missing arguments-lost"),
            ("v4.1", "thinking-never empty-content-none"),
            ("v4.1", "system-dropped tools-reversed"),
            ("v3.2", "tools-compact texts-stripped"),
        )
    ),
]


class TestTheGauntlet:
    @pytest.mark.parametrize("truth", part(clean_servers(), 3), ids=str)
    def test_no_fault_is_found_on_a_clean_server(self, truth: Hypothesis) -> None:
        client = StandIn(truth)
        report = report_over_http(client)
        assert is_named(report, truth)
        assert report.to_dict()["prompt"]["faults"] == []
        worst = {f.group for f in report.findings if f.verdict == "fault"}
        assert worst == ({"safety"} if truth.server.special_text_acts else set())
        assert client.requests <= planned()[0] - MOST_REPEATS
        assert client.tokens <= planned()[1]

    @pytest.mark.parametrize("truth", part(SINGLES, 21), ids=str)
    def test_each_fault_is_named(self, truth: Hypothesis) -> None:
        report = report_over_http(StandIn(truth))
        if visible(truth) and has_own_counts(truth):
            assert is_named(report, truth), report.to_dict()["prompt"]
        elif visible(truth):
            best = report.verdict.best
            assert best is not None
            assert not best.faults
        else:
            assert report.to_dict()["prompt"]["faults"] == []

    @pytest.mark.parametrize(("profile", "dialect", "faults"), part(PAIRS, 31))
    def test_pairs(self, profile: str, dialect: str, faults: str, look_among: LookAmong) -> None:
        look_among([each for each in clean_servers() if each.dialect == dialect])
        truth = server(profile, dialect, *faults.split())
        assert is_named(report_over_http(StandIn(truth)), truth)

    def test_a_hidden_text(self) -> None:
        prompt = report_on(StandIn(VLLM, added=53)).to_dict()["prompt"]
        assert prompt["profile"] == "vllm-0.32"
        assert ["counts-offset"] in [
            prompt["faults"],
            *(a["faults"] for a in prompt["alternatives"]),
        ]

    def test_answers_that_are_counted_with_the_prompt(self) -> None:
        prompt = report_on(StandIn(VLLM, adds_completion=True)).to_dict()["prompt"]
        assert (prompt["profile"], prompt["faults"]) == ("vllm-0.32", ["counts-include-completion"])

    def test_estimates(self) -> None:
        report = report_on(StandIn(VLLM, counts=lambda prompt: len(prompt) // 4))
        assert report.verdict.faults == ("counts-estimated",)
        assert report.groups["counting"] == "fault"
        assert report.groups["effort"] == "inconclusive"

    def test_two_servers_in_turn(self) -> None:
        report = report_on(StandIn(VLLM, server("sglang-0.5.23")))
        prompt = report.to_dict()["prompt"]
        assert prompt["faults"] == ["two-servers"]
        named = {prompt["profile"], *(each["profile"] for each in prompt["alternatives"])}
        assert named == {"vllm-0.32", "sglang-0.5.23"}


UNKNOWN = [
    (fault, profile, dialect)
    for fault in UNKNOWN_FAULTS
    for profile, dialect in (
        *(("vllm-0.32", "v4"), ("sglang-0.5.23", "v4"), ("recipe-0.2.0", "v4")),
        *(("llama.cpp", "v4"), ("dsv4", "v4.1")),
    )
]

# Where six requests look like a fault that changes every request.
COINCIDENCES = [("answers-signed", "llama.cpp")]


class TestUnknownFaults:
    """What nobody listed is not explained, where it belongs, and nothing false is named."""

    @pytest.fixture
    def fewer_servers(self, dialect: str, look_among: LookAmong) -> None:
        look_among([each for each in clean_servers() if each.dialect == dialect])

    @pytest.mark.usefixtures("fewer_servers")
    @pytest.mark.parametrize(("id", "profile", "dialect"), part(UNKNOWN, 79))
    def test_they_are_not_explained_and_in_the_right_group(
        self, id: str, profile: str, dialect: str
    ) -> None:
        fault = UNKNOWN_FAULTS[id]
        report = report_on(StandIn(server(profile, dialect), changed=fault.change))
        assert is_not_explained(report, fault)
        assert report.to_dict()["prompt"]["profile"] == profile

    @pytest.mark.usefixtures("fewer_servers")
    @pytest.mark.parametrize(("fault", "profile", "dialect"), part(UNKNOWN, 83))
    def test_few_requests_name_nothing_false_either(
        self, fault: str, profile: str, dialect: str
    ) -> None:
        """What a few counts look like is confirmed; where it is not, more are looked at."""
        client = StandIn(server(profile, dialect), changed=UNKNOWN_FAULTS[fault].change)
        report = report_on(client, mode="quick")
        assert report.verdict.faults == () or (fault, profile) in COINCIDENCES
        assert client.requests <= MOST_QUICK + len(ROUTES)

    @pytest.mark.parametrize("fault", part([*UNCOUNTED_FAULTS.values()], 4))
    def test_prompts_show_what_counts_do_not(
        self, fault: UnknownFault, look_among: LookAmong
    ) -> None:
        look_among([VLLM, server("sglang-0.5.23")])
        report = report_on(StandIn(VLLM, changed=fault.change, shows_ids=True))
        assert is_not_explained(report, fault)  # and no two faults that cancel each other
        assert "of as many tokens" in report_text(report)

    def test_a_group_whose_every_request_is_changed_says_nothing(
        self, look_among: LookAmong
    ) -> None:
        look_among([VLLM, server("sglang-0.5.23")])
        changed = UNKNOWN_FAULTS["user-named"].change
        groups = report_on(StandIn(VLLM, changed=changed)).groups
        assert (groups["prompt"], groups["thinking"]) == ("fault", "inconclusive")

    def test_no_offset_makes_up_for_a_fault_that_is_none(self) -> None:
        """One request is counted otherwise. No number is taken away from all, and added again."""
        changed = UNKNOWN_FAULTS["choice-in-words"].change
        report = report_on(StandIn(server("dsv4", "v4.1"), changed=changed), mode="quick")
        assert report.verdict.faults == ()

    def test_an_offset_goes_with_no_fault_that_only_the_request_of_everything_shows(
        self, look_among: LookAmong
    ) -> None:
        """That one would be explained by whatever adds a token somewhere."""
        look_among([VLLM, server("sglang-0.5.23")])
        changed = UNKNOWN_FAULTS["preamble"].change
        report = report_on(StandIn(server("sglang-0.5.23"), changed=changed))
        assert report.verdict.faults == ()


def test_a_default_run_costs_what_was_agreed() -> None:
    requests, tokens = planned()
    assert requests <= 90
    without_repeats = sum(probe.repeats for probe in probes()) + OWN_WORD_REQUESTS
    assert without_repeats + 7 <= 75  # calls, other routes and raw completions
    assert MOST_REPEATS <= 15
    assert tokens <= 20_000


def is_not_explained(report: Report, fault: UnknownFault) -> bool:
    groups = {f.group for f in report.findings if f.id == "not-explained"}
    return (
        report.verdict.outcome == "not explained"
        and report.to_dict()["prompt"]["faults"] == []
        and bool(groups)
        and groups <= fault.groups
        and "not explained" in report_text(report)
    )


class TestEvidence:
    def test_the_prompt_itself_tells_what_counts_cannot(self) -> None:
        truth = server("vllm-0.32", "v4", "parameters-all-strings")
        assert not visible(truth)
        assert is_named(report_on(StandIn(truth, shows_ids=True)), truth)

    def test_a_refusal_does_not_end_the_showing(self) -> None:
        """vLLM refuses an effort that it does not know; what follows shows its prompts too."""
        asked = []

        class Noting(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                asked.append(bool(body.get("return_token_ids") or body.get("stream")))
                return super().post(path, body)

        report = report_on(Noting(VLLM, shows_ids=True), only=["effort", "content"])
        assert report.verdict.explained == len(asked)  # none of which was asked without ids
        assert all(asked)

    def test_a_text_of_any_length_may_be_shown(self) -> None:
        told = system_text_added("It is the first Tuesday of a rather warm August.", before=True)
        report = report_on(StandIn(VLLM, changed=told, shows_ids=True))
        assert report.verdict.faults == ("date-added",)

    def test_it_is_said_what_was_offered(self) -> None:
        assert report_on(StandIn(VLLM, shows_ids=True)).evidence[:2] == ("E0", "E1")
        assert report_on(StandIn(VLLM)).evidence[:1] == ("E1",)


class TestQuickly:
    @pytest.fixture(autouse=True)
    def fewer_servers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A part thinks of fewer servers, whose forecasts take most of the time."""
        bases = {(each.profile, each.dialect) for each in part(clean_servers(), 3)}
        some = [each for each in likely_servers() if (each.profile, each.dialect) in bases]
        monkeypatch.setattr(choice, "likely_servers", lambda: some)

    def test_few_requests_name_every_server(self) -> None:
        """The explanation of a handful of counts is searched for as after a whole run."""
        many = [h for h in choice.likely_servers() if not h.faults or has_own_counts(h)]
        sizes = []
        for truth in part(many[::7], 20):
            client = StandIn(truth)
            report = report_on(client, mode="quick")
            assert is_named(report, truth), truth
            assert not [note for note in report.notes if "--quick" in note]
            sizes.append(client.requests)
        assert max(sizes) <= MOST_QUICK + 1
        if len(sizes) > 50:  # a few are no average
            assert sum(sizes) / len(sizes) <= 8

    def test_a_prompt_that_is_shown_tells_what_counts_do_not(self) -> None:
        truth = server("vllm-0.32", "v4", "parameters-all-strings")
        client = StandIn(truth, shows_ids=True)
        report = report_on(client, mode="quick")
        assert is_named(report, truth)
        assert report.evidence == ("E0", "E1")
        assert client.requests <= 8

    def test_where_counts_decide_nothing_a_route_that_shows_prompts_does(
        self, look_among: LookAmong
    ) -> None:
        look_among([VLLM, server("sglang-0.5.23")])

        class Rendering(StandIn):
            def get(self, path: str) -> Reply:
                """A server that says what it is: only then a quick run looks for its routes."""
                return Reply(200, body={"data": [{"id": "deepseek-v4", "owned_by": "llamacpp"}]})

            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                if path == "/../apply-template":
                    asked = {k: v for k, v in body.items() if k != "model"}
                    return Reply(200, body={"prompt": VLLM.prompt(asked)})
                return super().post(path, body)

        report = report_on(Rendering(VLLM, counts=lambda prompt: len(prompt) // 4), mode="quick")
        assert report.evidence == ("E0", "E1")


class TestFindings:
    def test_a_fault_says_what_shows_it_and_what_mends_it(self) -> None:
        report = report_on(StandIn(server("vllm-0.32", "v4", "effort-max-as-high")))
        (finding,) = [f for f in report.findings if f.id == "effort-max-as-high"]
        assert (finding.verdict, finding.group) == ("fault", "effort")
        assert (finding.expected, finding.seen) == ("97 tokens", "84 tokens")
        assert "litellm" in finding.mend
        assert '"reasoning_effort": "max"' in finding.curl
        assert "$KEY" in finding.curl

    def test_whatever_is_wrong_has_a_request_that_shows_it(self) -> None:
        report = report_on(StandIn(VLLM), mode="full")
        wrong = {f.id: f.curl for f in report.findings if f.verdict in ("fault", "differs")}
        assert {"inject-user", "schema-invalid"} <= wrong.keys()
        assert all(line.startswith("curl ") for line in wrong.values())
        assert '"strict": true' in wrong["schema-invalid"]

    def test_what_a_server_is_known_to_do_differs(self) -> None:
        report = report_on(StandIn(VLLM))
        kept = next(f for f in report.findings if f.id == "tools-kept-at-none")
        assert (kept.verdict, report.groups["tools"]) == ("differs", "differs")

    @pytest.mark.parametrize("profile", profiles.PROFILES)
    def test_own_ways_change_nothing_on_their_server(self, profile: str) -> None:
        clean = server(profile, "v4")
        for id in OWN_WAYS[clean.server.family]:
            assert not visible(server(profile, "v4", id)), id
        assert not clean.faults

    def test_special_tokens_that_act_are_always_a_fault(self) -> None:
        report = report_on(StandIn(VLLM))
        assert report.groups["safety"] == "fault"
        assert report.is_faulty


class Answering:
    """A server that gives the same reply to everything."""

    url = "http://stand-in/v1"

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        return self.reply


class TestBadServers:
    @each_row(
        "reply, sentence",
        [
            (Reply(401, body={}), "does not accept the key"),
            (Reply(404, body={}), "no chat route"),
            (Reply(404, body={"error": {"message": "No such model."}}), "model or route .*No such"),
            (Reply(400, body={"detail": "No\nmodel"}), "every request was refused: No model$"),
            (Reply(422, body=["no"]), "every request was refused$"),
            (Reply(problem="no server answers at this address"), "no server answers"),
            (Reply(200, body={"choices": []}), "does not say how many tokens"),
            (Reply(200, body={"usage": {"prompt_tokens": "84"}}), "does not say how many tokens"),
            (Reply(200, body={"usage": {"prompt_tokens": True}}), "does not say how many tokens"),
            (Reply(200, body={"usage": {"prompt_tokens": -4}}), "does not say how many tokens"),
            (Reply(200, body=[1]), "does not say how many tokens"),
            (Reply(200, problem="HTML in place of JSON (status 200)"), "HTML in place of JSON"),
        ],
    )
    def test_each_is_answered_with_a_sentence(self, reply: Reply, sentence: str) -> None:
        with pytest.raises(ServerProblem, match=sentence):
            report_on(Answering(reply))

    def test_a_key_that_a_refusal_repeats_is_struck_out(self) -> None:
        refusing = Answering(Reply(400, body={"error": f"{'x' * 190} sk-secret-1234 is no key"}))
        with served(refusing) as url, pytest.raises(ServerProblem) as caught:
            report_on(HttpServer(url, "sk-secret-1234"))
        assert "sk-" not in str(caught.value)

    def test_what_was_measured_is_kept_when_a_server_stops_answering(self) -> None:
        class Dying(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                if self.requests > 20:
                    return Reply(problem="no complete answer within 30 seconds")
                return super().post(path, body)

        report = report_on(Dying(VLLM))
        assert report.verdict.of > 15
        assert any("stopped answering" in note for note in report.notes)

    def test_an_interrupted_run_reports_what_was_done(self) -> None:
        class Interrupted(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                if self.requests > 10:
                    raise KeyboardInterrupt
                return super().post(path, body)

        report = report_on(Interrupted(VLLM))
        assert any("interrupted" in note for note in report.notes)

    def test_what_a_server_names_itself_does_not_act_on_pages_or_terminals(self) -> None:
        name = 'x\x1b[31m<script>alert(1)</script>"\x00'
        report = run(StandIn(VLLM), name, only=["safety"], forecaster=FORECASTER)
        assert "\x1b" not in report_text(report)
        page = report_html(report)
        assert "<script" not in page
        assert "http-equiv" not in page
        ElementTree.fromstring(report_junit(report))


class TestTheRun:
    """What is announced is what is sent, and what came is reported, however a run ends."""

    def test_a_server_that_limits_after_ten_requests_was_not_measured(self) -> None:
        class Limiting(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                reply = super().post(path, body)
                return Reply(429, body={}) if self.requests > 10 else reply

        report = report_on(Limiting(VLLM))
        assert report.too_little
        assert report.verdict.of == 10
        assert "3 of 13 requests got no count: status 429 (3)." in report.notes

    def test_streams_are_used_where_only_they_have_usage(self) -> None:
        class OnlyStreams(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                reply = super().post(path, body)
                if isinstance(reply.body, dict):
                    reply.body.pop("usage", None)
                return reply

        report = report_on(OnlyStreams(VLLM))
        assert (report.verdict.outcome, report.too_little) == ("explained", False)
        assert report_on(OnlyStreams(VLLM), mode="quick").verdict.outcome == "explained"

    @each_row("mode, only", [("default", []), ("quick", []), ("default", ["effort"])])
    def test_no_more_is_sent_than_was_announced(self, mode: Any, only: list[str]) -> None:
        class Failing(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                reply = super().post(path, body)
                return Reply(500, body={}) if self.requests % 2 else reply

        client = Failing(server("vllm-0.32", "v4", "tools-compact"))
        report = report_on(client, mode=mode, only=only)
        assert client.requests == report.requests <= planned(mode, only)[0]

    @each_row("mode, truth", part([*product(get_args(RunMode), clean_servers())], 13))
    def test_every_server_costs_no_more_than_was_announced(
        self, mode: Any, truth: Hypothesis
    ) -> None:
        for shows_ids in (False, True):
            client = StandIn(truth, shows_ids=shows_ids)
            report = report_on(client, mode=mode)
            requests, tokens = planned(mode)
            assert client.requests == report.requests <= requests
            assert client.tokens <= tokens

    def test_several_requests_at_once_are_the_same_requests_with_the_same_report(self) -> None:
        truth = server("vllm-0.32", "v4", "tools-compact")
        one, four = StandIn(truth), StandIn(truth)
        reports = [report_on(client, parallel=n).to_dict() for client, n in ((one, 1), (four, 4))]
        assert one.requests == four.requests
        # A minute may end between the two.
        assert reports[0] | {"date": ""} == reports[1] | {"date": ""}

    def test_which_model_there_is_is_asked(self) -> None:
        with served(StandIn(VLLM)) as url:
            report = report_on(HttpServer(url), only=["system"])
        assert report.model == "deepseek-v4"

    @pytest.mark.parametrize(
        "words",
        [
            "This model's maximum context length is 1024 tokens.",
            "the request exceeds the available context size, try increasing it",
        ],
    )
    def test_a_request_that_is_too_long_for_the_server_says_nothing_else(self, words: str) -> None:
        class Short(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                reply = super().post(path, body)
                long = isinstance(reply.body, dict) and value_at(
                    reply.body, "usage", "prompt_tokens"
                )
                refusal = Reply(400, body={"error": {"message": words}})
                return refusal if (long or 0) > 1024 else reply

        report = report_on(Short(VLLM))
        assert (report.verdict.outcome, report.verdict.faults) == ("explained", ())
        (note,) = report.notes
        assert note == f"3 of {len(probes()) + 2} requests got no count: {TOO_LONG} (3)."

    def test_answers_longer_than_they_may_be_are_a_finding(self) -> None:
        class Long(StandIn):
            def post(self, path: str, body: Mapping[str, Any]) -> Reply:
                return super().post(path, {**body, "max_tokens": 5})

        report = report_on(Long(VLLM))
        (finding,) = [f for f in report.findings if f.id == "max-tokens-ignored"]
        assert (finding.verdict, report.groups["output"]) == ("fault", "fault")


class TestViews:
    def test_json_has_what_programs_need(self) -> None:
        value = json.loads(json.dumps(report_on(StandIn(VLLM)).to_dict()))
        assert {"url", "model", "requests", "prompt_tokens", "evidence", "prompt"} <= value.keys()
        assert value["prompt"]["explained"] == value["prompt"]["of"]
        assert value["prompt"]["dialect"] == "v4-0731"
        assert set(value["groups"].values()) <= {
            *("pass", "differs", "fault", "inconclusive", "not offered")
        }

    def test_a_long_request_is_left_to_programs(self) -> None:
        line = f"curl {'word ' * 2000}"
        finding = ServerFinding("cache-missed", "cache", "fault", "m", curl=line)
        report = replace(report_on(StandIn(VLLM), only=["counting"]), findings=(finding,))
        assert "too long to show here" in report_text(report)
        assert report.to_dict()["findings"][0]["curl"] == line

    def test_what_changed(self) -> None:
        before, after = (
            report_on(StandIn(each), only=["tools"]).to_dict()
            for each in (VLLM, server("vllm-0.32", "v4", "tools-compact"))
        )
        assert report_changes(before, before) == []
        assert "faults: was none, is tools-compact" in report_changes(before, after)

    def test_junit_fails_where_there_is_a_fault(self) -> None:
        suite = ElementTree.fromstring(report_junit(report_on(StandIn(VLLM))))
        failed = [case.get("name") for case in suite if case.find("failure") is not None]
        assert failed == ["safety"]


class TestSavedServers:
    def test_a_saved_server_is_a_profile(self, tmp_path: Any) -> None:
        from dsv4.profiles.saved_profile import saved

        truth = server("vllm-0.32", "v4", "effort-max-as-high", "history-truncated/4")
        path = tmp_path / "server.json"
        path.write_text(saved(truth.profile, truth.dialect, truth.faults), "utf-8")
        profile = profiles.load(path)
        body = {"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "max"}
        high = {**body, "reasoning_effort": "high"}
        assert profiles.render(body, profile) == profiles.render(high, "vllm-0.32")

    def test_its_faults_are_reasons_and_traps(self, tmp_path: Any) -> None:
        from dsv4.profiles.saved_profile import saved

        truth = server("vllm-0.32", "v4", "effort-max-as-high")
        path = tmp_path / "server.json"
        path.write_text(saved(truth.profile, truth.dialect, truth.faults), "utf-8")
        profile = profiles.load(path)
        body = {"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "max"}
        compared = profiles.compare(body, profile, "vllm-0.32")
        assert [reason.kind for reason in compared.reasons][:1] == ["fault"]
        assert "effort-max-as-high" in [trap.kind for trap in profiles.traps(body, profile)]

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{}",
            '{"dsv4_server": 1, "profile": "nobody", "dialect": "v4", "faults": []}',
            '{"dsv4_server": 1, "profile": "llama.cpp", "dialect": "v4.1", "faults": []}',
            '{"dsv4_server": 1, "profile": "dsv4", "dialect": "v4", "faults": ["no-such"]}',
            '{"dsv4_server": 1, "profile": "dsv4", "dialect": "v4", "faults": ["bos-twice/9"]}',
            '{"dsv4_server": 1, "profile": "/etc/passwd", "dialect": "v4", "faults": []}',
        ],
    )
    def test_a_file_that_is_none_is_refused(self, tmp_path: Any, text: str) -> None:
        from dsv4 import EncodeError

        path = tmp_path / "server.json"
        path.write_text(text, "utf-8")
        with pytest.raises(EncodeError):
            profiles.load(path)

    def test_a_name_is_never_a_path(self, tmp_path: Any) -> None:
        from dsv4 import EncodeError

        path = tmp_path / "server.json"
        path.write_text("{}", "utf-8")
        with pytest.raises(EncodeError, match="expected one of"):
            profiles.render([], str(path))


def agent_log(truth: Hypothesis, turns: int = 20) -> list[str]:
    """The exchanges of an agent with tools, as a log has them."""
    client = StandIn(truth)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent."},
        {"role": "user", "content": "List the files and fix the bug."},
    ]
    tools = [PROBES["tools-two"].request["tools"][0], PROBES["tools-two"].request["tools"][1]]
    lines = []
    for n in range(turns):
        body = {"messages": list(messages), "tools": tools}
        if n % 5 == 4:
            body["reasoning_effort"] = "max"
        reply = client.post("/chat/completions", body)
        lines.append(json.dumps({"request": body, "response": reply.body}))
        call = {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": "weather", "arguments": json.dumps({"city": "x" * n, "days": n})},
        }
        messages.append(
            {
                "role": "assistant",
                "content": "" if n % 2 else "Let me look.",
                "reasoning_content": f"Step {n} needs a look.",
                "tool_calls": [call],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": '{"ok":true}'})
        if n % 7 == 6:
            messages.append({"role": "assistant", "content": "Done.", "reasoning_content": "Ok."})
            messages.append({"role": "user", "content": "Go on."})
    return lines


class TestRecorded:
    @pytest.mark.parametrize(
        "profile", part(["llama.cpp", "dsv4", "recipe-0.2.0", "vllm-0.32", "sglang-0.5.23"], 3)
    )
    def test_twenty_exchanges_of_an_agent_name_the_server(self, profile: str) -> None:
        truth = server(profile, "v4-0731" if profile == "dsv4" else "v4")
        report = explain_recorded(agent_log(truth), FORECASTER)
        prompt = report.to_dict()["prompt"]
        assert (prompt["profile"], prompt["faults"]) == (profile, [])

    def test_no_text_of_the_log_is_in_the_report(self) -> None:
        report = explain_recorded(agent_log(VLLM, 3), FORECASTER)
        assert "coding agent" not in json.dumps(report.to_dict())

    def test_records_of_the_gateway_have_the_prompt_itself(self) -> None:
        body = PROBES["tools-two"].request
        prompt = profiles.render(body, "dsv4", dialect="v4-0731")
        row = {"protocol": "chat", "request": body, "dialect": "v4-0731", "prompt": prompt}
        report = explain_recorded([json.dumps(row)], FORECASTER)
        named = report.to_dict()["prompt"]
        assert (named["profile"], named["outcome"]) == ("dsv4", "explained")
        assert report.evidence == ("E0",)

    def test_lines_without_a_count_are_passed_over(self) -> None:
        lines = ["", "null", "{}", '{"request": {"messages": []}}', "{" * 10_000]
        assert explain_recorded(lines, FORECASTER).requests == 0


def test_a_request_of_ones_own_is_counted_too() -> None:
    own = {"messages": [{"role": "user", "content": "Is this what I think?"}]}
    report = run(StandIn(VLLM), only=["counting"], request=own)
    assert not report.verdict.unexplained
    assert messages_in(own) == own["messages"]

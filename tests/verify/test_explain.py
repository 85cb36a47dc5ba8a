"""Observations in, the servers that explain them out."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from stand_ins import FORECASTER, VLLM, LookAmong, count_on, observed, server

from dsv4.profiles.profile import profile_named
from dsv4.profiles.text_shields import TEXT_PLACES
from dsv4.verify import PROBES, Forecaster, Hypothesis, Observation, Verdict, explain
from dsv4.verify.choice import (
    MOST_QUICK,
    all_matrices,
    likely_servers,
    matrix,
    next_probe,
    still_possible,
)
from dsv4.verify.count_patterns import factors_of
from dsv4.verify.counting_checks import TEXT_TOKENS
from dsv4.verify.hypotheses import clean_servers
from parts import part
from rows import each_row

VECTORS = Path(__file__).parent.parent / "vectors" / "verify-counts.jsonl"
ROWS = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]


def verdict(seen: list[Observation]) -> Verdict:
    return explain(seen, forecaster=FORECASTER)


def named(found: Verdict) -> list[tuple[str, str, tuple[str, ...]]]:
    assert found.best is not None
    explanations = (found.best, *found.alternatives)
    return [(e.hypothesis.profile, e.hypothesis.texts, e.faults) for e in explanations]


class TestForecasts:
    @pytest.mark.parametrize("profile", ["recipe-0.2.0", "vllm-0.32", "sglang-0.5.23", "llama.cpp"])
    def test_the_recorded_counts(self, profile: str) -> None:
        forecaster = Forecaster({row["id"]: row["request"] for row in ROWS}, FORECASTER.counter)
        acts = profile_named(profile).special_text_acts
        for row in ROWS:
            forecast = forecaster.forecast(Hypothesis(profile, "v4"), row["id"])
            assert forecast is not None
            count = forecast.count
            if count is not None and not isinstance(count, int):
                count = count[max(count, key=len) if acts else frozenset()]
            assert (row["id"], count) == (row["id"], row["counts"][profile])

    def test_special_tokens_in_text_count_as_one_each_or_as_text(self) -> None:
        forecast = FORECASTER.forecast(server("sglang-0.5.23"), "inject-user")
        assert forecast is not None
        around = 4  # BOS, the user's token and the header
        assert forecast.count == {frozenset(): 30 + around, frozenset({"user"}): 9 + around}

    def test_the_requests_of_probes_are_not_changed(self) -> None:
        before = json.dumps([probe.request for probe in PROBES.values()])
        for fault in ("texts-stripped", "tools-ascii", "calls-dropped", "thinking-always"):
            FORECASTER.counts(server("vllm-0.32", "v4", fault))
        assert json.dumps([probe.request for probe in PROBES.values()]) == before


class TestCleanServers:
    @pytest.mark.parametrize("clean", clean_servers(), ids=str)
    def test_each_is_named_without_a_fault(self, clean: Hypothesis) -> None:
        found = verdict(observed(clean))
        assert (found.outcome, found.faults) == ("explained", ())
        assert (clean.profile, clean.texts, ()) in named(found)
        assert {faults for _, _, faults in named(found)} == {()}

    def test_the_order_of_observations_does_not_matter(self) -> None:
        seen = observed(VLLM)
        random.Random(1).shuffle(seen)
        assert named(verdict(seen)) == [("vllm-0.32", "v4-0731", ())]

    def test_a_few_observations_leave_several(self) -> None:
        found = verdict(observed(VLLM, ["plain", "system"]))
        assert len(found.alternatives) > 1

    def test_one_request_with_two_tools_names_the_server(self) -> None:
        for profile in ("recipe-0.2.0", "vllm-0.32", "sglang-0.5.23", "llama.cpp"):
            found = verdict(observed(server(profile), ["tools-two"]))
            assert [name for name, _, _ in named(found)][:1] == [profile]

    def test_nothing_was_seen(self) -> None:
        assert explain([Observation("plain", note="timed out")]).outcome == "nothing seen"


FAULTY = [
    ("vllm-0.32", "v4", "effort-max-as-high"),
    ("vllm-0.32", "v4", "effort-april"),
    ("vllm-0.32", "v4.1", "tools-wrapped"),
    ("vllm-0.32", "v4", "long-texts-truncated/777"),
    ("vllm-0.32", "v4", "history-truncated/4"),
    ("sglang-0.5.23", "v4", "tools-sorted"),
    ("sglang-0.5.23", "v4", "system-default-added"),
    ("vllm-0.32", "v4", "developer-text-added"),
    ("dsv4", "v4-0731", "developer-text-added/1"),
    ("sglang-0.5.23", "v4.1", "tools-kept-at-none"),
    ("recipe-0.2.0", "v4", "reasoning-space"),
    ("llama.cpp", "v4", "thinking-never"),
    ("llama.cpp", "v4", "result-tags-missing"),
    ("dsv4", "v4", "reasoning-dropped-in-loop"),
    ("dsv4", "v4.1", "parts-joined-by-nothing"),
    ("dsv4", "v3.2", "empty-content-none"),
]


class TestFaults:
    @each_row("profile, dialect, fault", FAULTY)
    def test_each_is_among_those_named(self, profile: str, dialect: str, fault: str) -> None:
        faulty = server(profile, dialect, fault)
        found = verdict(observed(faulty))
        assert (profile, faulty.texts, faulty.ids) in named(found)
        assert {len(faults) for _, _, faults in named(found)} == {1}

    def test_a_format_is_not_certain_where_a_server_of_it_may_refuse_more(self) -> None:
        """Its prompts are those of a server of V3.2. That it refuses developers tells little."""
        faulty = server("recipe-0.2.0", "v4", "format-v3.2")
        found = verdict(observed(faulty))
        assert ("recipe-0.2.0", faulty.texts, ("format-v3.2",)) in named(found)
        assert ("dsv4", "v3.2", ()) in named(found)
        assert (found.faults, found.possible) == ((), ("format-v3.2",))

    def test_what_counts_cannot_tell_apart_is_named_together(self) -> None:
        found = verdict(observed(server("vllm-0.32", "v4", "arguments-lost")))
        assert [faults for _, _, faults in named(found)] == [
            ("arguments-lost",),
            ("arguments-twice-encoded",),
        ]

    def test_two_faults(self, look_among: LookAmong) -> None:
        look_among([each for each in clean_servers() if each.dialect == "v4"])
        both = server("vllm-0.32", "v4", "effort-max-as-high", "tools-compact")
        assert named(verdict(observed(both))) == [
            ("vllm-0.32", "v4-0731", ("effort-max-as-high", "tools-compact"))
        ]

    @pytest.mark.parametrize(
        "proxy",
        [
            ("developer-as-system", "effort-ignored", "parts-joined-by-nothing"),
            ("developer-as-system", "effort-none-as-high", "parts-joined-by-nothing"),
            ("additional-properties-lost", "developer-as-system", "thinking-as-effort"),
        ],
    )
    def test_three_faults_of_a_proxy(self, proxy: tuple[str, ...], look_among: LookAmong) -> None:
        """What litellm does for its providers `deepseek` (1.108, 1.109) and `hosted_vllm`."""
        look_among([each for each in clean_servers() if each.dialect == "v4"])
        found = verdict(observed(server("vllm-0.32", "v4", *proxy)))
        assert ("vllm-0.32", "v4-0731", proxy) in named(found)
        assert {len(faults) for _, _, faults in named(found)} == {3}

    def test_a_constant_that_is_added_to_every_count(self) -> None:
        found = verdict(observed(VLLM, added=37))
        assert ("vllm-0.32", "v4-0731", ("counts-offset",)) in named(found)

    def test_counts_that_include_the_answer(self) -> None:
        seen = [replace(o, count=o.count and o.count + 1) for o in observed(VLLM)]
        plain = count_on(VLLM, "plain")
        assert plain is not None
        seen.append(Observation("plain", plain + 8, completion_tokens=8))
        found = verdict(seen)
        assert named(found) == [("vllm-0.32", "v4-0731", ("counts-include-completion",))]

    def test_special_tokens_that_act_on_a_server_that_should_not_let_them(self) -> None:
        acting = [
            replace(o, count=count_on(server("dsv4"), o.probe, acts=True))
            if o.probe == "inject-result"
            else o
            for o in observed(server("dsv4"))
        ]
        found = verdict(acting)
        assert found.faults == ("inject-result",)
        assert found.acting == frozenset({"result"})

    def test_special_tokens_that_act_as_a_server_is_known_to(self) -> None:
        found = verdict(observed(VLLM))
        assert found.faults == ()
        assert found.acting == frozenset(TEXT_PLACES)


class TestWhatIsNotExplained:
    def test_nothing_is_named_that_is_not_certain(self, look_among: LookAmong) -> None:
        look_among([each for each in clean_servers() if each.dialect == "v4"])
        seen = [
            replace(o, count=o.count and o.count + 11) if o.probe.startswith("tools-") else o
            for o in observed(VLLM)
        ]
        found = verdict(seen)
        assert (found.outcome, found.faults) == ("not explained", ())
        assert found.best is not None
        assert found.best.hypothesis == VLLM
        assert {PROBES[m.probe].group for m in found.unexplained} == {"tools"}
        expected = count_on(VLLM, "tools-two")
        assert expected is not None
        assert ("tools-two", expected, expected + 11) in [
            (m.probe, m.expected, m.seen) for m in found.unexplained
        ]

    def test_a_refusal_that_no_server_gives(self, look_among: LookAmong) -> None:
        look_among([VLLM, server("sglang-0.5.23")])
        seen = [
            Observation(o.probe, refused=True) if o.probe == "spaces" else o for o in observed(VLLM)
        ]
        found = verdict(seen)
        assert [(m.probe, m.seen) for m in found.unexplained] == [("spaces", None)]


class TestCountingItself:
    def test_the_texts_have_the_tokens_that_the_check_expects(self) -> None:
        tokenizer = FORECASTER.counter.tokenizer
        texts = {id: PROBES[id].request["messages"][0]["content"] for id in TEXT_TOKENS}
        assert {id: len(tokenizer.encode_text(t)) for id, t in texts.items()} == TEXT_TOKENS

    @pytest.mark.parametrize("per_token", [3, 4])
    def test_estimates_from_characters_are_not_believed(self, per_token: int) -> None:
        seen = [
            replace(o, count=len(json.dumps(o.body)) // per_token)
            if o.probe not in TEXT_TOKENS
            else replace(o, count=4 + len(str(o.body["messages"][0]["content"])) // per_token)
            for o in observed(VLLM)
            if o.body
        ]
        found = verdict(seen)
        assert (found.outcome, found.faults) == ("void", ("counts-estimated",))

    def test_another_vocabulary_is_not_believed(self) -> None:
        other = {"count-chinese": 5, "count-code": -2, "count-digits": 9, "count-emoji": 4}
        seen = [replace(o, count=(o.count or 0) + other.get(o.probe, 0)) for o in observed(VLLM)]
        assert verdict(seen).faults == ("other-vocabulary",)

    def test_two_servers_in_turn(self) -> None:
        servers = [VLLM, server("sglang-0.5.23")]
        seen = [observed(servers[n % 2], [id])[0] for n, id in enumerate(PROBES)]
        seen += [observed(each, ["plain"])[0] for each in servers]
        found = verdict(seen)
        assert found.faults == ("two-servers",)
        assert found.best is not None
        both = {found.best.hypothesis, *(other.hypothesis for other in found.others)}
        assert both == set(servers)


class TestChoosing:
    def test_the_next_request_is_one_that_tells_apart(self) -> None:
        known = {each: FORECASTER.counts(each) for each in clean_servers()}
        first = next_probe(known, ())
        assert first is not None
        assert len({str(counts[first]) for counts in known.values()}) > 5

    def test_nothing_is_asked_that_tells_nothing_apart(self) -> None:
        alike = [server("dsv4", "v4-0731"), server("dsv4", "v4-vision")]
        known = {each: FORECASTER.counts(each) for each in alike}
        assert next_probe(known, ()) is None

    def test_few_requests_single_out_one_of_many(self) -> None:
        many = [h for h in likely_servers() if (h.profile, h.dialect) == ("vllm-0.32", "v4")]
        known = {each: FORECASTER.counts(each) for each in many}
        needed = []
        for truth in part(many, 3):
            remaining, asked = dict(known), list[str]()
            while len(asked) < MOST_QUICK and (probe := next_probe(remaining, asked)):
                asked.append(probe)
                if probe in known[truth]:
                    remaining = still_possible(remaining, probe, count_on(truth, probe))
            assert truth in remaining
            needed.append(len(asked))
        assert sum(needed) / len(needed) <= 8


def test_the_matrix_says_what_cannot_be_told_apart() -> None:
    found = matrix(VLLM, FORECASTER)
    assert found.score > 0.98
    assert any({"arguments-lost", "arguments-twice-encoded"} <= set(ids) for ids in found.alike)
    invisible = next(ids for ids in found.alike if "" in ids)
    assert "parameters-all-strings" in invisible
    assert "effort-april" not in invisible


@pytest.mark.large
def test_the_documents_have_the_score_of_all_servers() -> None:
    found = all_matrices()
    score = sum(each.apart for each in found) / sum(each.pairs for each in found)
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text("utf-8")
    assert f"they tell apart **{score * 100:.1f} %**" in " ".join(page.split())


def test_no_factor_is_seen_in_counts_of_which_one_alone_differs_by_more_than_a_token() -> None:
    counted = [(5, 6), (80, 81), (200, 202), (553, 559)]
    assert [pattern.factor for pattern in factors_of(counted)][:1] == [Fraction(101, 100)]
    assert not [*factors_of([(5, 6), (6, 7), (80, 81), (553, 559)])]

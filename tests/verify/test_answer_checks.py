"""What is said of answers: whole ones, streams, prompts and caches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from http_servers import behaving
from stand_ins import FORECASTER, VLLM, StandIn, server

from dsv4.profiles.text_shields import TEXT_PLACES, shielded
from dsv4.tokens.coder import common_prefix_length
from dsv4.verify import HttpServer, Hypothesis, Reply, ServerFinding, run
from dsv4.verify.answer_checks import NASTY, answer_findings
from dsv4.verify.answer_rates import wilson
from dsv4.verify.answers import streamed_answer, whole_answer
from dsv4.verify.output_checks import ASKING, call_findings, other_routes
from dsv4.verify.prompt_routes import loop_bodies, loop_findings, order_findings, shown_prompts
from encoding_dsv4 import bos_token, dsml_token
from rows import each_row

Body = Mapping[str, Any]


def message(content: str = "", finish: str = "stop", tokens: int = 1, **fields: Any) -> Reply:
    choice = {"message": {"content": content, **fields}, "finish_reason": finish}
    return Reply(200, {"choices": [choice], "usage": {"completion_tokens": tokens}})


def called(*arguments: str, ids: str = "abc", name: str = "run") -> list[Any]:
    return [
        {"index": n, "id": ids[n], "function": {"name": name, "arguments": each}}
        for n, each in enumerate(arguments)
    ]


def streamed(finish: str = "stop", **delta: Any) -> Reply:
    choice = {"delta": delta, "finish_reason": finish}
    return Reply(200, events=({"choices": [choice]},), times=(0.5,))


def either(body: Body, **fields: Any) -> Reply:
    """An answer as it was asked for: streamed, or whole."""
    return streamed(**fields) if body.get("stream") else message(**fields)


def well_behaved(path: str, body: Body) -> Reply:
    """What a good server with a good model answers to each check."""
    asked = body["messages"][0]["content"]
    if "story" in asked:
        return message("Once", "length", body["max_tokens"])
    if "thoughts" in asked:
        return message("", reasoning="1 2 3 4 ")
    if "Count" in asked:
        return message("1 2 3 4 ")
    if "json" in asked:
        return either(body, content='{"answer": "forty-two", "number": 42}')
    if "in Paris" in asked or "for Paris, now" in asked:
        return either(body, tool_calls=called('{"city":"Paris"}', name="weather"))
    if "logprobs" in body:
        reply = message("Hi 🛰")
        rows = [{"token": "Hi", "bytes": [72, 105], "logprob": -0.1}]
        rows.append({"token": " 🛰", "bytes": list(" 🛰".encode()), "logprob": 0.0})
        reply.body["choices"][0]["logprobs"] = {"content": rows}
        return reply
    if "17 times" in asked:
        return message("391", reasoning="Let me see.")
    if "three times" in asked:
        return streamed(tool_calls=called('{"city":"Paris"}', '{"city":"Rome"}', '{"city":"Oslo"}'))
    command = json.loads(asked.partition(": ")[2])
    return either(body, tool_calls=called(json.dumps({"command": command})))


def findings(post: Callable[[str, Body], Reply]) -> dict[str, ServerFinding]:
    return {finding.id: finding for finding in answer_findings(post)}


def but(word: str, reply: Reply) -> Callable[[str, Body], Reply]:
    """The good server, with another answer where a word is asked, streamed or whole."""

    def post(path: str, body: Body) -> Reply:
        is_meant = word in json.dumps(body) and bool(reply.events) == bool(body.get("stream"))
        return reply if is_meant else well_behaved(path, body)

    return post


def test_a_good_server_passes() -> None:
    found = findings(well_behaved)
    assert {finding.verdict for finding in found.values()} == {"pass"}
    assert found["schema-valid"].seen == "6 of 6 (61% to 100%)"
    assert found["calls-often-valid"].seen == "6 of 6 (61% to 100%)"
    assert found["reasoning-field"].message == "reasoning comes back as `reasoning`, not counted"


@each_row(
    "word, reply, id",
    [
        ("story", message("Once", "length", 99), "stops-length"),
        ("story", message("Once", "stop", 1), "stops-finish"),
        ("Count", message("1 2 3 4 5 6"), "stops-string"),
        ("six by seven", message("Forty-two!"), "schema-invalid"),
        ("json object", message("[1]"), "json-invalid"),
        ("for Paris, now", message(tool_calls=called("{}")), "calls-often-invalid"),
        ("for Paris, now", message(f"<{dsml_token}tool_calls>"), "calls-often-invalid"),
        ('required", "tools', message("It rains."), "calls-required-invalid"),
        ("17 times", message("Let me see.</think>391"), "reasoning-leaks"),
        ("three times", streamed(tool_calls=called('{"a', '":1}')), "calls-parallel-merged"),
        ("three times", streamed(tool_calls=called("{}", "{}", ids="aa")), "calls-parallel-merged"),
        ("2>&1", message(tool_calls=called('{"command": "make test 2"}')), "calls-nasty-cut"),
        ("2>&1", streamed(tool_calls=called('{"command": "make test 2"}')), "calls-nasty-cut"),
        ("build-9", streamed(tool_calls=called('{"command": "echo step"}')), "calls-nasty-cut"),
        ("thoughts", message("1 2 3 4 5", reasoning="Hm."), "stops-string"),
    ],
)
def test_what_no_weights_explain_is_a_fault(word: str, reply: Reply, id: str) -> None:
    found = findings(but(word, reply))
    assert found[id].verdict == "fault"
    assert found[id].effect
    assert [each.verdict for each in found.values()].count("fault") == 1


class TestStopStringsInReasoning:
    """Servers cut reasoning at a stop string or not: it is said which."""

    @pytest.mark.parametrize(
        ("reply", "id", "said"),
        [
            (message("", reasoning="1 2 3 4 "), "stops-reasoning", "ends reasoning too"),
            (message("", reasoning="1 2 3 4 5"), "stops-reasoning", "too, which keeps it"),
            (message("done", reasoning="1 2 3 4 5 6"), "stops-reasoning", "end no reasoning"),
            (message("", "length", reasoning="1 2 3 4 5 6"), "stops-reasoning", "end no reasoning"),
        ],
    )
    def test_what_is_seen(self, reply: Reply, id: str, said: str) -> None:
        found = findings(but("thoughts", reply))[id]
        assert found.verdict == "pass"
        assert said in found.message

    def test_the_text_and_the_finish_are_said(self) -> None:
        found = findings(well_behaved)["stops-reasoning"]
        assert found.seen == "8 characters of reasoning, no text, `stop`"

    @pytest.mark.parametrize(
        "reply",
        [
            *(message("done"), message("done", reasoning="One, two.")),
            message("", "length", reasoning="One, two."),
        ],
    )
    def test_a_model_that_does_not_think_of_it(self, reply: Reply) -> None:
        found = findings(but("thoughts", reply))
        (seen,) = [found[id] for id in found if id.startswith("stops-reasoning")]
        assert seen.verdict == "inconclusive"


class TestTheFirstByteOfAnArgument:
    @staticmethod
    def arriving(*times: float) -> ServerFinding:
        """What is said where the long argument comes in pieces, at these seconds."""
        text = json.dumps({"command": NASTY["10 KB"]})
        size = len(text) // len(times) + 1
        pieces = [text[at : at + size] for at in range(0, len(text), size)]

        def post(path: str, body: Body) -> Reply:
            if "build-9" not in json.dumps(body):
                return well_behaved(path, body)
            role: Any = {"role": "assistant", "content": None}
            named = {"index": 0, "id": "a", "function": {"name": "run", "arguments": ""}}
            deltas = [role, {"tool_calls": [named]}]
            for piece in pieces:
                deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
            events = tuple({"choices": [{"delta": delta}]} for delta in deltas)
            return Reply(200, events=events, times=(0.1, 0.2, *times))

        return findings(post)["calls-nasty-first-byte"]

    def test_an_argument_that_is_streamed(self) -> None:
        found = self.arriving(0.5, 4.0, 9.5, 10.0)
        assert "is streamed while it is written" in found.message
        assert found.seen == "first byte after 0.5 of 10.0 seconds, 4 pieces"

    @pytest.mark.parametrize("times", [(10.0,), (9.9, 9.95, 10.0)])
    def test_an_argument_that_is_held_back(self, times: tuple[float, ...]) -> None:
        found = self.arriving(*times)
        assert "is held back until it is complete" in found.message
        assert found.verdict == "pass"


def test_a_rate_has_its_interval() -> None:
    found = findings(but("six by seven", message("Forty-two!")))["schema-invalid"]
    assert (found.expected, found.seen) == ("6 of 6", "3 of 6 (19% to 81%)")


def test_few_answers_that_say_something_make_no_fault() -> None:
    cut = message("The", "length")
    sent: list[Body] = []

    def post(path: str, body: Body) -> Reply:
        if "six by seven" not in json.dumps(body):
            return well_behaved(path, body)
        sent.append(body)
        if body.get("stream"):
            choice = {"delta": {"content": "The"}, "finish_reason": "length"}
            return Reply(200, events=({"choices": [choice]},))
        return message("Forty-two!") if len(sent) == 1 else cut

    assert findings(post)["schema-unseen"].verdict == "inconclusive"


def test_what_a_model_does_not_do_is_no_fault_of_a_server() -> None:
    found = findings(lambda path, body: either(body, content="No."))
    assert found["calls-often-unseen"].verdict == "inconclusive"


def test_the_requests_are_as_many_as_announced() -> None:
    sent: list[str] = []
    list(answer_findings(lambda path, body: sent.append(path) or well_behaved(path, body)))
    assert len(sent) == 36


def test_log_probabilities_that_are_none() -> None:
    reply = message("Hi")
    reply.body["choices"][0]["logprobs"] = {"content": [{"token": "Hi", "logprob": 0.7}]}
    assert findings(but("logprobs", reply))["logprobs-positive"].verdict == "fault"
    reply.body["choices"][0]["logprobs"] = {"content": [{"token": "No", "logprob": -1}]}
    assert findings(but("logprobs", reply))["logprobs-text"].verdict == "fault"


def test_a_server_that_answers_nothing_is_at_no_fault() -> None:
    found = findings(lambda path, body: Reply(problem="no complete answer within 30 seconds"))
    assert {finding.verdict for finding in found.values()} <= {"inconclusive", "not offered"}


def test_an_interval_is_wider_for_fewer_trials() -> None:
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 5)[0] == 0.0
    assert wilson(50, 100)[0] > wilson(5, 10)[0]


class TestReading:
    def test_whole_and_streamed_are_read_alike(self) -> None:
        fields = {"content": "Hm.", "reasoning": "r", "tool_calls": called('{"a": 1}')}
        whole, stream = whole_answer(message(**fields)), streamed_answer(streamed(**fields))
        assert whole == stream
        assert whole is not None
        assert whole.read_calls == [("run", {"a": 1})]

    @pytest.mark.parametrize(
        "body", [None, [], {"choices": 5}, {"choices": [{"message": {"tool_calls": [5, None]}}]}]
    )
    def test_whatever_a_server_sends(self, body: Any) -> None:
        found = whole_answer(Reply(200, body))
        assert found is None or found.read_calls == [("", None)] * 2

    def test_indices_that_are_none(self) -> None:
        parts = [{"index": index, "function": {"name": "f"}} for index in (10**9, -1, True, "0")]
        found = streamed_answer(streamed(tool_calls=parts))
        assert found is not None
        assert len(found.calls) == 4


class TestCalls:
    """One call, whole and streamed."""

    @staticmethod
    def found(**fields: Any) -> dict[str, str]:
        calls = fields.pop("calls", called('{"city": "Paris"}', name="weather"))
        fields = {"finish": "tool_calls", "tool_calls": calls, **fields}
        return {f.id: f.verdict for f in call_findings(lambda _, body: either(body, **fields))}

    def test_a_call_as_it_should_be(self) -> None:
        assert self.found() == {"output-calls": "pass"}
        assert ASKING["tools"]

    def test_a_finish_that_hides_it(self) -> None:
        assert self.found(finish="stop")["output-finish"] == "fault"

    def test_calls_without_ids_of_their_own(self) -> None:
        twice = ['{"city": "Paris"}'] * 2
        assert self.found(calls=called(*twice, ids="aa"))["output-ids"] == "fault"
        assert "output-ids" not in self.found(calls=called(*twice, ids="ab"))

    @pytest.mark.parametrize("arguments", ['{"town": "Paris"}', '{"city": 5}', "{}"])
    def test_a_call_that_the_model_may_have_got_wrong(self, arguments: str) -> None:
        assert self.found(calls=called(arguments))["output-schema"] == "inconclusive"

    def test_texts_that_differ(self) -> None:
        def post(path: str, body: Body) -> Reply:
            text = "I will look." if body.get("stream") else "Let me see."
            return either(body, content=text)

        (found,) = call_findings(post)
        assert found.id == "output-streams"


class Showing(StandIn):
    """A server that shows prompts on a route of its own."""

    route = "/../render"

    def post(self, path: str, body: Body) -> Reply:
        if path != self.route:
            return super().post(path, body)
        self.requests += 1
        asked = shielded({k: v for k, v in body.items() if k != "model"})
        prompt = self.servers[0].prompt(asked)
        dialect = self.servers[0].server.release(self.servers[0].dialect)
        ids = FORECASTER.counter.ids(prompt, dialect, TEXT_PLACES)
        return Reply(200, {"tokens": ids} if "tokenize" in path else {"prompt": prompt})


class TestEvidence:
    def test_prompts_are_looked_at_where_counts_are_estimates(self) -> None:
        estimating = Showing(server("sglang-0.5.23"), counts=lambda prompt: len(prompt) // 4)
        report = run(estimating)
        assert report.verdict.best is not None
        assert report.verdict.best.hypothesis.profile == "sglang-0.5.23"
        assert report.verdict.faults == ("counts-estimated",)
        assert report.evidence[0] == "E0"

    @pytest.mark.parametrize("route", ["/../tokenize", "/../apply-template", "/../render"])
    def test_each_route_shows_prompts(self, route: str) -> None:
        showing = Showing(VLLM)
        showing.route = route
        shown = list(shown_prompts(showing.post, FORECASTER))
        assert len(shown) == 5
        assert all(o.ids if "tokenize" in route else o.prompt for o in shown)

    def test_llama_cpp_shows_prompts_without_the_bos_that_its_tokenizer_adds(self) -> None:
        class WithoutBos(Showing):
            route = "/../apply-template"

            def post(self, path: str, body: Body) -> Reply:
                reply = super().post(path, body)
                if path != self.route:
                    return reply
                return Reply(200, {"prompt": reply.body["prompt"].removeprefix(bos_token)})

        truth = server("llama.cpp-2026.10")
        report = run(WithoutBos(truth), mode="full")
        assert report.verdict.faults == ()
        assert "E0" in report.evidence

    def test_count_tokens_and_usage_are_compared(self) -> None:
        def post(path: str, body: Body) -> Reply:
            usage = {"input_tokens": 4, "cache_read_input_tokens": 64}
            counted = {"/messages": {"usage": {**usage, "cache_creation_input_tokens": 16}}}
            counted["/messages/count_tokens"] = {"input_tokens": 80}
            return Reply(200, counted[path]) if path in counted else Reply(404)

        found = {finding.id: finding for finding in other_routes(post, [84])}
        assert "protocols-messages" not in found  # what a cache knew is counted apart
        assert found["protocols-count-tokens"].seen == "80 tokens"

    @pytest.mark.parametrize(("profile", "sorts"), [("vllm-0.32", False), ("sglang-0.5.23", True)])
    def test_a_cache_tells_the_order_of_calls(self, profile: str, sorts: bool) -> None:
        """A server that sorts calls writes the same prompt for both orders."""

        def reusing(cached: int) -> Callable[[str, Body], Reply]:
            details = {"prompt_tokens_details": {"cached_tokens": cached}}
            return lambda path, body: Reply(200, {"usage": {"prompt_tokens": 1000, **details}})

        def verdicts(cached: int) -> dict[str, str]:
            found = order_findings(reusing(cached), server(profile), FORECASTER)
            return {finding.id: finding.verdict for finding in found}

        assert "effort-v41" not in verdicts(896)
        assert verdicts(896)["order-calls"] == ("pass" if sorts else "fault")
        assert verdicts(256)["order-calls"] == ("fault" if sorts else "pass")
        assert verdicts(0) == {}

    @pytest.mark.parametrize("truth", [VLLM, server("vllm-0.32", "v4.1")], ids=str)
    def test_a_cache_that_knows_an_earlier_run_misleads_nobody(self, truth: Hypothesis) -> None:
        known: list[list[int | None]] = []

        def reusing(path: str, body: Body) -> Reply:
            dialect = truth.server.release(truth.dialect)
            asked = shielded({k: v for k, v in body.items() if k != "max_tokens"})
            ids = FORECASTER.counter.ids(truth.prompt(asked), dialect, TEXT_PLACES)
            cached = max((common_prefix_length(ids, each) for each in known), default=0)
            known.append(ids)
            details = {"prompt_tokens_details": {"cached_tokens": cached}}
            return Reply(200, {"usage": {"prompt_tokens": len(ids), **details}})

        for _ in range(2):
            found = list(order_findings(reusing, truth, FORECASTER))
            assert {finding.verdict for finding in found} == {"pass"}
            assert len(found) >= 3

    def test_a_cache_tells_where_a_late_system_text_stands(self) -> None:
        assert self.order("order-system", VLLM, cached=896) == "pass"
        assert self.order("order-system", VLLM, cached=256) == "fault"  # it was moved to the start

    def test_a_cache_tells_whether_an_effort_of_v41_arrives(self) -> None:
        """Its digits have as many tokens as others, so counts say nothing."""
        assert self.order("effort-v41", server("dsv4", "v4.1"), cached=704) == "fault"
        assert self.order("effort-v41", server("dsv4", "v4.1"), cached=0) == ""

    @staticmethod
    def order(id: str, truth: Hypothesis, cached: int) -> str:
        details = {"prompt_tokens_details": {"cached_tokens": cached}}
        reply = Reply(200, {"usage": {"prompt_tokens": 1000, **details}})
        found = order_findings(lambda path, body: reply, truth, FORECASTER)
        return next((finding.verdict for finding in found if finding.id == id), "")


class TestLoops:
    """Four requests of an agent, each of which continues the one before."""

    @staticmethod
    def verdict(*cached: int | None) -> list[ServerFinding]:
        left = iter(cached)

        def post(path: str, body: Body) -> Reply:
            return Reply(200, {"usage": {"prompt_tokens_details": {"cached_tokens": next(left)}}})

        return list(loop_findings(post, VLLM, FORECASTER))

    def test_each_turn_reuses_what_it_shares_with_the_one_before(self) -> None:
        sizes = [count(body) for body in loop_bodies()]
        (found,) = self.verdict(0, *(size // 64 * 64 for size in sizes[:3]))
        assert found.verdict == "pass"
        assert found.expected == f"{sizes[0]:,}, {sizes[1]:,}, {sizes[2]:,} tokens in common"

    def test_a_turn_that_is_computed_again_is_named(self) -> None:
        sizes = [count(body) for body in loop_bodies()]
        (found,) = self.verdict(0, sizes[0], 64, sizes[2])
        assert (found.id, found.verdict) == ("cache-loop", "fault")
        assert found.message.startswith("turn 3 of an agent's loop")

    def test_a_server_that_says_nothing_of_it(self) -> None:
        assert self.verdict(None, None, None, None) == []


def count(body: Body) -> int:
    dialect = VLLM.server.release(VLLM.dialect)
    return FORECASTER.counter.count(VLLM.prompt(dict(body)), dialect, frozenset())


def test_routes_beside_the_api_are_found() -> None:
    with behaving(lambda send: send(b"HTTP/1.1 404 No\r\n\r\n{}")) as there:
        HttpServer(there.url).post("/../tokenize", {})
        HttpServer(there.url).post("/chat/completions", {})
    lines = [received.split(b" ")[1] for received in there.received]
    assert lines == [b"/tokenize", b"/v1/chat/completions"]


def test_arguments_that_are_hard_to_read_are_so() -> None:
    assert len(NASTY["10 KB"]) > 10_000
    assert NASTY["redirection"].endswith("2>&1")

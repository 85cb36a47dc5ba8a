"""Raw completions: BOS, special tokens, echo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from stand_ins import FORECASTER, VLLM

from dsv4.verify import Reply
from dsv4.verify.output_checks import raw_findings
from encoding_dsv4 import bos_token

COUNTER = FORECASTER.counter
DIALECT = VLLM.server.release(VLLM.dialect)


class RawServer:
    """Raw completions whose prompts are text or not, with a BOS that is added or not."""

    def __init__(self, *, acts: bool = True, adds: str = "never", echo: str = "given") -> None:
        self.acts, self.adds, self.echo = acts, adds, echo
        self.requests = 0

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        self.requests += 1
        if path != "/completions" or (self.echo == "refused" and body.get("echo")):
            return Reply(400, body={"error": "no"})
        prompt = body["prompt"]
        tokens = (
            COUNTER.ids(prompt, DIALECT) if self.acts else COUNTER.tokenizer.encode_text(prompt)
        )
        adds = self.adds == "always" or (self.adds == "missing" and bos_token not in prompt)
        text = prompt + " there" if self.echo == "given" and body.get("echo") else " there"
        usage = {"prompt_tokens": len(tokens) + adds, "completion_tokens": 1}
        return Reply(200, {"choices": [{"text": text}], "usage": usage})

    def found(self, *, full: bool = True) -> dict[str, str]:
        return {f.id: f.message for f in raw_findings(self.post, COUNTER, full=full)}


@pytest.mark.parametrize(
    ("adds", "id", "said"),
    [
        ("never", "raw-bos", "they need their own"),
        ("missing", "raw-bos", "to raw prompts that have none"),
        ("always", "raw-bos-twice", "also to those that have one"),
    ],
)
def test_what_becomes_of_bos(adds: str, id: str, said: str) -> None:
    assert said in RawServer(adds=adds).found()[id]


def test_two_of_them_differ_and_are_no_fault() -> None:
    found = raw_findings(RawServer(adds="always").post, COUNTER, full=False)
    assert {f.verdict for f in found} == {"pass", "differs"}


@pytest.mark.parametrize("adds", ["never", "always"])
def test_whether_special_tokens_act(adds: str) -> None:
    assert "act" in RawServer(adds=adds).found()["raw-tokens"]
    assert "plain text" in RawServer(acts=False, adds=adds).found()["raw-tokens"]


@pytest.mark.parametrize(
    ("echo", "said"), [("given", "gives the prompt back"), ("ignored", "is ignored")]
)
def test_echo(echo: str, said: str) -> None:
    assert said in RawServer(echo=echo).found()["raw-echo"]


def test_a_refusal_of_echo_costs_one_more_request() -> None:
    server = RawServer(echo="refused")
    found = server.found()
    assert "is refused" in found["raw-echo"]
    assert "they need their own" in found["raw-bos"]
    assert server.requests == 3


def test_a_run_that_is_not_full_sends_one_request() -> None:
    server = RawServer()
    assert server.found(full=False)["raw-bos"] == "no second BOS is added to a raw prompt"
    assert server.requests == 1


def test_a_server_without_them() -> None:
    found = raw_findings(lambda path, body: Reply(404, body={}), COUNTER, full=True)
    assert [(f.id, f.verdict) for f in found] == [("raw-none", "not offered")]


def test_counts_that_say_nothing() -> None:
    reply = Reply(200, {"usage": {"prompt_tokens": 17}})
    found = raw_findings(lambda path, body: reply, COUNTER, full=False)
    assert [(f.id, f.verdict) for f in found] == [("raw-tokens", "inconclusive")]

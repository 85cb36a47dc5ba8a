"""This project's own servers, verified: `dsv4 serve` has no fault, and `dsv4 heal` is seen through
to the server behind it. Each sentence of their reports was checked by hand, and stands here with
what makes it true."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateway import gateway
from http_servers import served
from stand_ins import FORECASTER, StandIn, server

from dsv4.verify import HttpServer, Report, run
from dsv4.verify.report_views import report_text
from dsv4.verify.runner import RunMode, planned
from parts import part

Statements = dict[str, list[str]]
# No word was found of these groups, which no request of such a run is about.
UNSEEN: Statements = {"cache": ["inconclusive"], "images": ["inconclusive"]}
PASSED: Statements = {
    group: ["pass"]
    for group in ("counting", "system", "thinking", "effort", "tools", "history", "content")
}
# The demo's model answers in words, and stand-ins say "Hi".
NO_CALL = "inconclusive  the model called no tool when asked to"
NO_RAW = "not offered  no raw completions"
BILLED = "pass  answers are counted as they came back, and name what was asked for"
COUNTED = "pass  counted through messages, responses"


def report_on(mode: RunMode = "default", **settings: Any) -> Report:
    async def measured() -> Report:
        async with gateway(log_level="error", **settings) as running:
            client = HttpServer(f"{running.url}/v1")
            return await asyncio.to_thread(run, client, mode=mode, forecaster=FORECASTER)

    return asyncio.run(asyncio.wait_for(measured(), 120))


def named(report: Report) -> tuple[Any, ...]:
    prompt = report.to_dict()["prompt"]
    return prompt["outcome"], prompt["profile"], prompt["dialect"], prompt["faults"]


def statements(report: Report) -> Statements:
    """What a report says of each group, line by line."""
    found: Statements = {}
    lines = report_text(report).split("\n\n")[1].splitlines()
    for line in lines:
        group, sentence = line[:12].strip() or list(found)[-1], line[12:]
        found.setdefault(group, []).append(sentence)
    return found


# What is the same in a default run and in a full one.
SERVE: Statements = {
    # It is told by what it writes, and V4 with vision has the same texts.
    "prompt": [
        "dsv4 serve with DeepSeek-V4 (texts of 31 July)    {counts} of {counts} counts explained",
        "or dsv4 v4-vision",
        "it says of itself: owner of the model dsv4",
    ],
    **PASSED,
    # Texts of callers never become control tokens.
    "safety": ["pass"],
    "protocols": [COUNTED],
}
SERVE_DEFAULT: Statements = {
    **SERVE,
    **UNSEEN,
    "output": [NO_CALL],
    "raw": [NO_RAW],
}
SERVE_FULL: Statements = {
    **SERVE,
    "images": ["inconclusive"],
    "output": [
        NO_CALL,
        "pass  answers are cut where they should be, and say so",
        # The demo's texts have no 5 in them.
        "inconclusive  the model did not write the stop string",
        "inconclusive  the model did not think of the stop string",
        "pass  log probabilities join to the text",
        "pass  reasoning comes back as `reasoning_content`, 10 tokens",
        "inconclusive  the model did not call several tools at once",
        (
            "inconclusive  0 of 3 arguments that are hard to read came back exactly, "
            "and not: redirection, closing tag, 10 KB"
        ),
        # The demo follows a grammar: schemas and required calls are those.
        "pass  answers follow a strict schema  6 of 6 (61% to 100%)",
        "pass  answers are a JSON object where one was asked for  6 of 6 (61% to 100%)",
        (
            "inconclusive  nothing was seen of how often calls are complete, "
            "and no markup is left in a text"
        ),
        "pass  a call that is required is made  6 of 6 (61% to 100%)",
    ],
    # The demo has no cache, and its usage says nothing of one.
    "cache": ["not offered  the answers do not say what was reused"],
    "raw": [NO_RAW],
}


def counted(expected: Statements, report: Report) -> Statements:
    counts = report.verdict.of
    filled = {group: [s.format(counts=counts) for s in own] for group, own in expected.items()}
    return {**filled, "billing": [BILLED]}


@pytest.mark.parametrize("dialect", part(["v4-0731", "v4", "v3.2"], 2))
def test_serve_has_no_fault(dialect: str) -> None:
    report = report_on(dialect=dialect)
    assert named(report) == ("explained", "dsv4", dialect, [])
    assert {"fault", "differs"}.isdisjoint(report.groups.values()), report.findings
    if dialect == "v4-0731":
        assert statements(report) == counted(SERVE_DEFAULT, report)


def test_all_that_a_full_run_says_of_serve_is_true() -> None:
    report = report_on("full", dialect="v4-0731")
    assert statements(report) == counted(SERVE_FULL, report)
    assert report.notes == ()
    requests, tokens = planned("full")
    assert (report.requests <= requests, report.prompt_tokens <= tokens) == (True, True)


def test_the_demo_sees_no_pictures() -> None:
    """It is a text that stands for each of them."""
    report = report_on(dialect="v4.1")
    assert named(report) == ("explained", "dsv4", "v4.1", [])
    assert statements(report)["images"] == [
        (
            "differs  pictures are not seen: each costs 5 tokens, whatever its size  "
            "184, 968, 986, 204, 1,001 expected, 5, 5, 5, 5, 5"
        )
    ]


PROFILES = ["vllm-0.32", "sglang-0.5.23", "recipe-0.2.0", "llama.cpp"]


def report_on_heal(profile: str, adapt_for: str) -> Report:
    heal = {"settings_backend": "chat", "strip_markup": True, "adapt_for": adapt_for}
    with served(StandIn(server(profile))) as upstream:
        return report_on(upstream=upstream, **heal)


# Special tokens in texts act on all servers that heal stands in front of: it passes texts on.
INJECTED = {
    "history": "FAULT  special tokens in earlier answers become control tokens  "
    "120 tokens if it were text expected, 99 tokens",
    "result": "FAULT  special tokens in tool results become control tokens  "
    "169 tokens if it were text expected, 148 tokens",
    "tool": "FAULT  special tokens in tool descriptions become control tokens  "
    "390 tokens if it were text expected, 369 tokens",
    "user": "FAULT  special tokens in user text become control tokens  "
    "113 tokens if it were text expected, 92 tokens",
}
HEAL: Statements = {
    **UNSEEN,
    "counting": ["pass"],
    "content": ["pass"],
    "output": [NO_CALL],
    "protocols": [COUNTED],
    # Stand-ins have no such route, and heal passes it on.
    "raw": [NO_RAW],
}
AS_VLLM = "tokens, as vLLM 0.32"
CHOICE = f"differs  `tool_choice` does not change the prompt  321 tokens expected, 311 {AS_VLLM}"


def behind_heal(name: str) -> list[str]:
    """heal lists the models under its own name."""
    return [
        f"{name} with DeepSeek-V4 (texts of 31 July)    {{counts}} of {{counts}} counts explained",
        "it says of itself: owner of the model dsv4",
    ]


def adapts(*names: str) -> list[str]:
    words = "`dsv4 heal` adapts such requests to the server behind it"
    return [f"differs  {words} ({name})" for name in names]


# Nothing is adapted: all of these are vLLM's own ways.
HEAL_BEFORE_VLLM: Statements = {
    **HEAL,
    "prompt": behind_heal("vLLM 0.32"),
    "system": [f"differs  developer messages are dropped  89 tokens expected, 84 {AS_VLLM}"],
    "thinking": [f"differs  `thinking.type` is ignored  5 tokens expected, 84 {AS_VLLM}"],
    "effort": [f"differs  `medium` arrives as `low`  84 tokens expected, 5 {AS_VLLM}"],
    "tools": [
        (
            'differs  tools stay in the prompt at `tool_choice: "none"`  '
            f"84 tokens expected, 364 {AS_VLLM}"
        ),
        CHOICE,
        f"differs  the model does not see `response_format`  108 tokens expected, 87 {AS_VLLM}",
    ],
    "history": ["pass"],
    "safety": list(INJECTED.values()),
    # heal counts for itself, with the request's own settings; vLLM thinks by default.
    "protocols": [
        (
            "differs  count_tokens counts otherwise than the answer's usage  "
            "84 tokens expected, 5 tokens"
        ),
        COUNTED,
    ],
}


@pytest.mark.parametrize("profile", part(PROFILES, 4))
def test_heal_is_what_stands_behind_it(profile: str) -> None:
    report = report_on_heal(profile, "none")
    assert named(report) == ("explained", profile, "v4-0731", []), report.to_dict()["prompt"]
    if profile == "vllm-0.32":
        assert statements(report) == counted(HEAL_BEFORE_VLLM, report)


# What is adapted is not compared, and what is not adapted is the server's own way.
ADAPTED: dict[tuple[str, str], Statements] = {
    ("recipe-0.2.0", "deepseek-api"): {
        **HEAL,
        "prompt": behind_heal("deepseek-recipe 0.2.0"),
        "system": adapts("later-system", "developer"),
        "thinking": adapts("thinking"),
        "effort": ["pass"],
        "tools": adapts("response-format"),
        "history": adapts("reasoning-field", "missing-reasoning", "call-ids"),
        # The request with a result is adapted: it has no reasoning, which the server wants.
        "safety": [INJECTED[place] for place in ("history", "tool", "user")],
    },
    ("vllm-0.32", "vllm"): {
        **HEAL,
        "prompt": behind_heal("vLLM 0.32"),
        "system": adapts("later-system", "developer"),
        "thinking": adapts("thinking"),
        "effort": adapts("effort"),
        "tools": [CHOICE, *adapts("idle-tools", "response-format")],
        "history": adapts("arguments"),
        "safety": list(INJECTED.values()),
    },
    # It does not think by default, so heal adapts each request that leaves that open. Compared are
    # those that say it: efforts, thinking itself, and calls that are named or required.
    ("sglang-0.5.23", "sglang"): {
        **HEAL,
        **{group: ["inconclusive"] for group in ("counting", "thinking", "content", "safety")},
        "prompt": [*behind_heal("SGLang 0.5.23"), *adapts("thinking")],
        "system": adapts("later-system"),
        "effort": ["pass"],
        "tools": ["pass"],
        "history": adapts("reasoning-field", "call-ids", "continuation"),
    },
}


@pytest.mark.parametrize(("profile", "adapt_for"), ADAPTED)
def test_what_heal_adapts_is_no_fault_of_the_server(profile: str, adapt_for: str) -> None:
    report = report_on_heal(profile, adapt_for)
    assert named(report) == ("explained", profile, "v4-0731", []), report.to_dict()["prompt"]
    adapted = [finding for finding in report.findings if finding.id.startswith("adapted-")]
    assert "adapted-later-system" in [finding.id for finding in adapted]
    assert {finding.verdict for finding in adapted} == {"differs"}
    assert {group for group, found in report.groups.items() if found == "fault"} <= {"safety"}
    assert statements(report) == counted(ADAPTED[profile, adapt_for], report)

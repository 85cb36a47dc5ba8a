"""dsv4 diff --profile, as a process."""

from __future__ import annotations

import json

import pytest
from running import as_json, dsv4, printed, refused

USER = {"role": "user", "content": "Oslo?"}
VLLM = ("--profile", "vllm-0.32")
OFFICIAL = ("--profile", "deepseek-api")
EFFORT = (
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.␊You MUST be very thorough in "
    "your th"
)
SGLANG = ("--profile", "sglang-0.5.23")


def test_the_same_prompt() -> None:
    shown = printed("diff", *VLLM, *OFFICIAL, "-", stdin=as_json(USER), bare=True)
    assert shown.endswith("A and B write the same prompt.\n")


def test_the_reasons_and_the_place() -> None:
    done = dsv4("diff", *VLLM, *SGLANG, "-", stdin=as_json(USER))
    assert done.returncode == 1
    assert done.stdout.decode().split("\n") == [
        "A  vLLM 0.32: 530 characters",
        "B  SGLang 0.5.23: 55 characters",
        "",
        "- thinking: vLLM 0.32 lets the model think, SGLang 0.5.23 does not",
        "",
        "They part after 21 characters:",
        "both  <｜begin▁of▁sentence｜>",
        f"A     {EFFORT}",
        "B     <｜User｜>Oslo?<｜Assistant｜></think>",
        "",
    ]


def test_a_request_of_the_responses_api() -> None:
    body = json.dumps({"input": "Oslo?", "reasoning": {"effort": "low"}}).encode()
    shown = printed("diff", *VLLM, *OFFICIAL, "-", stdin=body, bare=True)
    assert shown.endswith("A and B write the same prompt.\n")


def test_as_json() -> None:
    developer = {"role": "developer", "content": "Be brief."}
    body = as_json(developer, model="DeepSeek-V4.1-Flash")
    done = dsv4("diff", *VLLM, *OFFICIAL, "--json", "-", stdin=body)
    found = json.loads(done.stdout)
    assert found["same"] is False
    assert "<｜System｜>" in found["a"]["prompt"]
    assert found["b"]["prompt"] is None
    assert found["b"]["error"].startswith("messages[0].role: unknown variant `developer`")
    assert found["reasons"][0]["location"] == ["messages", 0, "role"]


EXPECTED = "expected two servers and one request"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((*VLLM, "-"), f"dsv4: --profile: found 1 server and 1 request, {EXPECTED}"),
        (
            (*VLLM, *SGLANG, "-", "-"),
            f"dsv4: --profile: found 2 servers and 2 requests, {EXPECTED}",
        ),
        (
            (*VLLM, *SGLANG, "--mode", "chat", "-"),
            "dsv4: --mode: found it with --profile, expected it not",
        ),
        (("-",), "dsv4: found one conversation, expected two"),
    ],
)
def test_wrong_options(arguments: tuple[str, ...], complaint: str) -> None:
    assert refused("diff", *arguments, stdin=as_json(USER)) == complaint


def test_an_unknown_profile() -> None:
    complaint = refused("diff", *VLLM, "--profile", "tgi", "-", stdin=as_json(USER))
    assert complaint.startswith('dsv4: --profile: found "tgi", expected one of vllm-0.32, vllm-0')

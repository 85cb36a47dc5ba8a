"""`dsv4 verify` over a real vLLM: named without a fault, by its prompts and by counts alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from vllm_process import MODEL_NAME, OWN_PARSERS, RunningVllm, TinyModel

from dsv4.verify import HttpServer, Reply, Report, run


@pytest.fixture(scope="module")
def vllm(model: TinyModel) -> Iterator[RunningVllm]:
    with model.served(*OWN_PARSERS, "--enable-prompt-tokens-details") as server:
        yield server


class CountsAlone(HttpServer):
    """Does not ask for the prompt itself."""

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        if path.startswith("/../") or path.endswith("/render"):
            return Reply(404)
        asked = {key: value for key, value in body.items() if key != "return_token_ids"}
        return super().post(path, asked)


def named(report: Report) -> tuple[str, str, list[str]]:
    prompt = report.to_dict()["prompt"]
    return prompt["profile"], prompt["dialect"], prompt["faults"]


def test_it_is_named_by_its_prompts(vllm: RunningVllm) -> None:
    report = run(HttpServer(f"{vllm.url}/v1"), MODEL_NAME, mode="full")
    assert named(report) == ("vllm-0.32", "v4-0731", [])
    assert set(report.evidence) >= {"E0", "E1", "E2", "E3", "E3f"}
    assert report.verdict.explained == report.verdict.of > 60
    assert report.groups["safety"] == "fault"
    forced = next(finding for finding in report.findings if finding.id == "forced-misread")
    assert "a call that is none (fenced)" in forced.message


@pytest.mark.parametrize("mode", ["quick", "default"])
def test_it_is_named_by_counts_alone(mode: Any, vllm: RunningVllm) -> None:
    report = run(CountsAlone(f"{vllm.url}/v1"), MODEL_NAME, mode=mode)
    assert named(report) == ("vllm-0.32", "v4-0731", [])
    assert report.evidence[0] == "E1"

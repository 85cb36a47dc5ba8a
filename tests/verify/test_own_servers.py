"""This project's own servers, verified: `dsv4 serve` has no fault, and `dsv4 heal` is seen through
to the server behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateway import gateway
from http_servers import served
from stand_ins import FORECASTER, StandIn, server

from dsv4.verify import HttpServer, Report, run
from dsv4.verify.runner import RunMode
from parts import part


def report_on(mode: RunMode = "default", **settings: Any) -> Report:
    async def measured() -> Report:
        async with gateway(log_level="error", **settings) as running:
            client = HttpServer(f"{running.url}/v1")
            return await asyncio.to_thread(run, client, mode=mode, forecaster=FORECASTER)

    return asyncio.run(asyncio.wait_for(measured(), 120))


def named(report: Report) -> tuple[Any, ...]:
    prompt = report.to_dict()["prompt"]
    return prompt["outcome"], prompt["profile"], prompt["dialect"], prompt["faults"]


@pytest.mark.parametrize("dialect", part(["v4-0731", "v4", "v3.2"], 2))
def test_serve_has_no_fault(dialect: str) -> None:
    report = report_on(dialect=dialect)
    assert named(report) == ("explained", "dsv4", dialect, [])
    assert {"fault", "differs"}.isdisjoint(report.groups.values()), report.findings


PROFILES = ["vllm-0.32", "sglang-0.5.23", "recipe-0.2.0", "llama.cpp"]


def report_on_heal(profile: str, adapt_for: str) -> Report:
    heal = {"settings_backend": "chat", "strip_markup": True, "adapt_for": adapt_for}
    with served(StandIn(server(profile))) as upstream:
        return report_on(upstream=upstream, **heal)


@pytest.mark.parametrize("profile", part(PROFILES, 4))
def test_heal_is_what_stands_behind_it(profile: str) -> None:
    report = report_on_heal(profile, "none")
    assert named(report) == ("explained", profile, "v4-0731", []), report.to_dict()["prompt"]


ADAPTED = [
    ("recipe-0.2.0", "deepseek-api"),
    ("vllm-0.32", "vllm"),
    ("sglang-0.5.23", "sglang"),
]


@pytest.mark.parametrize(("profile", "adapt_for"), ADAPTED)
def test_what_heal_adapts_is_no_fault_of_the_server(profile: str, adapt_for: str) -> None:
    report = report_on_heal(profile, adapt_for)
    assert named(report) == ("explained", profile, "v4-0731", []), report.to_dict()["prompt"]
    adapted = [finding for finding in report.findings if finding.id.startswith("adapted-")]
    assert "adapted-later-system" in [finding.id for finding in adapted]
    assert {finding.verdict for finding in adapted} == {"differs"}
    assert {group for group, found in report.groups.items() if found == "fault"} <= {"safety"}

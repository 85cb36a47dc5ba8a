"""A real litellm in front of a stand-in for vLLM or the official API: what it changes is named.

`make test-litellm` installs one and runs these; elsewhere they are skipped.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from http_servers import served
from stand_ins import FORECASTER, StandIn, server

from dsv4.verify import HttpServer, run

LITELLM = os.environ.get("LITELLM_VENV")
if not LITELLM:
    pytest.skip("LITELLM_VENV names no environment with litellm", allow_module_level=True)


@contextmanager
def litellm(provider: str, upstream: str) -> Iterator[str]:
    proxy = Path(__file__).with_name("litellm_proxy.py")
    command = [f"{LITELLM}/bin/python", str(proxy), provider, upstream]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


HOSTED_VLLM = ["additional-properties-lost", "developer-as-system", "thinking-as-effort"]
DEEPSEEK = ["developer-as-system", "effort-ignored", "parts-joined-by-nothing"]


@pytest.mark.parametrize(
    ("provider", "profile", "faults"),
    [
        ("hosted_vllm", "vllm-0.32", HOSTED_VLLM),
        ("deepseek", "vllm-0.32", DEEPSEEK),
        ("deepseek", "recipe-0.2.0", DEEPSEEK),
    ],
)
def test_what_it_changes_is_named(provider: str, profile: str, faults: list[str]) -> None:
    with (
        served(StandIn(server(profile))) as upstream,
        litellm(provider, upstream) as url,
    ):
        report = run(HttpServer(url), forecaster=FORECASTER)
    prompt = report.to_dict()["prompt"]
    assert (prompt["outcome"], prompt["profile"], prompt["faults"]) == (
        *("explained", profile),
        faults,
    )

"""What the server counts, and where it can be read."""

from __future__ import annotations

import asyncio
import mmap
import socket
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, Gateway, gateway, run

from dsv4.serve.observe.metrics import Metrics
from dsv4.serve.settings import SettingError


def counts(text: str) -> dict[str, float]:
    """Every sample by its name and labels."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def asked(running: Gateway, text: str, **more: Any) -> None:
    body = {"messages": [{"role": "user", "content": text}], **more}
    await running.post("/v1/chat/completions", body)


def test_requests_tokens_and_calls_are_counted() -> None:
    async def scenario() -> str:
        async with gateway() as running:
            await asked(running, "Hi")
            await asked(running, "RUN: ls", tools=TOOLS)
            await asked(running, "BREAK: cut", tools=TOOLS)
            await asked(running, "Hi", n=True)
            _, text = await running.get("/metrics")
            return text

    found = counts(run(scenario()))
    assert found['dsv4_requests_total{protocol="chat",status="200"}'] == 3
    assert found['dsv4_requests_total{protocol="chat",status="400"}'] == 1
    assert found['dsv4_tool_calls_total{end="complete"}'] == 1
    assert found['dsv4_tool_calls_total{end="cut"}'] == 1
    assert found["dsv4_request_seconds_count"] == 3
    assert found['dsv4_tokens_total{kind="completion"}'] > 0
    assert found["dsv4_streams_running"] == 0


def test_with_a_port_of_their_own_they_are_not_among_the_routes() -> None:
    async def scenario() -> int:
        async with gateway(metrics_port=0) as running:
            status, _ = await running.get("/metrics")
            return status

    assert run(scenario()) == 404


def test_a_port_that_is_taken_is_an_error_of_the_settings() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingError, match="metrics_port: cannot listen on 127"):
            Metrics().listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_memory_and_the_size_of_the_store_are_shown() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            await asked(g, "Hi")
            shown: dict[str, float] = {}
            while not shown.get("dsv4_store_bytes"):
                shown = counts((await g.get("/metrics"))[1])
                await asyncio.sleep(0.05)
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
            assert shown["dsv4_memory_bytes"] == pytest.approx(resident, rel=0.2)

    run(scenario())

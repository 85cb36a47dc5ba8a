"""What the server counts, and where it can be read."""

from __future__ import annotations

import asyncio
import mmap
import socket
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, Gateway, gateway, key_file, run
from standins import THINK_END, Scripted

from dsv4.serve import Chunk
from dsv4.serve.backend import Counts
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


def test_what_single_keys_use_is_shown_to_administrators_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = key_file(tmp_path, "ann:sk-ann\nadmin ops:sk-ops\n")
        async with gateway(api_key_file=file, open_key_files=True) as g:
            body = {"messages": [{"role": "user", "content": "Hi"}]}
            await g.post("/v1/chat/completions", body, authorization="Bearer sk-ann")
            shown = [
                (await g.get("/metrics", **{"x-api-key": key}))[1] for key in ("sk-ann", "sk-ops")
            ]
            assert ["ann" in text for text in shown] == [False, True]
            assert ["dsv4_key_" in text for text in shown] == [False, True]
            assert all("dsv4_requests_total" in text for text in shown)

    run(scenario())


def test_what_happens_behind_the_last_byte_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A step that fails is logged, and the others are done all the same."""

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("full")

    async def scenario() -> None:
        file = key_file(tmp_path, "ann:sk-ann tokens=1000000\n")
        record = tmp_path / "records.jsonl"
        options = {"api_key_file": file, "open_key_files": True, "record": str(record)}
        async with gateway(**options) as g:
            monkeypatch.setattr(g.server.metrics, "count_usage", fail)
            monkeypatch.setattr(g.server.metrics, "count_key", fail)
            body = {"messages": [{"role": "user", "content": "Hi"}]}
            status, _, answer = await g.post(
                "/v1/chat/completions", body, authorization="Bearer sk-ann"
            )
            assert status == 200
            used: list[int] = [0]
            while not used[-1]:  # it is charged behind the last byte
                await asyncio.sleep(0.01)
                await g.server.access.meter.table.change(
                    "ann", lambda usage, now: used.append(usage.tokens)
                )
            assert used[-1] == answer["usage"]["total_tokens"]
        assert record.read_text("utf-8").count("\n") == 1
        assert "counting the answer failed" in caplog.text

    run(scenario())


@pytest.mark.parametrize("counts", [(-5, -1, -7), (5, 50, 3), (10**30, 0, 10**30)])
def test_counts_that_cannot_be_true_are_bounded(counts: tuple[int, int, int]) -> None:
    async def scenario() -> None:
        told = Chunk(f"{THINK_END}Yes.", finish="stop", counts=Counts(*counts))
        async with gateway(Scripted(told)) as g:
            body = {"messages": [{"role": "user", "content": "Hi"}]}
            status, _, answer = await g.post("/v1/chat/completions", body)
            usage = answer["usage"]
            assert status == 200
            assert min(usage["prompt_tokens"], usage["completion_tokens"]) >= 0
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            assert 0 <= cached <= usage["prompt_tokens"] <= 2**40

    run(scenario())


@pytest.mark.parametrize(
    ("before", "last", "expected"),
    [
        (Counts(5, 2), Counts(completion=7), Counts(5, 2, 7)),
        (Counts(5, 2, 7), Counts(0, None, 0), Counts(5, 2, 7)),
        (Counts(5, 0, 1), Counts(5, 0, 7, 3), Counts(5, 0, 7, 3)),
        (Counts(), Counts(0, 0, 0), Counts(0, 0, 0)),
        (Counts(5), Counts(), Counts(5)),
    ],
)
def test_counts_that_come_apart_are_put_together(
    before: Counts, last: Counts, expected: Counts
) -> None:
    assert last.behind(before) == expected

"""How busy engines say that they are, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web
from gateway import gateway, run
from standins import THINK_END, Scripted, VllmServer

from dsv4.serve.backend import BackendError
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams import engine_load
from dsv4.serve.upstreams.engine_load import EngineLoad, LoadProbe, read_load
from dsv4.serve.upstreams.engine_pool import Engine, EnginePool, PromptPrefix
from dsv4.serve.upstreams.upstream import Upstream
from dsv4.tokens import Tokenizer

RECORDED = json.loads((Path(__file__).parent / "server_metrics.json").read_text("utf-8"))

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="odd } name"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 9.0
"""
SGLANG = """\
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 12.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0"} 0.0
sglang:num_running_reqs_offline_batch{model_name="m"} 7.0
"""


@pytest.mark.parametrize("release", RECORDED)
def test_the_metrics_that_are_read_are_those_of_the_release(release: str) -> None:
    """By the names in its wheel; tests/engines looks into one that is installed."""
    server = release.partition("==")[0]
    read = {name for name in engine_load.NAMES if name.startswith(f"{server}:")}
    assert len(read) == 2
    assert read <= set(RECORDED[release])


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (VLLM, EngineLoad(5, 1)),
        (VLLM.replace("\n", "\r\n"), EngineLoad(5, 1)),
        (SGLANG, EngineLoad(12, 0)),
        ("", None),
        ("<html>Not Found</html>", None),
        ("vllm:num_requests_running 3.0\n", None),
        ("vllm:num_requests_running x\nvllm:num_requests_waiting 0\n", None),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting 0\n", None),
        ("vllm:num_requests_running +Inf\nvllm:num_requests_waiting 0\n", None),
        ("vllm:num_requests_running -1\nvllm:num_requests_waiting 0\n", None),
        ("dsv4_streams_running 3.0\ndsv4_streams_waiting 1.0\n", None),
    ],
)
def test_what_metrics_say(metrics: str, expected: EngineLoad | None) -> None:
    assert read_load(metrics) == expected


class Speaker(Upstream):
    """An engine that says what a test wants, or fails."""

    def __init__(self, metrics: str | None) -> None:
        super().__init__(Settings(backend="vllm", upstream=("http://127.0.0.1:9",)))
        self.metrics = metrics
        self.questions = 0

    async def text(self, path: str) -> str:
        self.questions += 1
        assert path == "/metrics"
        if self.metrics is None:
            raise BackendError("the backend does not answer: gone", 503)
        return self.metrics


def test_a_word_is_believed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    async def scenario() -> None:
        nonlocal now
        speaker = Speaker(VLLM)
        probe = LoadProbe(speaker)
        assert probe.load is None
        assert await probe.ask()
        assert probe.load == EngineLoad(5, 1)
        speaker.metrics = None
        now += 2
        assert not await probe.ask()
        assert probe.load == EngineLoad(5, 1)
        now += 2
        assert probe.load is None
        # One that has nothing to say is not asked every second.
        for _ in range(20):
            await probe.ask()
            now += 1
        assert speaker.questions == 3
        speaker.metrics = SGLANG
        now += 30
        await probe.ask()
        assert probe.load == EngineLoad(12, 0)

    asyncio.run(scenario())


def engines_saying(*metrics: str | None) -> EnginePool:
    probes = [None if text is None else LoadProbe(Speaker(text)) for text in metrics]
    made = [Engine(f"http://{n}", Scripted(), probe) for n, probe in enumerate(probes)]
    return EnginePool(made)


def load(running: int, waiting: int) -> str:
    return f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"


@pytest.mark.parametrize(
    ("loads", "moves"),
    [
        ((load(8, 0), load(0, 0)), False),
        ((load(9, 0), load(0, 0)), True),
        ((load(108, 0), load(100, 0)), False),
        ((load(134, 0), load(100, 0)), True),
        ((load(4, 2), load(4, 0)), False),
        ((load(4, 3), load(4, 0)), True),
        ((load(50, 9), None), False),
        ((load(50, 9), "nothing of the kind"), False),
    ],
)
def test_an_engine_that_says_it_is_busy_is_relieved(loads: Any, moves: bool) -> None:
    async def scenario() -> None:
        engines = engines_saying(*loads)
        prefix = PromptPrefix(b"a" * 3000, b"")
        engines.note(prefix, engines.first)
        for engine in engines.engines:
            await engine.ask_load()
        assert (engines.choose(prefix) is engines.engines[1]) is moves

    asyncio.run(scenario())


def test_what_was_sent_since_counts_too() -> None:
    async def scenario() -> None:
        engines = engines_saying(load(0, 0), load(0, 0))
        prefix = PromptPrefix(b"a" * 3000, b"")
        engines.note(prefix, engines.first)
        first = engines.first
        first.count_streams(1)
        for engine in engines.engines:
            await engine.ask_load()
        for _ in range(8):
            first.count_streams(1)
        assert engines.choose(prefix) is first
        first.count_streams(1)
        assert engines.choose(prefix) is not first

    asyncio.run(scenario())


def test_a_gateway_asks_its_engines_and_goes_by_what_they_say(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_load, "ASK_SECONDS", 0.05)
    monkeypatch.setattr("dsv4.serve.upstreams.engine_pool.ASK_SECONDS", 0.05)
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}

    class Busy(VllmServer):
        routes: ClassVar = {**VllmServer.routes, "/metrics": "tell"}
        said = load(0, 0)

        async def tell(self, request: web.Request) -> web.Response:
            return web.Response(text=self.said)

    async def scenario() -> None:
        servers = [Busy(tokenizer, f"Hm.{THINK_END}Hello.") for _ in range(2)]
        async with AsyncExitStack() as stack:
            urls = tuple([await stack.enter_async_context(server.running()) for server in servers])
            made = gateway(settings_backend="vllm", upstream=urls)
            g = await stack.enter_async_context(made)

            async def asked() -> list[int]:
                before = [len(server.requests) for server in servers]
                assert (await g.post("/v1/chat/completions", body))[0] == 200
                return [len(s.requests) - n for s, n in zip(servers, before, strict=True)]

            first = await asked()
            servers[first.index(1)].said = load(40, 5)
            shown: list[Any] = []
            while {"running": 40, "waiting": 5} not in shown:
                await asyncio.sleep(0.02)
                _, found = await g.get("/admin/upstreams")
                shown = [engine["reported"] for engine in found["engines"]]
            assert await asked() == first[::-1]

    run(scenario())

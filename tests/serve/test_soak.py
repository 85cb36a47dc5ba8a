"""A soak: minutes of mixed traffic over two engines, one of them killed twice, after which nothing
is left over. `DSV4_SOAK` is how many seconds it takes, 600 unless set."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway import TOOLS, Gateway, gateway, run
from standins import EOS, THINK_END, VllmServer, free_port

from dsv4.tokens import Tokenizer

SECONDS = float(os.environ.get("DSV4_SOAK", "600"))
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
CLIENTS = 24


class Traffic:
    """Clients that stream, wait, leave in the middle and send nonsense, in turns."""

    def __init__(self, g: Gateway) -> None:
        self.g = g
        self.statuses: dict[int, int] = {}
        self.broken = self.left = self.whole = 0

    async def client(self, seed: int, until: float) -> None:
        chosen = random.Random(seed)
        while time.monotonic() < until:
            await self.request(chosen)

    async def request(self, chosen: random.Random) -> None:
        path, kind = chosen.choice(PATHS), chosen.random()
        body = self.body(path, chosen.randrange(40), stream=kind < 0.7)
        data = b"{no json" if kind > 0.97 else json.dumps(body).encode()
        try:
            async with self.g.client.post(self.g.url + path, data=data) as response:
                self.statuses[response.status] = self.statuses.get(response.status, 0) + 1
                if kind < 0.15:  # somebody who leaves
                    await response.content.readany()
                    self.left += 1
                    return
                await response.read()
                self.whole += 1
        except aiohttp.ClientError:
            self.broken += 1

    def body(self, path: str, session: int, stream: bool) -> dict[str, Any]:
        text = f"Session {session}"
        if path == "/v1/responses":
            return {"input": text, "stream": stream}
        said = {"messages": [{"role": "user", "content": text}], "max_tokens": 200}
        more = {"tools": TOOLS} if path == "/v1/chat/completions" else {}
        return {**said, **more, "stream": stream}


def counted() -> dict[str, float]:
    """What a process holds: memory in MiB, open files and sockets, tasks."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    names = [_target(fd) for fd in os.listdir("/proc/self/fd")]
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "files": len(names),
        "sockets": sum(name.startswith("socket:") for name in names),
        "tasks": len(asyncio.all_tasks()),
    }


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # the one that lists them
        return ""


@pytest.mark.large
@pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")
def test_nothing_is_left_over_after_minutes_of_everything(tokenizer: Tokenizer) -> None:
    text = f"Let me think.{THINK_END}" + "A word or two. " * 12 + EOS

    async def engine(stack: AsyncExitStack, port: int) -> VllmServer:
        made = VllmServer(tokenizer, text, pause=0.002)
        made.fault = lambda request, number: web.Response(status=503) if number % 50 == 49 else None
        await stack.enter_async_context(made.running(port))
        return made

    async def scenario() -> None:
        ports = [free_port(), free_port()]
        urls = tuple(f"http://127.0.0.1:{port}" for port in ports)
        settings: Any = {
            "upstream": urls,
            "settings_backend": "vllm",
            "retries": 2,
            "probe_interval": 0.5,
            # Caches that are full from the start, so that they do not look like a leak.
            "replay_entries": 200,
            "replay_bytes": 2**20,
        }
        async with AsyncExitStack() as stable, gateway(**settings) as g:
            await engine(stable, ports[0])
            traffic = Traffic(g)
            before: dict[str, float] = {}
            began = time.monotonic()
            for phase in range(3):  # the other engine is killed after each but the last
                async with AsyncExitStack() as mortal:
                    other = await engine(mortal, ports[1])
                    until = began + SECONDS * (phase + 1) / 3
                    clients = [
                        asyncio.create_task(traffic.client(phase * 100 + n, until))
                        for n in range(CLIENTS)
                    ]
                    if phase < 2:
                        await asyncio.sleep(max(until - time.monotonic() - SECONDS / 10, 0))
                        other.dies()
                    await asyncio.gather(*clients)
                await settled(g)
                if not before:  # what grows once, at the start, is there after the first phase
                    before = counted()
            after = counted()
            assert traffic.whole > 10
            assert traffic.left > 0
            assert set(traffic.statuses) <= {200, 400, 502, 503}
            assert after["files"] <= before["files"] + 4
            assert after["sockets"] <= before["sockets"] + 4
            assert after["tasks"] <= before["tasks"]
            assert after["memory"] <= before["memory"] * 1.15 + 16
            print(traffic.statuses, before, after)

    run(scenario(), seconds=SECONDS + 300)


async def settled(g: Gateway) -> None:
    """Comes back when nothing runs any more."""
    while g.server.gate.running or any(e.running for e in g.server.engines.engines):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)

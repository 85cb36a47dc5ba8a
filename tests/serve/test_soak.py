"""A soak: minutes of mixed traffic over two engines, with one of them and Redis killed again and
again: no promise is broken, and nothing is left over. `DSV4_SOAK` is how many seconds it takes, 600
unless set."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import deque
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway import TOOLS, Gateway, gateway, key_file, run
from redis.asyncio import ConnectionPool
from standins import EOS, THINK_END, VllmServer, free_port

from dsv4.serve.access.key_usage import KeyUsage
from dsv4.tokens import Tokenizer

SECONDS = float(os.environ.get("DSV4_SOAK", "600"))
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
CLIENTS = 24
WORDS = "A word or two. "


# How a stream ends that says it is whole, or that it is not.
ENDS = {
    "/v1/chat/completions": ("data: [DONE]", 'data: {"error"'),
    "/v1/messages": ("event: message_stop", "event: error"),
    "/v1/responses": ("event: response.completed", "event: response.failed"),
}


class Traffic:
    """Clients that stream, wait, leave in the middle, send nonsense and go on with what is stored,
    in turns. `promises` are those that were broken."""

    def __init__(self, g: Gateway, key: str) -> None:
        self.g = g
        self.statuses: dict[int, int] = {}
        self.broken = self.left = self.whole = self.continued = 0
        self.promises: list[str] = []
        self._headers = {"x-api-key": key}
        self._stored: deque[str] = deque(maxlen=50)

    async def client(self, seed: int, until: float) -> None:
        chosen = random.Random(seed)
        while time.monotonic() < until:
            await self.request(chosen)

    async def request(self, chosen: random.Random) -> None:
        path, kind = chosen.choice(PATHS), chosen.random()
        is_streamed = kind < 0.7
        body = self.body(path, chosen.randrange(40), stream=is_streamed)
        is_continued = path == "/v1/responses" and bool(self._stored) and chosen.random() < 0.5
        if is_continued:
            body["previous_response_id"] = chosen.choice(list(self._stored))
        data = b"{no json" if kind > 0.97 else json.dumps(body).encode()
        url = self.g.url + path
        try:
            async with self.g.client.post(url, data=data, headers=self._headers) as response:
                self.statuses[response.status] = self.statuses.get(response.status, 0) + 1
                if kind < 0.15:  # somebody who leaves
                    await response.content.readany()
                    self.left += 1
                    return
                text = await response.text()
                self.whole += 1
        except aiohttp.ClientError:
            self.broken += 1
            return
        if kind <= 0.97:
            self.continued += is_continued and response.status == 200
            self._check(path, is_streamed, response.status, text)

    def _check(self, path: str, is_streamed: bool, status: int, text: str) -> None:
        """What must hold of every answer that has an end."""
        if status not in (200, 502, 503):  # nothing is denied because something is away
            self.promises.append(f"{path}: {status} {text[:300]}")
        elif status == 200 and is_streamed:
            if not any(end in text for end in ENDS[path]):
                self.promises.append(f"{path}: ends without a word: {text[-300:]}")
        elif status == 200 and WORDS not in text:
            self.promises.append(f"{path}: not whole: {text[-300:]}")
        elif status == 200 and path == "/v1/responses":
            self._stored.append(json.loads(text)["id"])

    def body(self, path: str, session: int, stream: bool) -> dict[str, Any]:
        text = f"Session {session}"
        if path == "/v1/responses":
            return {"input": text, "stream": stream}
        said = {"messages": [{"role": "user", "content": text}], "max_tokens": 200}
        more = {"tools": TOOLS} if path == "/v1/chat/completions" else {}
        return {**said, **more, "stream": stream}


class MortalRedis:
    """A Redis that is killed, as by a lack of memory, and comes back with its data."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("redis-server is not installed")
        self.port = free_port()
        self.kills = 0
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        self._command = [program, *where, "--appendonly", "yes", "--appendfsync", "always"]
        self.start()

    def start(self) -> None:
        command = [*self._command, "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    async def live_and_die(self, every: float) -> None:
        """Is away for a quarter of the time."""
        while True:
            await asyncio.sleep(every * 0.75)
            self.kill()
            self.kills += 1
            await asyncio.sleep(every * 0.25)
            self.start()


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


class Counted(list[Any]):
    """What a stand-in was sent, counted and not kept: nothing else here may grow."""

    def append(self, value: Any) -> None:
        super().append(None)


async def engine_on(stack: AsyncExitStack, tokenizer: Tokenizer, port: int) -> VllmServer:
    text = f"Let me think.{THINK_END}" + WORDS * 12 + EOS
    made = VllmServer(tokenizer, text, pause=0.002)
    made.requests, made.headers = Counted(), Counted()
    made.fault = lambda request, number: web.Response(status=503) if number % 50 == 49 else None
    await stack.enter_async_context(made.running(port))
    return made


async def killed_again_and_again(tokenizer: Tokenizer, port: int, every: float) -> int:
    """An engine that dies with its streams and is started again, until this is cancelled."""
    kills = 0
    with suppress(asyncio.CancelledError):
        while True:
            async with AsyncExitStack() as mortal:
                engine = await engine_on(mortal, tokenizer, port)
                await asyncio.sleep(every)
                engine.dies()
                kills += 1
    return kills


@pytest.mark.large
@pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")
def test_nothing_is_broken_or_left_over_after_minutes_of_everything(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    keys = key_file(tmp_path, f"ann:a streams={4 * CLIENTS} day_tokens=1000000000\n")

    async def scenario() -> None:
        ports = [free_port(), free_port()]
        redis = MortalRedis(tmp_path)
        settings: Any = {
            "upstream": tuple(f"http://127.0.0.1:{port}" for port in ports),
            "settings_backend": "vllm",
            "retries": 2,
            "probe_interval": 0.5,
            "api_key_file": str(keys),
            "replay": f"redis://127.0.0.1:{redis.port}",
        }
        async with AsyncExitStack() as stable, gateway(**settings) as g:
            await engine_on(stable, tokenizer, ports[0])
            traffic = Traffic(g, "a")
            before: dict[str, float] = {}
            began, kills = time.monotonic(), 0
            for phase in range(3):
                until = began + SECONDS * (phase + 1) / 3
                every = SECONDS / 30
                engines = asyncio.create_task(killed_again_and_again(tokenizer, ports[1], every))
                storing = asyncio.create_task(redis.live_and_die(every * 1.4))
                clients = [traffic.client(phase * 100 + n, until) for n in range(CLIENTS)]
                await asyncio.gather(*clients)
                storing.cancel()
                engines.cancel()
                kills += await engines
                redis.kill()  # wherever it was in its life
                redis.start()
                await settled(g)
                if not before:  # what grows once, at the start, is there after the first phase
                    before = counted()
            after = counted()
            print(traffic.statuses, f"{kills} engines and {redis.kills} times Redis killed")
            print(f"{traffic.whole} whole, {traffic.broken} broken off, {traffic.left} left")
            print(f"{traffic.continued} continued;", before, after)
            check_promises(g, traffic, before, after)
            usage: list[KeyUsage] = []
            while not usage or sum(usage[-1].streams.values()):  # what was cancelled leaves later
                await asyncio.sleep(0.05)
                await g.server.access.meter.table.change("ann", lambda u, now: usage.append(u))
            assert usage[-1].day_tokens > 0
        redis.kill()

    run(scenario(), seconds=SECONDS + 300)


def check_promises(
    g: Gateway, traffic: Traffic, before: dict[str, float], after: dict[str, float]
) -> None:
    assert not traffic.promises, traffic.promises[:5]
    assert traffic.whole > 10
    assert traffic.left > 0
    assert traffic.continued > 0
    assert set(traffic.statuses) <= {200, 400, 502, 503}
    assert after["files"] <= before["files"] + 4
    assert after["sockets"] <= before["sockets"] + 4
    assert after["tasks"] <= before["tasks"] + 1
    assert after["memory"] <= before["memory"] * 1.15 + 16
    shown = g.server.metrics.registry.get_sample_value("dsv4_memory_bytes") or 0
    assert shown / 2**20 <= before["memory"] * 1.15 + 16


async def settled(g: Gateway) -> None:
    """Comes back when nothing runs any more."""
    while g.server.gate.running or any(e.running for e in g.server.engines.engines):
        await asyncio.sleep(0.05)
    await asyncio.sleep(17)  # idle connections to engines are kept for 15 seconds
    # Connections to a Redis that died are closed when they are next used: there are as many as were
    # ever used at once, and that grows with the traffic of a phase.
    for pool in [each for each in gc.get_objects() if isinstance(each, ConnectionPool)]:
        await pool.disconnect(inuse_connections=False)

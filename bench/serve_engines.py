"""Two engines behind the gateway, one of them killed at half time, or SIGHUP a hundred times:
python bench/serve_engines.py [--hups 100] [--no-kill] (bench/README.md has numbers)

Says what the streams of the other engine notice: how many break, and how long they wait for a
piece before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from typing import Any

import aiohttp

from serve import free_port, running

HERE = Path(__file__)
MODEL = {"data": [{"id": "deepseek-v4", "max_model_len": 65536}]}


async def engine(port: int, tokens: int, per_second: float) -> None:
    """An engine that generates nothing, at a pace."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            await reader.readexactly(length)
            if head.startswith(b"GET"):
                body = json.dumps(MODEL).encode()
                kind = b"application/json\r\ncontent-length: %d" % len(body)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\n\r\n" + body)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            due = time.monotonic()
            for n in range(tokens):
                due += 1 / per_second
                await asyncio.sleep(max(due - time.monotonic(), 0))
                writer.write(_event({"text": f"word {n} ", "finish_reason": None}))
                await writer.drain()
            writer.write(_event({"text": "", "finish_reason": "stop"}) + b"data: [DONE]\n\n")
            await writer.drain()
            writer.close()
            return

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


def _event(choice: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, **choice}]}).encode() + b"\n\n"


class Streams:
    """Clients, each with the times at which something came."""

    def __init__(self, url: str, count: int) -> None:
        self.url = url
        self.times: list[list[float]] = [[] for _ in range(count)]
        self.ends: list[str] = [""] * count

    async def run(self, ramp: float) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            tasks = []
            for n in range(len(self.times)):
                tasks.append(asyncio.create_task(self._read(session, n)))
                await asyncio.sleep(ramp / len(self.times))
            await asyncio.gather(*tasks)

    async def _read(self, session: aiohttp.ClientSession, n: int) -> None:
        body = {"messages": [{"role": "user", "content": f"Session {n}"}], "stream": True}
        last = b""
        try:
            url = f"{self.url}/v1/chat/completions"
            async with session.post(url, json=body, timeout=aiohttp.ClientTimeout()) as response:
                async for piece in response.content.iter_any():
                    self.times[n].append(time.monotonic())
                    last = piece
            self.ends[n] = "whole" if last.endswith(b"[DONE]\n\n") else "cut"
        except aiohttp.ClientError:
            self.ends[n] = "broken with an error" if b'"error"' in last else "broken"


def gaps(times: list[list[float]], begin: float, end: float) -> str:
    """The waits for a piece between two moments."""
    found = [
        1000 * (after - before)
        for each in times
        for before, after in pairwise(each)
        if begin <= after < end
    ]
    if len(found) < 2:
        return "nothing came"
    cut = quantiles(found, n=100)
    return f"p50 {cut[49]:.0f} ms, p99 {cut[98]:.0f} ms, {len(found):,} pieces"


async def measure(options: argparse.Namespace, url: str, doomed: int, gateway: int) -> None:
    streams = Streams(url, options.streams)
    began = time.monotonic()
    task = asyncio.create_task(streams.run(options.ramp))
    half = began + options.ramp + (options.seconds - options.ramp) / 2
    for _ in range(options.hups):
        await asyncio.sleep((options.seconds - options.ramp) / options.hups * 0.9)
        os.kill(gateway, signal.SIGHUP)
    await asyncio.sleep(max(half - time.monotonic(), 0))
    if options.kill:
        os.kill(doomed, signal.SIGKILL)
    await task
    whole = [t for t, end in zip(streams.times, streams.ends, strict=True) if end == "whole"]
    ends = {end: streams.ends.count(end) for end in sorted(set(streams.ends))}
    print(f"{options.streams} streams, {options.per_second:g} pieces a second; {ends}")
    print(f"  the streams that ended, before half time  {gaps(whole, began + options.ramp, half)}")
    print(f"  and after it                              {gaps(whole, half, began + 10_000)}")
    print(f"  from a second after it on                 {gaps(whole, half + 1, began + 10_000)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--per-second", type=float, default=5)
    parser.add_argument("--ramp", type=float, default=10)
    parser.add_argument("--hups", type=int, default=0, help="how often the gateway gets SIGHUP")
    parser.add_argument("--kill", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--engine", type=int, metavar="PORT", help="be an engine")
    options = parser.parse_args()
    tokens = int((options.seconds - options.ramp) * options.per_second)
    if options.engine:
        asyncio.run(engine(options.engine, tokens, options.per_second))
        return
    with ExitStack() as stack:
        common = ["--seconds", str(options.seconds), "--per-second", str(options.per_second)]
        common += ["--ramp", str(options.ramp)]
        engines = []
        for _ in range(2):
            port = free_port()
            command = [sys.executable, str(HERE), "--engine", str(port), *common]
            engines.append(stack.enter_context(running(command, port)))
        port = free_port()
        command = [sys.executable, "-m", "dsv4", "serve", "--port", str(port), "--streams", "2000"]
        command += ["--backend", "completions", "--dialect", "v4", "--log-level", "warning"]
        for each in engines:
            command += ["--upstream", each.url]
        served = stack.enter_context(running(command, port))
        asyncio.run(measure(options, served.url, engines[0].pid, served.pid))


if __name__ == "__main__":
    try:
        main()
    except subprocess.SubprocessError as error:
        sys.exit(str(error))

"""`dsv4 heal` between clients that lose the model's reasoning and an API that asks for it.

    python heal_stack.py PORT KEYS REPLAY [SEAL_KEY]

Clients use PORT. What they send is stripped of all reasoning, as careless clients strip it, and
goes to `dsv4 heal`, which stands before the stand-in of `official_api.py`. With the store `sealed`
the signatures stay, in which turns travel. `GET /__restart` kills heal and starts it again, in the
middle of a client's work; `GET /__seen` tells what came of all of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from official_api import OfficialApi

# Headers that belong to one connection.
_OWN = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}


class Healer:
    """The process of `dsv4 heal`, which can be killed."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    async def start(self) -> None:
        command = [sys.executable, "-m", "dsv4", "heal", "--port", "0", *self._arguments]
        self._process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE
        )
        assert self._process.stderr is not None
        line = (await self._process.stderr.readline()).decode().split()
        self.url = line[-1]
        asyncio.get_running_loop().create_task(_drained(self._process.stderr))
        async with aiohttp.ClientSession() as session:
            for _ in range(300):
                try:
                    async with session.get(f"{self.url}/health"):
                        return
                except aiohttp.ClientError:
                    await asyncio.sleep(0.1)

    async def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()


async def _drained(stream: asyncio.StreamReader) -> None:
    while line := await stream.readline():
        sys.stderr.buffer.write(line)
        sys.stderr.flush()


class Front:
    """What clients speak to: it strips their reasoning, and passes everything on."""

    def __init__(self, healer: Healer, api: OfficialApi, *, keeps_marks: bool) -> None:
        self._healer = healer
        self._api = api
        self._keeps_marks = keeps_marks
        self._restarts = 0
        self._restarting = asyncio.Lock()
        self._failures: list[str] = []
        self._adapted: dict[str, int] = {}

    async def restart(self, request: web.Request) -> web.Response:
        async with self._restarting:
            self._restarts += 1
            await self._healer.stop()
            await self._healer.start()
        return web.Response(text="restarted\n")

    async def seen(self, request: web.Request) -> web.Response:
        found = {
            "requests": len(self._api.seen),
            "restarts": self._restarts,
            "refused": self._api.refused,
            "failures": self._failures,
            "imperfect": len(self._api.imperfect),
            "unknown": self._api.unknown,
            "adapted": self._adapted,
        }
        return web.json_response(found)

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        async with self._restarting:  # what comes meanwhile waits
            pass
        if request.method == "POST" and data:
            data = self._stripped(data)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _OWN}
        url = f"{self._healer.url}{request.path_qs}"
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(request.method, url, data=data, headers=headers) as answer,
        ):
            self._note(request, answer)
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _OWN}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    def _note(self, request: web.Request, answer: aiohttp.ClientResponse) -> None:
        if answer.status >= 400 and answer.status != 404:
            self._failures.append(f"{request.method} {request.path}: {answer.status}")
        for id in filter(None, answer.headers.get("x-dsv4-adapted", "").split(",")):
            self._adapted[id] = self._adapted.get(id, 0) + 1

    def _stripped(self, data: bytes) -> bytes:
        try:
            body = json.loads(data)
        except ValueError:
            return data
        if not isinstance(body, dict):
            return data
        for field in ("messages", "input"):
            if isinstance(body.get(field), list):
                body[field] = [m for m in map(self._without_reasoning, body[field]) if m]
        return json.dumps(body).encode()

    def _without_reasoning(self, message: Any) -> Any:
        """A message, an item or a block without reasoning; None for one that is nothing else."""
        if not isinstance(message, dict):
            return message
        if message.get("type") == "reasoning":
            return {**message, "content": None, "summary": []} if self._keeps_marks else None
        if message.get("type") == "thinking":
            return {**message, "thinking": ""} if self._keeps_marks else None
        if message.get("role") != "assistant":
            return message
        names = ("reasoning_content", "reasoning", "reasoning_details")
        kept = {name: value for name, value in message.items() if name not in names}
        if isinstance(kept.get("content"), list):
            kept["content"] = [b for b in map(self._without_reasoning, kept["content"]) if b]
        return kept


@asynccontextmanager
async def _listening(app: web.Application, port: int = 0) -> AsyncIterator[str]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _store(replay: str) -> AsyncIterator[str]:
    """The store of turns: a Redis of its own, where that is wished for."""
    if replay != "redis":
        yield replay
        return
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        port = any_socket.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        *("redis-server", "--port", str(port), "--save", ""), stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.kill()
        await server.wait()


async def main(port: int, keys: str, replay: str, *seal_key: str) -> None:
    api = OfficialApi()
    async with _listening(api.app()) as upstream, _store(replay) as replay:
        arguments = ["--upstream", upstream, "--api-key-file", keys, "--replay", replay]
        arguments += [f"--seal-key-file={path}" for path in seal_key]
        healer = Healer(arguments)
        await healer.start()
        front = Front(healer, api, keeps_marks=replay == "sealed")
        app = web.Application(client_max_size=2**28)
        app.router.add_get("/__restart", front.restart)
        app.router.add_get("/__seen", front.seen)
        app.router.add_route("*", "/{path:.*}", front.pass_on)
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        try:
            async with _listening(app, port):
                await stopped.wait()
        finally:
            await healer.stop()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))

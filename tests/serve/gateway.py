"""A gateway on a real socket, in the loop of a test."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn

from dsv4 import serve
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.workers.uvicorn_runner import BoundedProtocol

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        },
    }
]


def run(scenario: Coroutine[Any, Any, Any], seconds: float = 60) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, seconds))


@dataclass
class Gateway:
    """A running gateway, and a client of it."""

    url: str
    server: GatewayState
    client: aiohttp.ClientSession
    process: uvicorn.Server

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any, Any]:
        """Status, headers and JSON of an answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(self.url + path, data=data, headers=headers) as response:
            text = await response.text()
            kind = response.content_type
            return response.status, response.headers, json.loads(text) if "json" in kind else text

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.client.get(self.url + path, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if "json" in response.content_type else text

    async def stream(self, path: str, body: Any, **headers: str) -> list[Any]:
        """The data of every event of a streamed answer."""
        _, _, text = await self.post(path, {**body, "stream": True}, **headers)
        return events_of(text)


def events_of(text: str) -> list[Any]:
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


class StoppableServer(uvicorn.Server):
    """A server that stops when it is told to, in the same order as uvicorn's own.

    That one looks every tenth of a second, and rests for as long: hundreds of tests wait for it.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        state = self.server_state
        for server in self.servers:
            server.close()
        for connection in list(state.connections):
            connection.shutdown()
        while state.connections or state.tasks:
            await asyncio.sleep(0.001)
        for server in self.servers:
            await server.wait_closed()
        await self.lifespan.shutdown()


@asynccontextmanager
async def gateway(backend: Any = None, **settings: Any) -> AsyncIterator[Gateway]:
    """A gateway with these settings."""
    given = {"pace": 0.0, "retries": 0, **settings}
    if "settings_backend" in given:
        given["backend"] = given.pop("settings_backend")
    app = serve.app(serve.Settings(**given), backend)
    BoundedProtocol.max_header = app.state.server.settings.max_header
    config = uvicorn.Config(app, http=BoundedProtocol, port=0, log_level="critical", ws="none")
    process = StoppableServer(config)
    process.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    task = asyncio.create_task(process.serve())
    while not process.started:
        await asyncio.sleep(0.01)
    port = process.servers[0].sockets[0].getsockname()[1]
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as client:
        try:
            yield Gateway(f"http://127.0.0.1:{port}", app.state.server, client, process)
        finally:
            process.should_exit = True
            process.stop.set()
            await task


@asynccontextmanager
async def gateway_before(
    server: AbstractAsyncContextManager[str], **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway before a chat server that runs while the gateway does."""
    async with server as url, gateway(settings_backend="chat", upstream=url, **settings) as g:
        yield g


def key_file(folder: Path, lines: str) -> str:
    """A file of keys, for the setting `api_key_file`."""
    path = folder / "keys"
    path.write_text(lines, "utf-8")
    return str(path)

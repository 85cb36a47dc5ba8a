"""A bare pipe, for bench/serve.py: it reads the upstream's bytes and writes them to the client, on
the same loop as the gateway, and does nothing else. What the gateway costs more is what it does.

    python bench/serve_pipe.py PORT UPSTREAM_PORT
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop


class Side(asyncio.Protocol):
    """One end of the pipe: what comes here goes out at the other."""

    def __init__(self, other: Side | None = None) -> None:
        self.other = other
        self.transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.other is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        else:
            self.other.join(self)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: Side(self), "127.0.0.1", int(sys.argv[2]))

    def join(self, other: Side) -> None:
        self.other = other
        for data in self._waiting:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._waiting.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Side, "127.0.0.1", int(sys.argv[1]), backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())

"""A real server for browser tests: uvicorn on a free port of loopback, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from dsv4.serve import Settings, app


@contextmanager
def served(**settings: Any) -> Iterator[str]:
    """The URL of a server with these settings, and the playground."""
    made = app(Settings(**{"playground": True, "pace": 0, **settings}))
    server = uvicorn.Server(uvicorn.Config(made, port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)

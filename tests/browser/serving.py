"""Real servers for browser tests, on a free port of loopback, in a thread: uvicorn, and one that
only sends files.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "npm"


@contextmanager
def served(**settings: Any) -> Iterator[str]:
    """The URL of a server with these settings, and the playground."""
    import uvicorn

    from dsv4.serve import Settings, app

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


def first_is_smoke(values: Iterable[Any]) -> list[Any]:
    """Cases of which `make test` runs the first: the others show the same in another way."""
    first, *others = values
    return [pytest.param(first, marks=pytest.mark.smoke), *others]


# Milliseconds until the page has asked for what somebody typed.
TYPED = 400


@contextmanager
def answered(tab: Any, name: str) -> Iterator[None]:
    """Waits until a function of the page has answered what is done meanwhile: by the server's
    response, or, in a page that answers itself, until it is no longer busy.
    """
    if tab.locator("html").get_attribute("data-python") is None:
        with tab.expect_response(f"**/api/{name}", timeout=120_000):
            yield
        return
    yield
    tab.wait_for_timeout(TYPED)
    tab.wait_for_selector(".loading", state="detached", timeout=120_000)
    tab.wait_for_selector(".view:not([hidden]):not(:has(.waiting)):not(.busy)", timeout=120_000)


def built_playground(target: Path) -> Path:
    """The playground as static files. Skips the test where npm has not installed what they need."""
    if not (PACKAGES / "node_modules" / "pyodide").is_dir():
        pytest.skip("Pyodide was not found: `make site` installs it where there is npm")
    script = str(ROOT / "scripts" / "build_playground.py")
    command = [sys.executable, script, str(target), "--packages", str(PACKAGES)]
    subprocess.run(command, check=True, capture_output=True)
    return target


class QuietFiles(SimpleHTTPRequestHandler):
    """Sends files, and writes no log."""

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def files_served(folder: Path) -> Iterator[str]:
    """The URL of a server that sends the files of a folder, and does nothing else."""
    handler = partial(QuietFiles, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(10)


def settle(tab: Any) -> None:
    """Waits for the prompt of what was typed."""
    # On a phone the other pane may be the one that is seen.
    tab.wait_for_selector(".result:not(.waiting) .rows[aria-busy=false]", state="attached")

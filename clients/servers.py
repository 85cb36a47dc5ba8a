"""The servers that clients are run against, as processes."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from errand import FIRST

HERE = Path(__file__).resolve().parent


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


@contextmanager
def running_server(
    work: Path, port: int, key: str, *flags: str, heal: str | None = None
) -> Iterator[str]:
    """`dsv4 serve` as a user starts it, but for a key: so clients must send theirs. `heal` is the
    store of turns of `dsv4 heal`, if that is to stand between."""
    keys = work / "keys"
    keys.touch(0o600)  # a file that others can read is refused
    keys.write_text(f"admin clients:{key}\n")
    command = [sys.executable, "-m", "dsv4", "serve", "--port", str(port), *flags]
    command += ["--api-key-file", str(keys)]
    if heal is not None:
        command = _healing(work, port, keys, heal)
    with running(command, port, work / "server.log") as url:
        yield url


@contextmanager
def running(command: list[str], port: int, log_file: Path) -> Iterator[str]:
    """A server that listens on a port, and its address."""
    with open(log_file, "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, server, log_file)
            yield url
        finally:
            server.terminate()
            server.wait(90)


def _healing(work: Path, port: int, keys: Path, store: str) -> list[str]:
    """`dsv4 heal` between clients and an API with DeepSeek's rules. Every errand restarts it."""
    os.environ[FIRST] = f"curl -s http://127.0.0.1:{port}/__restart >/dev/null; "
    seal = work / "seal"
    seal.touch(0o600)
    seal.write_text(secrets.token_hex(16))
    replay = f"sqlite:{work / 'turns'}" if store == "sqlite" else store
    given = [str(port), str(keys), replay, *([str(seal)] if store == "sealed" else [])]
    return [sys.executable, str(HERE / "heal_stack.py"), *given]


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1200):
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit(f"the server did not start:\n{log.read_text()[-2000:]}")


def refusals(url: str, key: str, kept: Path) -> list[str]:
    """The lines of a server's metrics that speak of answers other than 200. All are kept."""
    request = urllib.request.Request(f"{url}/metrics", headers={"x-api-key": key})
    with urllib.request.urlopen(request) as response:
        lines = response.read().decode().splitlines()
    kept.write_text("\n".join(lines))
    return [line for line in lines if 'status="5' in line or 'status="4' in line]

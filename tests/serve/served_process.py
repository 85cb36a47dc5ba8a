"""`dsv4 serve` as its users start it: a process, what it says, and requests to it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
PATIENCE = 120.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class ServedProcess:
    """A running server. `lines` is what it has said, without the line that names its address."""

    def __init__(self, process: subprocess.Popen[str], key: str | None) -> None:
        self.process = process
        self.lines: list[str] = []
        self.trusted: ssl.SSLContext | None = None
        self._key = key
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r":(\d+)$", line.strip())
        assert found, line + process.stderr.read()
        self.port = int(found[1])
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def heard(self, words: str, times: int = 1, since: int = 0) -> str:
        """Waits until it has said so many lines with these words, and gives the last of them."""

        def found() -> list[str]:
            return [line for line in self.lines[since:] if words in line]

        until(lambda: len(found()) >= times, lambda: f"{words}: {self.lines[since:]}")
        return found()[times - 1]

    # Requests.

    def connect(self) -> http.client.HTTPConnection:
        if self.trusted is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        address = "127.0.0.1", self.port
        return http.client.HTTPSConnection(*address, timeout=60, context=self.trusted)

    def asked(self, method: str, path: str, body: Any = None, key: str | None = None) -> Answer:
        connection = self.connect()
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, self._headers(key))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        is_json = "json" in headers.get("content-type", "")
        return Answer(response.status, headers, json.loads(text) if is_json else text.decode())

    @contextmanager
    def opened(self, **more: Any) -> Iterator[http.client.HTTPResponse]:
        """A stream, of which the first bytes are here."""
        connection = self.connect()
        body = json.dumps({**CHAT, "stream": True, **more})
        connection.request("POST", "/v1/chat/completions", body, self._headers(None))
        with connection.getresponse() as response:
            assert response.read(5) == b"data:"
            yield response
        connection.close()

    def _headers(self, key: str | None) -> dict[str, str]:
        shown = key or self._key
        return {"x-api-key": shown} if shown else {}

    # Signals and workers.

    def signal(self, name: str) -> int:
        """Sends a signal. Gives the place from which on answers to it are heard."""
        said = len(self.lines)
        self.process.send_signal(getattr(signal, name))
        return said

    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def workers(self) -> list[int]:
        return [pid for pid in self.children() if b"spawn_main" in command_of(pid)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        return b""


def until(holds: Callable[[], Any], problem: Callable[[], str] = str) -> None:
    """Waits until something holds."""
    last = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < last, problem()
        time.sleep(0.02)


@contextmanager
def served(*flags: str, key: str | None = None) -> Iterator[ServedProcess]:
    """A running server, which is killed at the end if it still runs."""
    command = [sys.executable, "-m", "dsv4", "serve", "--port", "0", *flags]
    # Nothing of it, and no worker, has the pipe open when it has ended: so what is read ends too.
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        server = None
        try:
            server = ServedProcess(process, key)
            yield server
        finally:
            process.kill()
            if server is not None:
                server.reader.join(PATIENCE)

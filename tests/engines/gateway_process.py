"""A gateway as users start it: the command `dsv4 serve`, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 120


@dataclass(frozen=True)
class RunningGateway:
    """Its address, and what it printed when it started."""

    url: str
    banner: str


@contextmanager
def running_gateway(*options: str) -> Iterator[RunningGateway]:
    """`dsv4 serve` with these options, on a free port."""
    command = [sys.executable, "-m", "dsv4", "serve", "--port", "0", *options]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=output)
        try:
            yield _started(process, output.fileno())
        finally:
            process.kill()
            process.wait()


def _started(process: subprocess.Popen[bytes], output: int) -> RunningGateway:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        said = os.pread(output, 100_000, 0).decode("utf-8", "replace")
        found = re.search(r"dsv4 serve +(http://\S+)", said)
        if found and "More clients" in said:
            return RunningGateway(found[1], said)
        time.sleep(0.1)
    raise AssertionError(f"the gateway does not start:\n{os.pread(output, 100_000, 0).decode()}")

"""How much memory a process has held at most."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple


class Worker(NamedTuple):
    """A process, and the most bytes it has held at once, as far as the system tells."""

    process: int
    peak: int | None


def this_worker() -> Worker:
    return Worker(os.getpid(), peak_memory())


def peak_memory() -> int | None:
    # Linux's getrusage has what the parent held when it started this process as well.
    try:
        with open("/proc/self/status", "rb") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(b"VmHWM"))
    except (OSError, StopIteration):
        return _resource_peak()


def _resource_peak() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

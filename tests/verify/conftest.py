"""Commands and gateways are run here as in the tests of those; the counts of all servers are made
once, however many processes run tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from dsv4.verify import Hypothesis
from dsv4.verify.kept_counts import cache_folder
from parts import ALL

sys.path += [str(Path(__file__).parent.parent / name) for name in ("cli", "serve")]


@pytest.fixture(scope="session", autouse=True)
def counts_of_all_servers() -> None:
    from stand_ins import FORECASTER, server

    with one_at_a_time(cache_folder()):
        FORECASTER.counts(server("vllm-0.32", "v4", "tools-compact"))


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Whoever comes second finds what the first has made. Without locks each makes its own."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def look_among(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Hypothesis]], None]:
    """Where nothing simple explains what was seen, all pairs of faults of all servers are tried,
    which takes a second. A part tries them on the servers that it is told."""
    explaining = import_module("dsv4.verify.explain")

    def look(servers: Sequence[Hypothesis]) -> None:
        if not ALL:
            monkeypatch.setattr(explaining, "clean_servers", lambda: servers)

    return look

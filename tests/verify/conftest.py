"""Commands and gateways are run here as in the tests of those."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from dsv4.verify import Hypothesis
from parts import ALL

sys.path += [str(Path(__file__).parent.parent / name) for name in ("cli", "serve")]


@pytest.fixture
def look_among(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Hypothesis]], None]:
    """Where nothing simple explains what was seen, all pairs of faults of all servers are tried,
    which takes a second. A part tries them on the servers that it is told."""
    explaining = import_module("dsv4.verify.explain")

    def look(servers: Sequence[Hypothesis]) -> None:
        if not ALL:
            monkeypatch.setattr(explaining, "clean_servers", lambda: servers)

    return look

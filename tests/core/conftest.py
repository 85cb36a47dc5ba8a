"""Which of the core's tests are counted for coverage.

Counting makes the parser ten times as slow on some machines. Tests that read many texts, or one in
every cut, go through lines that others go through; they run without it, and are marked `repeats`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != HERE:
            continue
        repeats = item.get_closest_marker("repeats") or item.get_closest_marker("hypothesis")
        if repeats is None:
            item.add_marker("counted")

"""How many of many cases a run takes: a part, the same every time, or all with DSV4_TESTS=all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

ALL = os.environ.get("DSV4_TESTS") == "all"

_T = TypeVar("_T")


def part(cases: Sequence[_T], of: int) -> Sequence[_T]:
    """One case of so many."""
    return cases if ALL else cases[::of]


# All of many are shared by several processes.
SHARES = 10 if ALL else 1
each_share = pytest.mark.parametrize("share", range(SHARES))


def share_of(cases: Sequence[_T], share: int) -> Sequence[_T]:
    """One of `SHARES` of these."""
    return cases[share::SHARES]


def fewer(count: int, of: int) -> int:
    """So many times fewer examples."""
    return count if ALL else count // of

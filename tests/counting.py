"""Work, counted rather than timed: no other program on the machine can change it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def functions_called(function: Callable[..., Any], *arguments: Any, **options: Any) -> int:
    """How many functions a call calls, those in C included."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function(*arguments, **options)
    finally:
        sys.setprofile(None)
    return calls

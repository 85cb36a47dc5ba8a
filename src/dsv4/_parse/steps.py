"""How readers go on: to yield is to wait for more text, or to ask for an attempt."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

# What is tried: what is assumed in a twin of the reading, which is told its level.
Attempt: TypeAlias = Callable[[Any, int], None]
# Where an attempt is refused, the answer is a place: what stands before it has decided that.
Steps: TypeAlias = Generator["Attempt | None", "int | None", T]

"""How readers go on: to yield is to wait for more text, or to ask for an attempt."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Refusal(NamedTuple):
    """What an attempt comes to that is refused: what stands before `to` has decided it."""

    to: int


class Attempt(NamedTuple):
    """What is tried: what is assumed in a twin of the reading, which is told its level."""

    assume: Callable[[Any, int], None]


Steps: TypeAlias = Generator["Attempt | None", "Refusal | None", T]

"""Base classes of values that are printed and compared by their fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Record:
    """The base of values that may change: `@dataclass(repr=False, eq=False)`."""

    __slots__ = ()

    def __repr__(self) -> str:
        known = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)  # type: ignore[arg-type]
        return f"{self.__class__.__qualname__}({', '.join(known)})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _compared(self) == _compared(other)


class FrozenRecord(Record):
    """The base of values that are frozen: `@dataclass(frozen=True, repr=False, eq=False)`."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(_compared(self))


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, f.name) for f in fields(value) if f.compare)

"""Enumerations whose members are looked up for every character.

Until Python 3.12 `PartialTag.NAME` goes through a descriptor, or through `__getattr__`, and takes
longer than three calls of a function. As an ordinary attribute of its class a member is found at
once.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

E = TypeVar("E", bound=Enum)


def quick_members(enum: type[E]) -> type[E]:
    """A decorator: makes members ordinary attributes, which no enumeration lets anybody assign."""
    for member in enum:
        type.__setattr__(enum, member.name, member)
    return enum

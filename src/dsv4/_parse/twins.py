"""A twin of what changes while a text is read: nothing that can change is shared (rule 46).

Fields are not listed anywhere: a new one is copied because it is there. A twin that shared one with
the reading that asked for it would tell it what was only tried: of two blocks in an indented
quotation the second ran, because the first one's `Quotation` was over in both readings.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from types import MethodType
from typing import Any, TypeVar

T = TypeVar("T")
_NEVER_CHANGES = frozenset({type(None), bool, int, float, str, frozenset})


def twin_of(thing: T, known: dict[int, Any]) -> T:
    """A copy of `thing` and of all that it holds.

    `known` has what stands for some things, by their ids: themselves, if they are shared.
    """
    twin: T = _twins([thing], known)[0]
    return twin


def _twins(things: Iterable[Any], known: dict[int, Any]) -> list[Any]:
    """Twins of many things: most of them never change, so nothing is called for each."""
    return [
        one
        if type(one) in _NEVER_CHANGES
        else known[id(one)]
        if id(one) in known
        else _copy(one, type(one), known)
        for one in things
    ]


def _copy(thing: Any, kind: Any, known: dict[int, Any]) -> Any:
    twin: Any
    if issubclass(kind, tuple):  # one with names too
        twin = known[id(thing)] = tuple.__new__(kind, _twins(thing, known))
    elif kind is list or kind is set:
        twin = known[id(thing)] = kind(_twins(thing, known))
    elif issubclass(kind, dict):  # one with a default too
        twin = known[id(thing)] = thing.copy()
        twin.update(zip(thing, _twins(thing.values(), known), strict=True))
    elif kind is MethodType:
        owner = twin_of(thing.__self__, known)
        twin = known[id(thing)] = MethodType(thing.__func__, owner)
    elif issubclass(kind, Enum):
        twin = thing
    else:
        twin = known[id(thing)] = object.__new__(kind)
        names = (*_slots(kind), *getattr(thing, "__dict__", ()))
        values = _twins([getattr(thing, name) for name in names], known)
        for name, value in zip(names, values, strict=True):
            setattr(twin, name, value)
    return twin


@lru_cache(64)
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(name for one in kind.__mro__ for name in getattr(one, "__slots__", ()))

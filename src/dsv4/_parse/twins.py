"""A twin of what changes while a text is read: nothing that can change is shared (rule 46).

Fields are not listed anywhere: a new one is copied because it is there. A twin that shared one with
the reading that asked for it would tell it what was only tried: of two blocks in an indented
quotation the second ran, because the first one's `Quotation` was over in both readings.
"""

from __future__ import annotations

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
    kind = type(thing)
    if kind in _NEVER_CHANGES or isinstance(thing, Enum):
        return thing
    if id(thing) not in known:
        _copy(thing, kind, known)
    twin: T = known[id(thing)]
    return twin


def _copy(thing: Any, kind: Any, known: dict[int, Any]) -> None:
    if issubclass(kind, tuple):  # one with names too
        known[id(thing)] = tuple.__new__(kind, [twin_of(one, known) for one in thing])
    elif kind is list or kind is set:
        known[id(thing)] = kind(twin_of(one, known) for one in thing)
    elif issubclass(kind, dict):  # one with a default too
        twin = known[id(thing)] = thing.copy()
        twin.update((key, twin_of(one, known)) for key, one in thing.items())
    elif kind is MethodType:
        known[id(thing)] = MethodType(thing.__func__, twin_of(thing.__self__, known))
    else:
        twin = known[id(thing)] = object.__new__(kind)
        for name in (*_slots(kind), *getattr(thing, "__dict__", ())):
            setattr(twin, name, twin_of(getattr(thing, name), known))


@lru_cache(64)
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(name for one in kind.__mro__ for name in getattr(one, "__slots__", ()))

"""Copies of the state that changes while a text is read. A twin shares none of it (rule 46).

Fields are not listed anywhere: a new one is copied because it is there. If a twin shared a field
with the reading that asked for it, that reading would see what was only tried: of two blocks in an
indented quotation the second ran, because the first one's `Quotation` was over in both readings.
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

    `known` maps the ids of some things to their copies: to themselves, if they are shared.
    """
    kind = type(thing)
    if kind in _NEVER_CHANGES:
        return thing
    twin: T | None = known.get(id(thing))
    return _copy(thing, kind, known) if twin is None else twin


def _copy(thing: Any, kind: Any, known: dict[int, Any]) -> Any:
    twin: Any
    if issubclass(kind, tuple):  # one with names too
        twin = tuple.__new__(kind, [twin_of(one, known) for one in thing])
    elif kind is list or kind is set:
        twin = kind([twin_of(one, known) for one in thing]) if thing else kind()
    elif issubclass(kind, dict):  # one with a default too
        twin = thing.copy()
        for key, one in thing.items():
            twin[key] = twin_of(one, known)
    elif kind is MethodType:
        twin = MethodType(thing.__func__, twin_of(thing.__self__, known))
    elif issubclass(kind, Enum):
        twin = thing
    else:
        twin = known[id(thing)] = object.__new__(kind)
        for name in (*_slots(kind), *getattr(thing, "__dict__", ())):
            one = getattr(thing, name)
            # Most fields are of such a kind, and nothing is called for each of them.
            setattr(twin, name, one if type(one) in _NEVER_CHANGES else twin_of(one, known))
    known[id(thing)] = twin
    return twin


@lru_cache(64)
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(name for one in kind.__mro__ for name in getattr(one, "__slots__", ()))

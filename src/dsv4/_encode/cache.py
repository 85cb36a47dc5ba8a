"""A bounded cache of the texts written for tools and arguments.

Agents and servers send the same tools and calls again with every request.
"""

from __future__ import annotations

from _thread import allocate_lock  # `threading` takes a while to import, for the same lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from dsv4.errors import OptionError, short_repr

_V = TypeVar("_V", bound=str)

# A text of the prompt takes two bytes a character, or four where one is beyond U+FFFF: so this is
# 32 MiB for most, and 64 MiB at worst.
DEFAULT_CACHE_CHARACTERS = 16_777_216
# What a text costs besides its characters, in characters: or strings of nothing would be free.
_OVERHEAD = 256


class CacheSegment(Generic[_V]):
    """Texts by what they were written for.

    `young` may be asked directly, which saves a call; `recall` looks further.
    """

    __slots__ = ("__weakref__", "_memory", "old", "young")

    def __init__(self, memory: TextCache) -> None:
        self._memory = memory
        self.young: dict[str | bytes, _V] = {}
        self.old: dict[str | bytes, _V] = {}

    def recall(self, key: str | bytes) -> _V | None:
        found = self.young.get(key)
        if found is None:
            found = self.old.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: str | bytes, text: _V) -> None:
        if self._memory.make_room(len(key) + len(text) + _OVERHEAD):
            self.young[key] = text


class TextCache:
    """Shelves of texts, bounded by characters in all.

    There are two generations. When the young ones fill half of the memory, they become the old
    ones, and what was old is forgotten; an old text that is asked for is young again. So a text
    that is in use stays, and to find one costs no more than a look into a dict.
    """

    def __init__(self, characters: int) -> None:
        self._half = characters // 2
        self._held = 0
        self._shelves: WeakSet[CacheSegment[Any]] = WeakSet()
        self._lock = allocate_lock()

    def shelf(self) -> CacheSegment[Any]:
        shelf: CacheSegment[Any] = CacheSegment(self)
        with self._lock:
            self._shelves.add(shelf)
        return shelf

    def make_room(self, size: int) -> bool:
        """Whether a text of this size may be kept; if so, it is counted."""
        if size > self._half:
            return False
        with self._lock:
            if self._held + size > self._half:
                self._turn()
            self._held += size
        return True

    def resize(self, characters: int) -> None:
        """Another bound. Everything is forgotten."""
        with self._lock:
            self._half = characters // 2
            self._turn()
            self._turn()

    def _turn(self) -> None:
        for shelf in self._shelves:
            shelf.old, shelf.young = shelf.young, {}
        self._held = 0


TEXT_CACHE = TextCache(DEFAULT_CACHE_CHARACTERS)


def set_cache_size(characters: int) -> None:
    """Bounds what encoding remembers of tools and arguments, in all, and forgets what it holds.

    `characters` counts the texts that are kept, what they were written for, and a little for each;
    0 switches remembering off. The default is 16,777,216. Prompts are the same with any size.
    Raises an `OptionError` for anything but a whole number that is not negative.
    """
    if characters.__class__ is not int or characters < 0:
        problem = f"found {short_repr(characters)}, expected a whole number, 0 or more"
        raise OptionError("characters", problem)
    TEXT_CACHE.resize(characters)

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
    """Texts of one kind, by what they were written for.

    `get` looks in both generations. `recent` may be asked directly, which saves a call.
    """

    __slots__ = ("__weakref__", "_cache", "older", "recent")

    def __init__(self, cache: TextCache) -> None:
        self._cache = cache
        self.recent: dict[str | bytes, _V] = {}
        self.older: dict[str | bytes, _V] = {}

    def get(self, key: str | bytes) -> _V | None:
        found = self.recent.get(key)
        if found is None:
            found = self.older.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: str | bytes, text: _V) -> None:
        if self._cache.reserve(len(key) + len(text) + _OVERHEAD):
            self.recent[key] = text


class TextCache:
    """Segments of texts, bounded by the number of characters in all of them.

    There are two generations. When the recent texts fill half of the cache, they become the older
    ones, and what was older is dropped; an older text that is asked for becomes recent again. So
    texts in use stay, and a lookup costs no more than a look into a dict.
    """

    def __init__(self, characters: int) -> None:
        self._half = characters // 2
        self._used = 0
        self._segments: WeakSet[CacheSegment[Any]] = WeakSet()
        self._lock = allocate_lock()

    def segment(self) -> CacheSegment[Any]:
        """A new segment, which lives as long as its owner."""
        segment: CacheSegment[Any] = CacheSegment(self)
        with self._lock:
            self._segments.add(segment)
        return segment

    def reserve(self, size: int) -> bool:
        """Whether a text of this size may be stored; if so, it is counted."""
        if size > self._half:
            return False
        with self._lock:
            if self._used + size > self._half:
                self._rotate()
            self._used += size
        return True

    def resize(self, characters: int) -> None:
        """Sets another bound, and empties the cache."""
        with self._lock:
            self._half = characters // 2
            self._rotate()
            self._rotate()

    def _rotate(self) -> None:
        for segment in self._segments:
            segment.older, segment.recent = segment.recent, {}
        self._used = 0


TEXT_CACHE = TextCache(DEFAULT_CACHE_CHARACTERS)


def set_cache_size(characters: int) -> None:
    """Bounds the cache of the texts of tools and arguments, and empties it.

    `characters` counts the cached texts, what they were written for, and a little for each; 0
    switches the cache off. The default is 16,777,216. Prompts are the same with any size.
    Raises an `OptionError` for anything but a whole number that is not negative.
    """
    if characters.__class__ is not int or characters < 0:
        problem = f"found {short_repr(characters)}, expected a whole number, 0 or more"
        raise OptionError("characters", problem)
    TEXT_CACHE.resize(characters)

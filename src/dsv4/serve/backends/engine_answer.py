"""What an engine says of itself, asked once for each time that it was started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class EngineAnswer(Generic[T]):
    """The answer to one question. It is asked again when the engine may have been restarted."""

    def __init__(self, ask: Callable[[], Awaitable[T]], starts: Callable[[], int]) -> None:
        """`starts` gives another number when the engine may be another process than before."""
        self._ask = ask
        self._starts = starts
        self._known: tuple[int, T] | None = None
        self._lock = asyncio.Lock()

    @property
    def is_known(self) -> bool:
        return self._known is not None

    @property
    def last(self) -> T | None:
        """The answer that was given last; None before."""
        return None if self._known is None else self._known[1]

    async def get(self) -> T:
        """The answer. Raises what asking raises."""
        async with self._lock:  # requests that come meanwhile wait for one answer
            known = self._known
            if known is None or known[0] != self._starts():
                self._known = None
                answer = await self._ask()
                known = self._known = (self._starts(), answer)
            return known[1]

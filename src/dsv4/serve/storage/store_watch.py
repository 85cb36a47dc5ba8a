"""Whether something on another machine or disk is there. Each change is logged once."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dsv4.serve.storage.stored_turns import StoreFailure

# What has failed is not asked again for so long: an outage must not cost every request the time
# that it takes to notice one.
RETRY_SECONDS = 1.0

T = TypeVar("T")
_log = logging.getLogger("dsv4.serve")


class StoreWatch:
    """Asks a store, and knows whether it is there.

    `name` is what it is called in the log, with `meanwhile` behind it while it is away. `changed`
    is called with whether it is there, each time that it was asked.
    """

    def __init__(
        self,
        name: str,
        changed: Callable[[bool], None] = lambda is_up: None,
        meanwhile: str = "",
    ) -> None:
        self.name = name
        self._changed = changed
        self._meanwhile = meanwhile
        self._failure: StoreFailure | None = None
        self._retry_at = 0.0

    @property
    def failure(self) -> str | None:
        """Why it is away; None where it is there."""
        return None if self._failure is None else str(self._failure)

    async def asked(self, work: Callable[[], Awaitable[T]]) -> T:
        """What it answers. Raises a `StoreFailure` where it does not."""
        if self._failure is not None and time.monotonic() < self._retry_at:
            raise StoreFailure(str(self._failure))
        try:
            result = await work()
        except StoreFailure as failure:
            self._note(failure)
            raise
        self._note(None)
        return result

    def _note(self, failure: StoreFailure | None) -> None:
        before, self._failure = self._failure, failure
        self._changed(failure is None)
        if failure is not None:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            if before is None:
                _log.warning("%s cannot be used: %s%s", self.name, failure, self._meanwhile)
        elif before is not None:
            _log.warning("%s can be used again", self.name)

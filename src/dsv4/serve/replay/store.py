"""Where turns are kept: under an owner, by any of their names, oldest out first.

An owner is the name of an API key. A store never gives one owner what another has put there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Store(Protocol):
    """A bounded memory of values that have several names each."""

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        """Keeps a value. The first name is its own; the others lead to it too."""

    async def get(self, owner: str, name: str) -> bytes | None:
        """The value that was last put under a name. None if there is none, or no longer."""

    async def delete(self, owner: str, name: str) -> bool:
        """Forgets a value. Says whether it was there."""

    async def aclose(self) -> None:
        """Frees what the store holds."""

"""Ids of calls."""

from __future__ import annotations

import random
from string import ascii_letters, digits

_LETTERS = ascii_letters + digits
_LENGTH = 24
# Of its own, so that a program that seeds `random` does not get the same ids again.
_random = random.SystemRandom()


def random_id() -> str:
    """A new id: `call_` and 24 random letters and digits."""
    return "call_" + "".join(_random.choices(_LETTERS, k=_LENGTH))

"""Random ids of calls, and of other things that must be told apart."""

from __future__ import annotations

import os

# A byte picks a letter or digit. Some are picked by five bytes and some by four, which takes a
# tenth of a bit off each of them.
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_PICKED = (_LETTERS * 5)[:256]
_LENGTH = 24


def new_id(prefix: str) -> str:
    """The prefix, and 24 random letters and digits."""
    return prefix + os.urandom(_LENGTH).translate(_PICKED).decode("ascii")


def new_call_id() -> str:
    """A new id of a call."""
    return new_id("call_")

"""Patterns that are compiled when they are first used: compiling those of the parser takes longer
than importing it, and many programs that import dsv4 never parse.
"""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "split", "sub", "subn")


class _Pattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self._source = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        # As attributes of the object they are found directly from now on.
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return self.__dict__[name] if name in _METHODS else getattr(compiled, name)


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, but at the first use, where a mistake in `text` raises its error."""
    return cast("re.Pattern[str]", _Pattern(text, flags))

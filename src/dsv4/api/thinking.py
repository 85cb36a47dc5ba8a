"""Whether a model thinks, and how hard: the names that requests use, and what a dialect has."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dsv4._format.dialects import Dialect
from dsv4.api.errors import ApiError, wrong

# Every name of an effort that clients send, as the format's own three. "none" is no thinking.
EFFORTS = {
    **{"minimal": "low", "low": "low"},
    **{"medium": "high", "high": "high", "xhigh": "high"},
    **{"max": "max", "ultra": "max"},
}
OFF = "none"

SWITCH = {"enabled": True, "adaptive": True, "disabled": False}


def effort(value: Any, path: str) -> str | int:
    """A field that holds an effort: a name, or a whole number."""
    if isinstance(value, str) and (value in EFFORTS or value == OFF):
        return str.__str__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    names = ", ".join(f'"{name}"' for name in (OFF, *EFFORTS))
    raise wrong(value, f"one of {names}, or a whole number", path)


def switch(value: Any, path: str) -> bool | None:
    """The `thinking` object of a request: on, off, or nothing said."""
    if not isinstance(value, dict):
        raise wrong(value, 'an object such as {"type": "enabled"}', path)
    kind = value.get("type")
    if kind is None:
        return None
    if not isinstance(kind, str) or kind not in SWITCH:
        names = ", ".join(f'"{name}"' for name in SWITCH)
        raise wrong(kind, f"one of {names}", f"{path}.type")
    return SWITCH[kind]


@lru_cache
def dialect_effort(asked: str | int | None, dialect: Dialect, path: str) -> str | int | None:
    """The effort as the dialect names it, None where it has no such text."""
    efforts = dialect.efforts
    if isinstance(asked, int):
        numbers = [known for known in efforts if isinstance(known, int)]
        if asked in numbers:
            return asked
        expected = f"{min(numbers)} to {max(numbers)}" if numbers else "a name: it has no numbers"
        message = f"found {asked}, expected for the dialect {dialect.name}: {expected}"
        raise ApiError(message, path=path)
    name = EFFORTS.get(asked, asked) if asked is not None else None
    return name if name in efforts else None

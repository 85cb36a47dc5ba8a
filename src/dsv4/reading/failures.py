"""Why something cannot be read, in one line for the person who handed it in."""

from __future__ import annotations

import re

from dsv4.errors import Error


class InputError(Error):
    """A file that cannot be opened, bytes that are no text, text that is no JSON, or JSON that is
    no conversation. Its text names the place, as far as one is known."""


def location_of(error: Error) -> tuple[str | int, ...]:
    """The place in the caller's data that an error names: empty if it names none."""
    location: tuple[str | int, ...] | None = getattr(error, "location", None)
    return _parsed(getattr(error, "path", "")) if location is None else location


def _parsed(path: str) -> tuple[str | int, ...]:
    parts = re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)
    return tuple(int(index) if index else name for index, name in parts)


def reason(error: OSError) -> str:
    """The system's words for what went wrong, without number and path."""
    return (error.strerror or str(error) or type(error).__name__).lower()

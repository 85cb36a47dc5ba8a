"""Why something cannot be read, in one line for the person who handed it in."""

from __future__ import annotations

from dsv4.errors import Error, Location


class InputError(Error):
    """A file that cannot be opened, bytes that are no text, text that is no JSON, or JSON that is
    no conversation. Its text names the place, as far as one is known."""


def location_of(error: Error) -> Location:
    """The place in the caller's data that an error names: empty if it names none."""
    location: Location = getattr(error, "location", ())
    return location


def reason(error: OSError) -> str:
    """The system's words for what went wrong, without number and path."""
    return (error.strerror or str(error) or type(error).__name__).lower()

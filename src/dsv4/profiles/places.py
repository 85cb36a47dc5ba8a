"""Places in a request, as the steps that lead to them."""

from __future__ import annotations

import re

from dsv4.errors import EncodeError
from dsv4.profiles.asked import Location

_STEP = re.compile(r"\[(\d+)\]|([^.\[]+)")


def location_of(error: EncodeError) -> Location:
    """Where an error says that something is wrong: ("messages", 3, "content")."""
    return tuple(
        int(step[1]) if step[1] is not None else step[2] for step in _STEP.finditer(error.path)
    )

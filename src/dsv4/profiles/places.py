"""What a server says no to, and where it stands in the request."""

from __future__ import annotations

import re

from dsv4.errors import EncodeError

_STEP = re.compile(r"\[(\d+)\]|([^.\[]+)")


def refused(path: str, problem: str) -> EncodeError:
    """The error of a server that refuses a request: where, as people write it, and why."""
    steps = _STEP.finditer(path)
    location = (int(step[1]) if step[1] is not None else step[2] for step in steps)
    return EncodeError(tuple(location), problem)

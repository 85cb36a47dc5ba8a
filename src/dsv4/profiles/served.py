"""The dialects as servers write them, which is not always as they were released.

This is the one place where the encoder's own dialects are changed for a server.
"""

from __future__ import annotations

from dataclasses import replace

from dsv4._format.dialects import ROLES, V4_0731, V4_1, Dialect
from dsv4.errors import short_repr
from dsv4.profiles.places import refused

# vLLM and SGLang serve V4.1 with a copy of the encoder from before namespaces, which keeps the
# developer role and does not look for the image placeholder in texts.
V4_1_COPY = replace(
    V4_1,
    roles=ROLES,
    image_text_refused=False,
    arguments="text",
    namespaces=False,
)

# Every server writes the revised effort texts on V4.
SERVED: dict[str, Dialect] = {"v4": V4_0731, "v4.1": V4_1_COPY}


def served(name: str) -> Dialect:
    """The dialect that servers write for `name`, which is "v4" or "v4.1"."""
    found = SERVED.get(name) if isinstance(name, str) else None
    if found is None:
        raise refused("dialect", f"found {short_repr(name)}, expected one of {', '.join(SERVED)}")
    return found

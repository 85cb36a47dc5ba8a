"""The marks that come back with a turn."""

from __future__ import annotations

import base64
import binascii

# What a mark holds is text that anyone may read and write: it is never trusted with more.
MARK = "dsv4.1."


def mark(text: str) -> str:
    """A text as clients give it back unchanged: a version, and the text in base64url."""
    data = text.encode("utf-8", "replace")
    return MARK + base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def maybe_marked(value: str) -> str | None:
    """The text in such a mark, None if it is none of ours."""
    if not value.startswith(MARK):
        return None
    data = value[len(MARK) :]
    try:
        decoded = base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_", validate=True)
        return decoded.decode("utf-8")
    except (binascii.Error, ValueError):
        return None

"""The marks that come back with a turn."""

from __future__ import annotations

import base64
import binascii

# What a mark holds is text that anyone may read and write: it is never trusted with more.
# The first names a turn that is kept, and is never shown to a model. In the histories of clients
# it stands in place of reasoning, too. The second holds the reasoning itself.
ID_MARK = "dsv4.1."
TEXT_MARK = "dsv4.2."


def mark_id(id: str) -> str:
    """The id of a turn, as clients give it back unchanged: a version, and the id in base64url."""
    return ID_MARK + _packed(id)


def mark_text(text: str) -> str:
    """Reasoning, as clients give it back unchanged: another version, and the text in base64url."""
    return TEXT_MARK + _packed(text)


def marked_id(mark: str) -> str | None:
    """The id in a mark of ours, None if the mark holds none."""
    return _unpacked(mark, ID_MARK)


def marked_text(mark: str) -> str | None:
    """The reasoning in a mark of ours, None if the mark holds none."""
    return _unpacked(mark, TEXT_MARK)


def _packed(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _unpacked(mark: str, version: str) -> str | None:
    if not mark.startswith(version):
        return None
    data = mark[len(version) :]
    try:
        decoded = base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_", validate=True)
        return decoded.decode("utf-8")
    except (binascii.Error, ValueError):
        return None

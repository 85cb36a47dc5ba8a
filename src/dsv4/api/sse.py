"""Protocol events as server-sent events: bytes that any client reads."""

from __future__ import annotations

import json
import json.encoder
import re
from collections.abc import Callable
from typing import Any

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
# JSON may hold these as they are, and the standard for events gives them no meaning. But there are
# readers that end a line at them, because Python's own `splitlines` does.
_LINE_ENDS = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
# A text of ASCII alone as JSON.
quoted_ascii: Callable[[str], str] = json.encoder.encode_basestring


def is_safe(text: str) -> bool:
    """Whether a text certainly holds none of those: they are not printable, as Unicode has it."""
    return text.isascii() or text.isprintable()


def quoted(text: str) -> str:
    """A text as JSON, without line ends of any kind, and as UTF-8 can write it."""
    return quoted_ascii(text) if is_safe(text) else _safe(quoted_ascii(text))


def to_json(value: Any) -> str:
    """A value as JSON on one line, in as few characters as possible."""
    text = _encoder.encode(value)
    return text if is_safe(text) else _safe(text)


def _safe(text: str) -> str:
    return _LINE_ENDS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return "\ufffd" if character >= "\ud800" else f"\\u{ord(character):04x}"


def named(event: dict[str, Any]) -> bytes:
    """A frame of `event` with its type as the name, as the newer protocols have them."""
    return f"event: {event['type']}\ndata: {to_json(event)}\n\n".encode()


def unnamed(event: dict[str, Any]) -> bytes:
    """A frame of `event` without a name."""
    return f"data: {to_json(event)}\n\n".encode()


KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

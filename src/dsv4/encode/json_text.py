"""JSON as the format writes it (SPEC.md section 2)."""

from __future__ import annotations

import json
from typing import Any

from dsv4.errors import EncodeError, shown

# One encoder for all: `json.dumps` with options makes a new one at each call.
to_json = json.JSONEncoder(ensure_ascii=False).encode


def json_at(value: Any, path: str) -> str:
    """A caller's value as JSON, or an error that says where it stands."""
    try:
        return to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(path, f"{shown(value)} cannot be written as JSON: {error}") from None

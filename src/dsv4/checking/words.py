"""Values as a finding quotes them: in JSON, which is what the person has before them."""

from __future__ import annotations

import json

LONGEST = 60


def quoted(value: object) -> str:
    """A value as JSON, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

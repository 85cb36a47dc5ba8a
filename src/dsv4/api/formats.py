"""The form that an answer must have."""

from __future__ import annotations

from typing import Any

from dsv4.api import fields
from dsv4.api.asked import Format
from dsv4.api.tools import schema_at


def read_schema(holder: dict[str, Any], path: str) -> Format:
    """The schema of an answer, with its name."""
    strict = holder.get("strict")
    return Format(
        schema_at(holder.get("schema"), f"{path}.schema"),
        fields.maybe_text_at(holder, "name", path),
        strict if isinstance(strict, bool) else None,
    )

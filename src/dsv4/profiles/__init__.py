"""Stands in for the room of profiles until it is built: no server has any traps."""

from __future__ import annotations

from typing import Any


def traps(body: Any, name: str, *, dialect: str = "v4") -> list[Any]:
    return []

"""The entries of session files: JSON objects, in which any field may be missing or of another type;
and the trees of entries that name the entry before them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

Entry: TypeAlias = Mapping[str, Any]


def json_object(data: str | bytes) -> Entry | None:
    with suppress(ValueError, TypeError, RecursionError):
        value = json.loads(data)
        if isinstance(value, dict):
            return value
    return None


def dict_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def objects_of(value: object) -> list[dict[str, Any]]:
    return [item for item in list_of(value) if isinstance(item, dict)]


class EntryTree:
    """Entries with their parents, of which some carry a message."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._messages: dict[str, list[Entry]] = {}

    def add(self, key: str, parent: str | None, *messages: Entry) -> None:
        """Adds an entry. If it exists already, the messages are added to its own."""
        if key not in self._parents:
            self._parents[key] = parent
        if messages:
            self._messages.setdefault(key, []).extend(messages)

    def paths(self) -> Iterator[tuple[str, list[Entry]]]:
        """Each leaf, with the messages from the root to it."""
        continued = {self._above(key) for key in self._messages}
        for leaf in self._messages:
            if leaf in continued:
                continue
            path: list[list[Entry]] = []
            at: str | None = leaf
            while at is not None:
                path.append(self._messages[at])
                at = self._above(at)
            yield leaf, [message for messages in reversed(path) for message in messages]

    def _above(self, key: str) -> str | None:
        """The nearest entry above one that carries a message. None at the top, and in a circle."""
        seen = {key}
        above = self._parents.get(key)
        while above is not None and above not in self._messages:
            if above in seen:
                return None
            seen.add(above)
            above = self._parents.get(above)
        return None if above in seen else above

"""What is kept of a completion while it runs: its events, in little room."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dsv4._parse.events import ArgumentsDelta, ContentDelta, Event, ReasoningDelta

# A short piece takes twenty times the memory of its letters: pieces are joined when this many wait.
_LOOSE = 32


class KeptEvents:
    """The events of a completion, pieces of one text joined."""

    def __init__(self, joins: bool = True) -> None:
        """Without `joins` every event stays itself."""
        self.joins = joins
        self._joined: list[Event] = []
        self._loose: list[Event] = []

    def add(self, events: list[Event]) -> None:
        self._loose += events
        if self.joins and len(self._loose) >= _LOOSE:
            self._join()

    def _join(self) -> None:
        self._joined += joined(self._loose) if self.joins else self._loose
        self._loose = []

    def all(self) -> list[Event]:
        """Every event so far."""
        self._join()
        return self._joined


def joined(events: Iterable[Event]) -> list[Event]:
    """The events, with pieces of one text that stand in a row as one piece."""
    made: list[Event] = []
    for (kind, index), run in groupby(events, _text_of):
        if kind is ArgumentsDelta:
            made.append(ArgumentsDelta(index, _text(run)))
        elif kind is ContentDelta or kind is ReasoningDelta:
            made.append(kind(_text(run)))
        else:
            made += run
    return made


def _text_of(event: Event) -> tuple[type, int]:
    """What a piece of text is more of."""
    kind = event.__class__
    return kind, event.index if isinstance(event, ArgumentsDelta) else 0


def _text(pieces: Iterable[Any]) -> str:
    return "".join(piece.text for piece in pieces)

"""What a parser does with each piece: what traces are held against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import dsv4


def stepped(pieces: list[str], reason: Any = None, **options: Any) -> Iterator[Any]:
    """What a parser does with each piece: its state, what it holds and why, and the events."""
    ids = (f"call_{n}" for n in count())
    parser = dsv4.StreamParser(**options, new_id=ids.__next__)
    for piece in pieces:
        events = parser.feed(piece)
        yield parser.state.name, parser.held, parser.held_by, events
    yield None, "", None, parser.finish(reason)

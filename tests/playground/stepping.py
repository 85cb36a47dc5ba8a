"""What a parser and the writers do with each piece: what traces are held against."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import dsv4
from dsv4.api import ApiRequest, chat, messages, responses
from dsv4.api import Settings as ApiSettings
from dsv4.request import Request

PROTOCOLS = {"chat": chat, "responses": responses, "messages": messages}


def stepped(pieces: list[str], reason: Any = None, **options: Any) -> Iterator[Any]:
    """What a parser does with each piece: its state, what it holds and why, and the events."""
    ids = (f"call_{n}" for n in count())
    parser = dsv4.StreamParser(**options, new_id=ids.__next__)
    for piece in pieces:
        events = parser.feed(piece)
        yield parser.state.name, parser.held, parser.held_by, events
    yield None, "", None, parser.finish(reason)


def sent(
    protocol: str, events: list[tuple[int, Any]], body: dict[str, Any], last: int
) -> list[tuple[int, Any]]:
    """The frames of events, each written by itself."""
    settings = ApiSettings(calls=body.get("calls", "streamed"))
    request = Request([{"role": "user", "content": ""}])
    call = ApiRequest(request, protocol, "deepseek-v4", 1, stream=True, settings=settings)  # type: ignore[arg-type]
    made = PROTOCOLS[protocol].Writer
    writer = made(call, id=f"{made.id_prefix}playground", created=0)
    written = [(0, frame) for frame in writer.start()]
    for step, event in events:
        written += ((step, frame) for frame in writer.write(event))
    written += ((last, frame) for frame in writer.finish(reason=body.get("reason")))
    return [(step, frame) for step, frame in json.loads(json.dumps(written))]

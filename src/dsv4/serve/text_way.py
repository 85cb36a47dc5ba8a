"""The short way of a text: from its engine to its client in one function, where an answer stands in
a text and nothing begins in the next piece of it.

Nearly all pieces take it. It saves what the general way makes for each: the piece, the events of
it, their lists, and the layers that look at them. What it cannot take goes the general way, which
also begins and ends each text.
"""

from __future__ import annotations

from collections.abc import Awaitable

from dsv4.api.event_writer import EventWriter
from dsv4.serve.asgi import EventStream, StreamTimer
from dsv4.serve.choice_reader import ChoiceReader


class TextWay:
    """The short way of one choice. Called with a text, as `TakeText` says."""

    __slots__ = ("_choice", "_pass_by", "_stream", "_timer", "_writer")

    def __init__(
        self,
        reader: ChoiceReader,
        choice: int,
        writer: EventWriter,
        stream: EventStream,
        timer: StreamTimer,
    ) -> None:
        self._pass_by = reader.pass_by
        self._choice = choice
        self._writer = writer
        self._stream = stream
        self._timer = timer

    def __call__(self, text: str, id: bytes, field: str) -> Awaitable[None] | bool:
        writer = self._writer
        kind = writer.template_event
        if kind is None or writer.template_choice != self._choice:
            return False
        shown = self._pass_by(text, id, field, kind)
        if shown is None:
            return False
        waiting = self._stream.push(writer.text_frame(shown)) if shown else None
        if waiting is not None or not shown:
            self._timer.heard()
            return waiting or True
        self._timer.heard_at = self._timer.sent_at  # it was heard and sent at one moment
        return True

"""The short way of a text: from its engine to its client in one function. It is for pieces within a
text of an answer, in which nothing else begins.

Nearly all pieces take it. It saves the objects that the general way makes for each: the piece, its
events, their lists, and the layers that process them. All other pieces take the general way, which
also begins and ends each text.
"""

from __future__ import annotations

from collections.abc import Awaitable

from dsv4.api.event_writer import EventWriter
from dsv4.serve.asgi import EventStream, StreamTimer
from dsv4.serve.backend import PlainText
from dsv4.serve.choice_reader import ChoiceReader


class TextWay:
    """The short way of one choice."""

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

    def take(self, piece: PlainText, field: str) -> Awaitable[None] | bool:
        """Takes a text, as `TakeText` says."""
        writer = self._writer
        kind = writer.template_event
        if kind is None or writer.template_choice != self._choice:
            return False
        text, written, id = piece
        shown = self._pass_by(text, id, field, kind)
        if not shown:
            self._timer.heard()
            return shown is not None
        # If the shown text is the original object, its JSON is known already.
        data = writer.text_frame(shown, written if shown is text else b"")
        stream, timer = self._stream, self._timer
        if not (stream.is_free and stream.write_now(data)):
            timer.heard()
            return stream.queued(data)
        timer.heard_at = timer.sent_at = timer.now()
        return True

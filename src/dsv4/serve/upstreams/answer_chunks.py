"""The pieces of one answer: read from its bytes as they come, and passed on within the same turn of
the event loop where nothing has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from dsv4._completion.reasons import Ended, ended_by
from dsv4._format.tokens import EOS
from dsv4.api.request_fields import JsonObject
from dsv4.errors import short_repr
from dsv4.serve.backend import (
    BackendError,
    Chunk,
    Chunks,
    PlainText,
    TakeChunks,
    TakeText,
    takes_no_text,
)
from dsv4.serve.heal.chat_delta import (
    KNOWN_FIELDS,
    NO_PART,
    LastMessage,
    looks_like_calls,
    with_known_names,
)
from dsv4.serve.upstreams.answer_reader import AnswerReader, parse_event
from dsv4.serve.upstreams.http_client import HttpConnection, HttpError, InflatedBody, body_of
from dsv4.serve.upstreams.usual_events import EventForm, event_form

# The error for an answer without a finish reason, by whether its stream has an end.
_CUT = {
    False: "the backend broke off: its stream has no end",
    True: "the backend ended its stream without a finish reason",
}
# The seconds that a server has to go on after a finish reason: a count of tokens and the end may
# follow. Some servers never send that end.
_GRACE = 2.0
# Reading an event of this many bytes takes longer than other streams should wait: milliseconds.
LARGE_EVENT = 1024 * 1024
# More events than an answer has.
_NEVER = 2**60
# Reads an event: one piece of the completion, or several.
ReadEvent: TypeAlias = Callable[[JsonObject], Chunk | list[Chunk]]
OpenAnswer: TypeAlias = Callable[[], AbstractAsyncContextManager[HttpConnection]]


class ChunkReader:
    """Turns the bytes of one answer into pieces of the completion, and checks that the answer is
    whole."""

    def __init__(
        self, read_event: ReadEvent, key: str | None = None, *, by_form: bool = False
    ) -> None:
        """`key` is the gateway's own, which is never shown. `by_form` says that `read_event` reads
        events that differ only in their text alike."""
        self._answer = AnswerReader(key)
        self._read_event = read_event
        self._last: Chunk | None = None
        self.has_reason = False
        self._is_cut = False  # according to its finish reason
        # True until there is a sign of the end, or of an event that must be read in a thread.
        self.takes_more = True
        self._goes_on = False  # after a reason: then only the stream's end counts
        # The form of the last events; and the same form while it can be used.
        self._form: EventForm | None = None
        self.usable_form: EventForm | None = None
        # The number of events read in the usual way before the next look for a form. It grows with
        # each look: some servers send no two events alike.
        self._until_look = 0 if by_form else _NEVER
        self._next_wait = 1

    @property
    def is_done(self) -> bool:
        """Whether the server has said that the answer has ended."""
        return self._answer.is_done

    @property
    def seems_whole(self) -> bool:
        """Whether nothing but a count of tokens can be missing."""
        return self.has_reason and not self._goes_on

    async def read(self, data: bytes) -> list[Chunk]:
        """The pieces that more of the body completes. Large events are read in a thread."""
        if self._answer.held_size + len(data) < LARGE_EVENT:
            return self.feed(data)
        chunks = await asyncio.to_thread(self.feed, data)
        for chunk in chunks:
            chunk.is_large = True
        return chunks

    def feed(self, data: bytes) -> list[Chunk]:
        """The pieces that more of the body completes; for empty `data`, those that the body's end
        completes."""
        form = self.usable_form
        if form is not None and (text := form.read(data)) is not None:
            return [self.made(form, text)]
        return self.feed_other(data)

    def feed_other(self, data: bytes) -> list[Chunk]:
        """The pieces of data that is not in the usual form."""
        chunks: list[Chunk] = []
        for event in self._answer.feed(data) if data else self._answer.end():
            read = _read_chunk(self._read_event, event)
            had_reason = self.has_reason
            for chunk in read if isinstance(read, list) else (read,):
                self._note(chunk, had_reason)
                chunks.append(chunk)
        if len(chunks) == 1:
            self._look_for_form(data, chunks[0])
        is_long = self._answer.held_size > LARGE_EVENT // 2
        self.takes_more = not (self.has_reason or self._answer.is_done or is_long)
        is_usable = self.takes_more and self._answer.is_between_events
        self.usable_form = self._form if is_usable else None
        return chunks

    def made(self, form: EventForm, piece: PlainText) -> Chunk:
        """The piece for the text of an event in the usual form."""
        text, _, number = piece
        self._last = chunk = form.make(text, number)
        return chunk

    def _note(self, chunk: Chunk, had_reason: bool) -> None:
        """Notes what a piece shows of the answer's end."""
        if had_reason and _says_something(chunk):
            self._goes_on = True
        if chunk.finish is not None:
            self.has_reason = True
            self._is_cut = ended_by(chunk.finish) not in (Ended.END, Ended.STOP)
        if chunk.ids or chunk.text or self._last is None:
            self._last = chunk

    def _look_for_form(self, data: bytes, chunk: Chunk) -> None:
        """Takes the form of an event that came by itself, for the events after it."""
        if self._form is not None and self._form.fits(data):
            return  # the form still holds: only this text is written in an unusual way
        self._until_look -= 1
        is_alone = data.startswith(b"data: ") and data.find(b"\n") == len(data) - 2
        if self._until_look < 0 and is_alone:
            self._until_look, self._next_wait = self._next_wait, self._next_wait * 2
            self._form = event_form(data, chunk, self._read_alone)

    def _read_alone(self, data: bytes) -> Chunk | list[Chunk] | None:
        try:
            return _read_chunk(self._read_event, parse_event(data[6:]))
        except (ValueError, BackendError):
            return None

    def check_end(self) -> None:
        """Raises a `BackendError` where the answer has no end. An answer that ends without a reason
        was cut off: no client may take it for the whole."""
        if self._last is None:
            raise BackendError("the backend sent an empty answer")
        has_end = self.has_reason or _ends_with_eos(self._last)
        if not has_end or (self._goes_on and not self.is_done):
            raise BackendError(_CUT[self.is_done])
        if self._answer.has_half and not self._is_cut:
            raise BackendError("the backend's text ends in half of a character")


class AnswerChunks(AsyncGenerator[Chunk, None]):
    """The pieces of an answer, to be iterated over, or taken as they come.

    The connection is closed when either ends: this tells the backend that the rest is not read. The
    caller sets the time to wait for the next piece.
    """

    def __init__(self, open_answer: OpenAnswer, reader: ChunkReader) -> None:
        self._open = open_answer
        self._reader = reader
        self._pieces = self._iterated()

    async def asend(self, value: None) -> Chunk:
        return await self._pieces.asend(value)

    async def athrow(self, *error: Any) -> Chunk:
        return await self._pieces.athrow(*error)

    async def aclose(self) -> None:
        await self._pieces.aclose()

    async def _iterated(self) -> Chunks:
        reader = self._reader
        async with self._open() as answer:
            body = await body_of(answer)
            while not reader.is_done and (data := await self._read(body)) is not None:
                chunks = await reader.read(data)
                for chunk in chunks:
                    chunk.more = chunk is not chunks[-1]
                    yield chunk
                if not data:
                    break
            await self._end(answer)

    async def push(self, take: TakeChunks, take_text: TakeText = takes_no_text) -> None:
        """Gives the pieces to `take`, or their texts to `take_text`, mostly at the moment when
        their bytes come. Every token passes here, and waking a task for each would take as long as
        all other work on it."""
        reader = self._reader
        async with self._open() as answer:
            body = await body_of(answer)
            while not reader.is_done and (data := await self._read(body)) is not None:
                waiting = take(await reader.read(data))
                if waiting is not None:
                    await waiting
                if not data:
                    break
                if body is answer and reader.takes_more:
                    direct = _DirectWay(reader, take, take_text)
                    await answer.pass_to(direct.pass_on)
                    await direct.settle()
            await self._end(answer)

    async def _read(self, body: HttpConnection | InflatedBody) -> bytes | None:
        """The next bytes; empty at the end of the body, None where the rest does not matter."""
        if not self._reader.seems_whole:
            return await body.read()
        try:
            return await asyncio.wait_for(body.read(), _GRACE)
        except (HttpError, asyncio.TimeoutError):
            return None

    async def _end(self, answer: HttpConnection) -> None:
        if self._reader.is_done:
            await answer.drained()
        self._reader.check_end()


class _DirectWay:
    """Passes data on as it comes on a connection, until something has to wait."""

    __slots__ = ("_error", "_reader", "_take", "_take_text", "_waiting")

    def __init__(self, reader: ChunkReader, take: TakeChunks, take_text: TakeText) -> None:
        self._reader = reader
        self._take = take
        self._take_text = take_text
        self._waiting: Awaitable[None] | None = None
        self._error: Exception | None = None

    def pass_on(self, data: bytes) -> bool:
        """Passes data on. Returns whether more can be passed on in this way."""
        reader = self._reader
        form = reader.usable_form
        try:
            # Nearly all events take the first branch, which makes no piece and no list of pieces.
            if form is not None and (text := form.read(data)) is not None:
                taken = self._take_text(text, form.field)
                if taken is True:
                    return True
                self._waiting = taken or self._take([reader.made(form, text)])
            else:
                self._waiting = self._take(reader.feed_other(data))
        except Exception as error:  # for the waiting task, not for the HTTP parser
            self._error = error
            return False
        return self._waiting is None and reader.takes_more

    async def settle(self) -> None:
        """Waits for what is pending, or raises the error that came meanwhile."""
        if self._error is not None:
            raise self._error
        if self._waiting is not None:
            await self._waiting


def _read_chunk(read_event: ReadEvent, event: JsonObject) -> Chunk | list[Chunk]:
    """Reads an event. It checks that texts are texts: all later steps rely on it."""
    try:
        read = read_event(event)
        if isinstance(read, Chunk) and _is_right(read):
            return read
        if isinstance(read, list) and all(map(_is_right, read)):
            return read
    except (TypeError, AttributeError, LookupError, ValueError):
        pass
    fields = short_repr(list(event))
    raise BackendError(f"the backend sent an event of another form, with the fields {fields}")


def _is_right(chunk: Chunk) -> bool:
    return chunk.text.__class__ is str and (chunk.delta is None or isinstance(chunk.delta, dict))


def _says_something(chunk: Chunk) -> bool:
    if chunk.ids or chunk.text:
        return True
    if isinstance(chunk.delta, LastMessage):  # it repeats the answer
        return False
    # Content under an unknown name does not count as the answer, unless it has the form of calls.
    # Nor does an object in a field for texts.
    for name, value in with_known_names(chunk.delta or {}).items():
        if name not in KNOWN_FIELDS:
            says = looks_like_calls(value)
        else:
            is_read = name.endswith(("calls", "call")) or not isinstance(value, dict)
            says = bool(value) and name not in NO_PART and is_read
        if says:
            return True
    return False


def _ends_with_eos(chunk: Chunk) -> bool:
    """Whether the model itself has ended a completion, as backends that continue a prompt show."""
    if chunk.ids is not None:
        return chunk.ids[-1:] == [EOS.id]
    return chunk.text.endswith(EOS)

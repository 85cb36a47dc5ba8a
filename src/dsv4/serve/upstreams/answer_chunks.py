"""The pieces of one answer: read from its bytes as they come, and given on without a turn of the
loop where nothing has to wait.
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

# What is said of an answer without a finish reason, by whether it has an end.
_CUT = {
    False: "the backend broke off: its stream has no end",
    True: "the backend ended its stream without a finish reason",
}
# How many seconds a server has to go on after a finish reason: a count of tokens may follow it, and
# the end. Some never send that.
_GRACE = 2.0
# To read an event of this many bytes takes longer than other streams should wait: milliseconds.
LARGE_EVENT = 1024 * 1024
# More events than an answer has.
_NEVER = 2**60
# What an event says: a piece of the completion, or several.
ReadEvent: TypeAlias = Callable[[JsonObject], Chunk | list[Chunk]]
OpenAnswer: TypeAlias = Callable[[], AbstractAsyncContextManager[HttpConnection]]


class ChunkReader:
    """Bytes of one answer in, pieces of the completion out; and whether the answer is whole."""

    def __init__(
        self, read_event: ReadEvent, key: str | None = None, *, by_form: bool = False
    ) -> None:
        """`key` is the gateway's own, which is never told. `by_form` says that `read_event` reads
        an event as it read those before with another text."""
        self._answer = AnswerReader(key)
        self._read_event = read_event
        self._last: Chunk | None = None
        self.has_reason = False
        self._is_cut = False  # as the reason says
        # As long as nothing speaks of an end, nor of an event that must be read in a thread.
        self.takes_more = True
        self._goes_on = False  # behind a reason: then it was none, and only an end of the stream is
        # That of the last events, and the same while it can be used.
        self._form: EventForm | None = None
        self.usable_form: EventForm | None = None
        # How many events must be read in the usual way before the form is looked for, and then
        # before it is looked for again: some servers send no two alike.
        self._until_look = 0 if by_form else _NEVER
        self._next_wait = 1

    @property
    def is_done(self) -> bool:
        """Whether the server has said that this was all."""
        return self._answer.is_done

    @property
    def seems_whole(self) -> bool:
        """Whether only a count of tokens can be missing."""
        return self.has_reason and not self._goes_on

    async def read(self, data: bytes) -> list[Chunk]:
        """The pieces that more of the body completes. What is large is read in a thread."""
        if self._answer.held_size + len(data) < LARGE_EVENT:
            return self.feed(data)
        chunks = await asyncio.to_thread(self.feed, data)
        for chunk in chunks:
            chunk.is_large = True
        return chunks

    def feed(self, data: bytes) -> list[Chunk]:
        """The pieces that more of the body completes; with nothing, those that its end does."""
        form = self.usable_form
        if form is not None and (text := form.read(data)) is not None:
            return [self.made(form, text)]
        return self.feed_other(data)

    def feed_other(self, data: bytes) -> list[Chunk]:
        """The pieces of what is not of the usual form."""
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
        """The piece that the text of an event of the usual form makes."""
        text, _, number = piece
        self._last = chunk = form.make(text, number)
        return chunk

    def _note(self, chunk: Chunk, had_reason: bool) -> None:
        """What a piece says of the end."""
        if had_reason and _says_something(chunk):
            self._goes_on = True
        if chunk.finish is not None:
            self.has_reason = True
            self._is_cut = ended_by(chunk.finish) not in (Ended.END, Ended.STOP)
        if chunk.ids or chunk.text or self._last is None:
            self._last = chunk

    def _look_for_form(self, data: bytes, chunk: Chunk) -> None:
        """Looks what stands around the text of an event that came alone."""
        if self._form is not None and self._form.fits(data):
            return  # but its text is written in another way than it is
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
        """Raises a `BackendError` where the answer has no end. What ends without a word was cut: no
        client may take it for the whole."""
        if self._last is None:
            raise BackendError("the backend sent an empty answer")
        has_end = self.has_reason or _ends_with_eos(self._last)
        if not has_end or (self._goes_on and not self.is_done):
            raise BackendError(_CUT[self.is_done])
        if self._answer.has_half and not self._is_cut:
            raise BackendError("the backend's text ends in half of a character")


class AnswerChunks(AsyncGenerator[Chunk, None]):
    """The pieces of an answer, for whoever iterates over them, or takes them as they come.

    The connection is closed when either ends: that is how a backend learns that nobody reads on.
    How long to wait for the next piece is for the caller to say.
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
        """Gives the pieces to `take`, or their texts to `take_text`, most of them at the moment
        when their bytes come: every token passes here, and to wake a task for each takes as long
        as all that is done with it."""
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
        """The next bytes, nothing at the end of the body, None where the rest does not matter."""
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
    """Gives what comes on a connection to whoever takes it, until something has to wait."""

    __slots__ = ("_error", "_reader", "_take", "_take_text", "_waiting")

    def __init__(self, reader: ChunkReader, take: TakeChunks, take_text: TakeText) -> None:
        self._reader = reader
        self._take = take
        self._take_text = take_text
        self._waiting: Awaitable[None] | None = None
        self._error: Exception | None = None

    def pass_on(self, data: bytes) -> bool:
        """Whether more can be taken in this way."""
        reader = self._reader
        form = reader.usable_form
        try:
            # Nearly all events take the first way: no piece is made, and no list of pieces.
            if form is not None and (text := form.read(data)) is not None:
                taken = self._take_text(text, form.field)
                if taken is True:
                    return True
                self._waiting = taken or self._take([reader.made(form, text)])
            else:
                self._waiting = self._take(reader.feed_other(data))
        except Exception as error:  # which is for whoever waits, and not for the parser of HTTP
            self._error = error
            return False
        return self._waiting is None and reader.takes_more

    async def settle(self) -> None:
        """Waits for what had to wait, or raises what was in the way."""
        if self._error is not None:
            raise self._error
        if self._waiting is not None:
            await self._waiting


def _read_chunk(read_event: ReadEvent, event: JsonObject) -> Chunk | list[Chunk]:
    """What an event says. Its texts are texts: all that comes after relies on it."""
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
    if isinstance(chunk.delta, LastMessage):  # which says all once more
        return False
    # What is under a name that nobody knows is said beside the answer, unless it has the form of
    # calls; and so is an object that is no call.
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
    """Whether the model itself has ended a completion, as one that continues a prompt shows."""
    if chunk.ids is not None:
        return chunk.ids[-1:] == [EOS.id]
    return chunk.text.endswith(EOS)

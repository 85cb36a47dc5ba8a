"""The completions of one request while they are generated: passed on as they come, tried again as
long as nothing has come, ended when the client disconnects or a time limit is reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from dsv4._completion.events import ContentDelta, Event, ReasoningDelta
from dsv4.serve.asgi import ClientGone, StreamTimer
from dsv4.serve.backend import (
    BackendError,
    Chunk,
    Chunks,
    PushedChunks,
    TakeChunks,
    TakeText,
    takes_no_text,
)
from dsv4.serve.choice_reader import ChoiceReader, joined_events
from dsv4.serve.settings import Settings

# The most characters of a text that are written between two turns of the loop.
_MOST_AT_ONCE = 256 * 1024

_log = logging.getLogger("dsv4.serve")
T = TypeVar("T")

# Takes the index of a choice.
OpenStream: TypeAlias = Callable[[int], Chunks]
TakesOver: TypeAlias = Callable[[int, BackendError], bool]
# Takes the index of a choice, and events of it. The result must be awaited before the next call.
PassEvents: TypeAlias = Callable[[int, list[Event]], Awaitable[None] | None]
# Takes the index of a choice, and its reader.
FindTextWay: TypeAlias = Callable[[int, ChoiceReader], TakeText]


@dataclass(eq=False, repr=False)
class Generation:
    """The completions of one request.

    `_open` asks the backend, for each of the `_readers`, once its `_turn` has come. `_takes_over`
    says whether another engine is asked after a failure, without a pause; `_renew` says whether an
    answer without content is requested once more, with a new reader.
    """

    _settings: Settings
    _readers: Sequence[ChoiceReader]
    _open: OpenStream
    _turn: asyncio.Event
    _takes_over: TakesOver
    _renew: Callable[[int], bool]
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _failure: Exception | None = None
    _alive: Callable[[], Awaitable[None]] | None = None
    _text_way: FindTextWay | None = None
    _is_large: bool = False  # slow work is done in threads
    _has_begun: bool = False  # the client has got something: it is too late to try again

    def __post_init__(self) -> None:
        self._running = len(self._readers)
        self._over = asyncio.get_running_loop().create_future()
        self.timer: StreamTimer = StreamTimer(self._settings, self._quiet, self._late)

    # Called by the timer, and when the client disconnects.

    def client_gone(self) -> None:
        """Frees the backend immediately."""
        self._fail(ClientGone())

    @property
    def failure(self) -> BackendError | None:
        """The backend's error, if it failed."""
        return self._failure if isinstance(self._failure, BackendError) else None

    @property
    def is_whole(self) -> bool:
        """Whether all completions have reached their end."""
        return not self._running and self._failure is None

    @property
    def has_left(self) -> bool:
        """Whether the client has disconnected."""
        return isinstance(self._failure, ClientGone)

    def _late(self, setting: str) -> None:
        if setting == "send_timeout":
            self.client_gone()
        else:
            seconds = getattr(self._settings, setting)
            self._fail(BackendError(f"the backend took longer than {seconds:g} s ({setting})", 504))

    def _quiet(self) -> None:
        if self._alive is not None and not self._over.done():
            self._has_begun = True
            self._tasks.append(asyncio.get_running_loop().create_task(self._tell()))

    async def _tell(self) -> None:
        """Sends a keep-alive."""
        assert self._alive is not None
        try:
            await self._alive()
        except Exception as error:
            self._fail(error)
        finally:
            task = asyncio.current_task()
            self._tasks = [other for other in self._tasks if other is not task]

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._end()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    # The run.

    async def run(
        self,
        deliver: PassEvents,
        alive: Callable[[], Awaitable[None]] | None,
        text_way: FindTextWay | None = None,
    ) -> None:
        """Generates to the end.

        `deliver` gets the events that have come, except texts that `text_way` takes; `alive` is
        called when nothing has been passed on for a while. Raises `BackendError` or `ClientGone`.
        """
        self._alive, self._text_way = alive, text_way
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._pump(n, deliver)) for n in range(len(self._readers))]
        try:
            await self._over
        finally:
            self.timer.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        for n, reader in enumerate(self._readers):
            if waiting := deliver(n, await self.done(reader.end)):
                await waiting

    async def done(self, work: Callable[..., T], *given: Any) -> T:
        """The result of some work on the answer, done in a thread if the answer is large."""
        return await asyncio.to_thread(work, *given) if self._is_large else work(*given)

    async def _pump(self, choice: int, deliver: PassEvents) -> None:
        """Reads the backend's pieces for one choice, and passes them on."""
        try:
            await self._turn.wait()
            self.timer.backend_asked()
            await self._pass_on_with_retries(choice, deliver)
        except asyncio.CancelledError:
            return  # the rest is not read
        except Exception as error:
            self._fail(error)
            return
        self._running -= 1
        if not self._running:
            self._end()

    async def _pass_on_with_retries(self, choice: int, deliver: PassEvents) -> None:
        """Passes pieces on. As long as none has come, another engine takes over, or the same one is
        tried again, with growing pauses."""
        tries_left, empty_left = self._settings.retries, self._settings.retry_empty
        while True:
            try:
                await self._pass_on(choice, deliver)
                if not (empty_left and self._is_empty(choice) and self._renew(choice)):
                    return
                empty_left -= 1
                _log.warning("an answer that said nothing is asked for again")
                continue
            except BackendError as error:
                if self._has_begun or self._readers[choice].first_at is not None:
                    raise
                if self._takes_over(choice, error):
                    continue
                if not (tries_left and error.is_temporary):
                    raise
            await asyncio.sleep(0.1 * 2 ** (self._settings.retries - tries_left))
            tries_left -= 1

    def _is_empty(self, choice: int) -> bool:
        return not self._has_begun and self._readers[choice].is_empty

    async def _pass_on(self, choice: int, deliver: PassEvents) -> None:
        """Passes on the backend's pieces, to the end.

        Every token of every stream goes through `taken`, and all streams of a worker share its
        time. So nothing around it is woken for each token: no iterator over another one, no
        time-out, no task.
        """
        reader, note_chunks = self._readers[choice], self.timer.heard
        read = reader.feed

        def taken(chunks: list[Chunk]) -> Awaitable[None] | None:
            note_chunks()
            if chunks and chunks[0].is_large:
                return self._taken_in_steps(choice, chunks, deliver)
            try:
                events = read(chunks[0]) if len(chunks) == 1 else _events_of(reader, chunks)
                if not events:
                    return self._ended_by(reader)
                self._has_begun = self._alive is not None  # a whole answer is sent at its end
                waiting = deliver(choice, events)
            except BackendError:
                raise
            except Exception as error:  # invalid ids, or half of a surrogate pair
                raise _backend_fault(error) from error
            return self._ended_by(reader, waiting) if reader.is_done else waiting

        stream = self._opened(choice)
        with suppress(_Enough):
            if isinstance(stream, PushedChunks):
                way = self._text_way
                await stream.push(taken, way(choice, reader) if way else takes_no_text)
            else:
                await _pulled(stream, taken)

    async def _taken_in_steps(self, choice: int, chunks: list[Chunk], deliver: PassEvents) -> None:
        """Reads large pieces in a thread, and gives other streams a turn after each step."""
        reader, self._is_large = self._readers[choice], True
        try:
            events = await asyncio.to_thread(_events_of, reader, chunks)
        except BackendError:
            raise
        except Exception as error:
            raise _backend_fault(error) from error
        self._has_begun = self._has_begun or bool(events and self._alive is not None)
        for some in _steps(events) if reader.joins else [events]:
            if waiting := deliver(choice, some):
                await waiting
            await asyncio.sleep(0)
        if reader.is_done:
            raise _Enough

    def _ended_by(
        self, reader: ChoiceReader, waiting: Awaitable[None] | None = None
    ) -> Awaitable[None] | None:
        """Ends the reading where the rest would not be shown, once `waiting` is done."""
        if not reader.is_done:
            return waiting
        if waiting is None:
            raise _Enough
        return _ThenEnough(waiting)

    def _opened(self, choice: int) -> Chunks:
        try:
            return self._open(choice)
        except Exception as error:
            raise _backend_fault(error) from error


class _Enough(Exception):
    """The rest would not be shown."""


class _ThenEnough:
    """Awaits `waiting`, then ends the reading. A coroutine would have to be awaited."""

    def __init__(self, waiting: Awaitable[None]) -> None:
        self._waiting = waiting

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._waiting.__await__()
        raise _Enough


async def _pulled(stream: Chunks, take: TakeChunks) -> None:
    """Gives the pieces of an iterator to `take`, in batches as they came."""
    batch: list[Chunk] = []
    async with aclosing(stream) as chunks:
        while True:
            try:
                batch.append(await anext(chunks))
            except StopAsyncIteration:
                break
            except BackendError:
                raise
            except Exception as error:  # any error of an engine
                raise _backend_fault(error) from error
            if not batch[-1].more:
                waiting, batch = take(batch), []
                if waiting is not None:
                    await waiting
        if batch and (waiting := take(batch)) is not None:
            await waiting


def _events_of(reader: ChoiceReader, chunks: list[Chunk]) -> list[Event]:
    """The events of pieces that came together, up to the end of the text."""
    events: list[Event] = []
    for chunk in chunks:
        events += reader.feed(chunk)
        if reader.is_done:
            break
    return joined_events(events) if reader.joins else events


def _steps(events: list[Event]) -> Iterator[list[Event]]:
    """The events one by one, with long texts in pieces."""
    for event in events:
        if not isinstance(event, (ContentDelta, ReasoningDelta)):
            yield [event]
            continue
        for at in range(0, len(event.text), _MOST_AT_ONCE):
            yield [type(event)(event.text[at : at + _MOST_AT_ONCE])]


def _backend_fault(error: Exception) -> BackendError:
    """The error for any exception of an engine, which only the log describes."""
    _log.warning("the backend raised %s", type(error).__name__, exc_info=error)
    return BackendError("the backend failed, or sent what cannot be read")

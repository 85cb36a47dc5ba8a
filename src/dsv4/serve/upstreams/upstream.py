"""One HTTP server behind the gateway: requests to it, its answers, and clear errors when it
fails.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from dsv4.api.request_fields import JsonObject, fast_json_reader
from dsv4.errors import short_repr
from dsv4.serve.backend import BackendError, Chunk, Chunks
from dsv4.serve.observe.tracing import trace_headers
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.upstreams.http_client import HttpClient, HttpConnection, HttpError, SseReader
from dsv4.serve.upstreams.upstream_failures import (
    error_text,
    failure,
    is_misconfigured,
    overflow_of,
)

_DONE = b"[DONE]"
# The types of what may be a stream. A server that says nothing sends the second.
_STREAM_TYPES = ("text/event-stream", "application/octet-stream", "text/plain")
# No list of models is this large.
_MAX_ANSWER = 64 * 1024 * 1024
# What to ask for, found out when it is asked.
RequestBody: TypeAlias = Callable[[], Awaitable[JsonObject]]
# What an event says, and whether the next came with it -> a piece of the completion.
ReadEvent: TypeAlias = Callable[[JsonObject, bool], Chunk]


class Upstream:
    """An HTTP server, by its base URL."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        self._key = _read_key(settings.upstream_key_file) if settings.upstream_key_file else None
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        url = settings.first_upstream.rstrip("/").removesuffix("/v1")
        self._client = HttpClient(url, headers, settings.connect_timeout)

    @property
    def starts(self) -> int:
        """Another number than before where the server may have been restarted meanwhile."""
        return self._client.starts

    async def get(self, path: str) -> JsonObject:
        """The JSON object of a GET; an empty one where it is no object."""
        try:
            return await asyncio.wait_for(self._got(path), self._settings.connect_timeout)
        except (HttpError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise BackendError(f"the backend does not answer: {_error_words(error)}", 503) from None

    async def _got(self, path: str) -> JsonObject:
        answer = await self._client.request("GET", path)
        try:
            await self._refuse_failure(answer)
            return _object(json.loads(await answer.rest(_MAX_ANSWER)))
        finally:
            self._client.release(answer)

    @asynccontextmanager
    async def passed(self, method: str, path: str, data: bytes) -> AsyncIterator[HttpConnection]:
        """The answer to a request of any route, whatever it is."""
        try:
            answer = await self._client.request(method, path, data)
        except (HttpError, asyncio.TimeoutError, OSError) as error:
            problem = f"the backend cannot be reached: {_error_words(error)}"
            raise BackendError(problem, 503) from None
        try:
            if is_misconfigured(answer.status):
                raise failure(answer.status, answer.headers, "", self._key)
            yield answer
        except HttpError as error:
            raise BackendError(f"the backend broke off: {_error_words(error)}") from None
        finally:
            self._client.release(answer)

    async def chunks(self, path: str, asked: RequestBody, read: ReadEvent) -> Chunks:
        """What `read` makes of each event that a POST is answered with.

        The connection is closed when the iterator is: that is how a backend learns that nobody
        reads on. How long to wait for the next is for the caller to say.

        Every token passes here. So backends give what reads their events, in place of a loop of
        their own around this one: each would take as long again.
        """
        reader, events, ended = SseReader(), _EventReader(), False
        before: JsonObject = {}
        last: JsonObject = {}
        async with self._opened(path, await asked()) as answer:
            while chunk := await answer.read():
                found = reader.feed(chunk)
                if _DONE in found:
                    ended = True
                    found.remove(_DONE)
                more = len(found)
                for data in found:
                    more -= 1
                    before, last = last, events.read(data)
                    yield _read_chunk(read, last, more > 0)
        if ended and not last:
            raise BackendError("the backend sent an empty answer")
        if not ended and not reader.is_between_events:
            raise BackendError("the backend broke off in the middle of an event")
        # What ends without a word was cut: no client may take it for the whole.
        if not (ended or _is_end(last) or _is_end(before)):
            raise BackendError("the backend broke off: its stream has no end")

    @asynccontextmanager
    async def _opened(self, path: str, body: JsonObject) -> AsyncIterator[HttpConnection]:
        """The answer to a POST, which must be a stream."""
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            answer = await self._client.request("POST", path, data, trace_headers())
        except (HttpError, asyncio.TimeoutError, OSError) as error:
            raise BackendError(
                f"the backend cannot be reached: {_error_words(error)}", 503
            ) from None
        try:
            await self._refuse_failure(answer)
            _refuse_other_types(answer)
            yield answer
        except (HttpError, OSError) as error:
            raise BackendError(f"the backend broke off: {_error_words(error)}") from None
        finally:
            self._client.release(answer)

    async def _refuse_failure(self, answer: HttpConnection) -> None:
        if answer.status >= 300:
            body = (await answer.rest(4096)).decode("utf-8", "replace")
            raise failure(answer.status, answer.headers, body, self._key)

    async def aclose(self) -> None:
        self._client.close()


def _read_key(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            key = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("upstream_key_file", f"{path}: {error}") from None
    if not key or len(key.split()) > 1:
        raise SettingError("upstream_key_file", f"{path}: expected a key, and nothing else")
    return key


def _error_words(error: BaseException) -> str:
    return str(error) or type(error).__name__


# What `json.loads` comes down to, without its looking around each text.
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _slow_event_json(data: bytes) -> Any:
    """Python's own reader has the last word: it takes half of a pair, and NaN."""
    try:
        text = data.decode().strip()
        event, end = _scan(text, 0)
        if end < len(text):
            raise ValueError
    except (ValueError, StopIteration, RecursionError):
        found = repr(data[:80])
        raise BackendError("the backend sent what is no JSON", quoted=found) from None
    return event


_parse_event = fast_json_reader() or _slow_event_json


class _EventReader:
    """Reads the events of one stream.

    A character beyond the first 65,536 may come as halves of a pair, in two events: a server that
    writes JSON piece by piece knows no better. The first half waits for the second.
    """

    def __init__(self) -> None:
        self._halves: dict[_Place, str] = {}

    def read(self, data: bytes) -> JsonObject:
        try:
            event = _parse_event(data)
        except (ValueError, RecursionError):
            event = _slow_event_json(data)
        # Half of a pair has no bytes of its own, so it comes as an escape.
        if self._halves or b"\\ud" in data or b"\\uD" in data:
            event = self._joined(event, ())
        if event.__class__ is not dict:
            return {}
        if event.get("error"):
            raise _event_failure(event["error"])
        return event

    def _joined(self, value: object, place: _Place) -> Any:
        """A copy of a value with the pairs in its texts joined."""
        if isinstance(value, dict):
            return {name: self._joined(item, (*place, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [self._joined(item, (*place, n)) for n, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        text = self._halves.pop(place, "") + value if value else value
        if _FIRST_HALF.match(text[-1:]) and place != _CUMULATIVE:
            self._halves[place], text = text[-1], text[:-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_Place: TypeAlias = tuple[str | int, ...]
_FIRST_HALF = re.compile("[\ud800-\udbff]")
# SGLang's text begins anew with each event.
_CUMULATIVE = ("text",)


def _event_failure(error: object) -> BackendError:
    text = error_text(error)
    return overflow_of(_object(error), text) or BackendError("the backend failed", quoted=text)


def _read_chunk(read: ReadEvent, event: JsonObject, more: bool) -> Chunk:
    """What an event says. Its texts are texts: all that comes after relies on it."""
    try:
        chunk = read(event, more)
        if chunk.text.__class__ is str and (chunk.delta is None or chunk.delta.__class__ is dict):
            return chunk
    except (TypeError, AttributeError, LookupError, ValueError):
        pass
    fields = short_repr(list(event))
    raise BackendError(f"the backend sent an event of another form, with the fields {fields}")


def _is_end(event: JsonObject) -> bool:
    """Whether an event says why generation ended, in the words of any server."""
    return bool(
        event.get("stop")
        or _object(event.get("meta_info")).get("finish_reason")
        or any(_object(choice).get("finish_reason") for choice in event.get("choices") or ())
    )


def _refuse_other_types(answer: HttpConnection) -> None:
    kind = answer.headers.get("content-type", _STREAM_TYPES[1]).partition(";")[0].strip().lower()
    if kind not in _STREAM_TYPES:
        raise BackendError(f"the backend answered with {kind}, expected a stream")

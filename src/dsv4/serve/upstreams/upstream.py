"""One HTTP server behind the gateway: requests to it, its answers, and clear errors when it
fails.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from dsv4._format.tokens import EOS
from dsv4.api.request_fields import JsonObject
from dsv4.errors import short_repr
from dsv4.serve.backend import BackendError, Chunk, Chunks
from dsv4.serve.observe.tracing import trace_headers
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.upstreams.answer_reader import AnswerReader
from dsv4.serve.upstreams.http_client import HttpClient, HttpConnection, HttpError, body_of, rest_of
from dsv4.serve.upstreams.upstream_failures import failure, is_misconfigured

# The types of what may be a stream. A server that says nothing sends the second; some send an
# answer, or an error, whole.
_STREAM_TYPES = ("text/event-stream", "application/octet-stream", "text/plain", "application/json")
# What is said of an answer without a finish reason, by whether it has an end.
_CUT = {
    False: "the backend broke off: its stream has no end",
    True: "the backend ended its stream without a finish reason",
}
# No list of models is this large.
_MAX_ANSWER = 64 * 1024 * 1024
# What to ask for, found out when it is asked: a body, or the JSON of one.
RequestBody: TypeAlias = Callable[[], Awaitable[JsonObject | bytes]]
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
        self._client = HttpClient(url, headers, settings)

    @property
    def starts(self) -> int:
        """Another number than before where the server may have been restarted meanwhile."""
        return self._client.starts

    async def ask(self, path: str, body: JsonObject | None = None) -> JsonObject:
        """The JSON object of a GET, or of a POST of `body`; an empty one where it is no object."""
        data = None if body is None else json.dumps(body).encode()
        try:
            value = json.loads(await self.text(path, data))
        except ValueError as error:
            raise _no_answer(error) from None
        return value if isinstance(value, dict) else {}

    async def text(self, path: str, data: bytes | None = None) -> str:
        """The text of a GET, or of a POST of `data`."""
        try:
            return await asyncio.wait_for(self._text(path, data), self._settings.connect_timeout)
        except (HttpError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise _no_answer(error) from None

    async def _text(self, path: str, data: bytes | None) -> str:
        method = "GET" if data is None else "POST"
        answer = await self._client.request(method, path, data or b"")
        try:
            await self._refuse_failure(answer)
            return (await rest_of(answer, _MAX_ANSWER)).decode("utf-8-sig")
        finally:
            self._client.release(answer)

    @asynccontextmanager
    async def _answer_to(
        self, method: str, path: str, data: bytes
    ) -> AsyncIterator[HttpConnection]:
        """The answer to a request that belongs to a client's, as it comes."""
        try:
            answer = await self._client.request(method, path, data, trace_headers())
        except (HttpError, asyncio.TimeoutError, OSError) as error:
            problem = f"the backend cannot be reached: {_error_words(error)}"
            raise BackendError(problem, 503) from None
        try:
            yield answer
        except (HttpError, OSError) as error:
            raise BackendError(f"the backend broke off: {_error_words(error)}") from None
        finally:
            self._client.release(answer)

    @asynccontextmanager
    async def passed(self, method: str, path: str, data: bytes) -> AsyncIterator[HttpConnection]:
        """The answer to a request of any route, whatever it is."""
        async with self._answer_to(method, path, data) as answer:
            if is_misconfigured(answer.status):
                raise failure(answer.status, answer.headers, "", self._key)
            yield answer

    async def chunks(self, path: str, make_body: RequestBody, read_event: ReadEvent) -> Chunks:
        """What `read_event` makes of each event that a POST is answered with.

        The connection is closed when the iterator is: that is how a backend learns that nobody
        reads on. How long to wait for the next is for the caller to say.

        Every token passes here. So backends give what reads their events, in place of a loop of
        their own around this one: each would take as long again.
        """
        reader, last, has_reason = AnswerReader(self._key), None, False
        goes_on = False  # behind a reason: then it was none, and only an end of the stream is
        async with self._opened(path, await make_body()) as answer:
            body = body_of(answer)
            while not reader.is_done:
                try:
                    data = await body.read()
                except HttpError:
                    if has_reason and not goes_on:  # only a count of tokens can be missing
                        break
                    raise
                events = reader.feed(data) if data else reader.end()
                more = len(events)
                for event in events:
                    more -= 1
                    chunk = _read_chunk(read_event, event, more > 0)
                    if has_reason and _says_something(chunk):
                        goes_on = True
                    if chunk.finish is not None:
                        has_reason = True
                    if chunk.ids or chunk.text or last is None:
                        last = chunk
                    yield chunk
                if not data:
                    break
            await answer.drained()
        # What ends without a word was cut: no client may take it for the whole.
        if last is None:
            raise BackendError("the backend sent an empty answer")
        if not (has_reason or _ends_with_eos(last)) or (goes_on and not reader.is_done):
            raise BackendError(_CUT[reader.is_done])

    @asynccontextmanager
    async def _opened(self, path: str, body: JsonObject | bytes) -> AsyncIterator[HttpConnection]:
        """The answer to a POST, which must be a stream."""
        data = body
        if not isinstance(data, bytes):
            data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        async with self._answer_to("POST", path, data) as answer:
            await self._refuse_failure(answer)
            _refuse_other_types(answer)
            yield answer

    async def _refuse_failure(self, answer: HttpConnection) -> None:
        if answer.status >= 300:
            body = (await rest_of(answer, 4096)).decode("utf-8", "replace")
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


def _no_answer(error: BaseException) -> BackendError:
    return BackendError(f"the backend does not answer: {_error_words(error)}", 503)


def _error_words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        return f"its certificate is not trusted: {why} (--upstream-ca names a file of authorities)"
    return str(error) or type(error).__name__


def _read_chunk(read_event: ReadEvent, event: JsonObject, more: bool) -> Chunk:
    """What an event says. Its texts are texts: all that comes after relies on it."""
    try:
        chunk = read_event(event, more)
        if chunk.text.__class__ is str and (chunk.delta is None or chunk.delta.__class__ is dict):
            return chunk
    except (TypeError, AttributeError, LookupError, ValueError):
        pass
    fields = short_repr(list(event))
    raise BackendError(f"the backend sent an event of another form, with the fields {fields}")


def _says_something(chunk: Chunk) -> bool:
    delta = chunk.delta or {}
    return bool(chunk.ids or chunk.text) or any(delta[name] for name in delta if name != "role")


def _ends_with_eos(chunk: Chunk) -> bool:
    """Whether the model itself has ended a completion, as one that continues a prompt shows."""
    if chunk.ids is not None:
        return chunk.ids[-1:] == [EOS.id]
    return chunk.text.endswith(EOS)


def _refuse_other_types(answer: HttpConnection) -> None:
    kind = answer.headers.get("content-type", _STREAM_TYPES[1]).partition(";")[0].strip().lower()
    if kind not in _STREAM_TYPES:
        raise BackendError(f"the backend answered with {kind}, expected a stream")

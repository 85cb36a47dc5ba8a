"""One HTTP server behind the gateway: requests to it, its answers, and clear errors when it
fails.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import BackendError, Chunks
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.upstreams.answer_chunks import AnswerChunks, ChunkReader, ReadEvent
from dsv4.serve.upstreams.http_client import HttpClient, HttpConnection, HttpError, rest_of
from dsv4.serve.upstreams.passed_headers import passed_headers
from dsv4.serve.upstreams.upstream_failures import failure, is_misconfigured

# The content types of possible streams: some servers send none, or their framework's default for
# pages; some send an answer, or an error, whole.
_STREAM_TYPES = re.compile(r"|\*/\*|text/.*|.*(json|stream).*", re.IGNORECASE)
# No list of models is this large.
_MAX_ANSWER = 64 * 1024 * 1024
# Makes the body of a request, at the time when it is sent: an object, or its JSON.
RequestBody: TypeAlias = Callable[[], Awaitable[JsonObject | bytes]]


class Upstream:
    """An HTTP server, by its base URL."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        headers = {"accept-encoding": "identity"}
        self._key = _read_key(settings.upstream_key_file) if settings.upstream_key_file else None
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        url = settings.first_upstream.rstrip("/").removesuffix("/v1")
        self._client = HttpClient(url, headers, settings)

    @property
    def starts(self) -> int:
        """A number that changes where the server may have been restarted."""
        return self._client.starts

    async def ask(self, path: str, body: JsonObject | None = None) -> JsonObject:
        """The JSON object of a GET, or of a POST of `body`; an empty one if it is not an object."""
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
        """The answer to a request made for a client's, as it comes."""
        try:
            answer = await self._client.request(method, path, data, passed_headers())
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

    def chunks(
        self, path: str, make_body: RequestBody, read_event: ReadEvent, *, by_form: bool = False
    ) -> Chunks:
        """The pieces that `read_event` reads from the events of the answer to a POST.

        Every token passes here. So backends pass in a function for their events, in place of a loop
        of their own around this one, which would take as long again. `by_form` says that it reads
        events that differ only in their text alike, so it is not called for each.
        """
        reader = ChunkReader(read_event, self._key, by_form=by_form)
        return AnswerChunks(lambda: self._opened(path, make_body), reader)

    @asynccontextmanager
    async def _opened(self, path: str, make_body: RequestBody) -> AsyncIterator[HttpConnection]:
        """The answer to a POST, which must be a stream."""
        data = await make_body()
        if not isinstance(data, bytes):
            data = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
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


def _refuse_other_types(answer: HttpConnection) -> None:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not _STREAM_TYPES.fullmatch(kind):
        raise BackendError(f"the backend answered with {kind}, expected a stream")

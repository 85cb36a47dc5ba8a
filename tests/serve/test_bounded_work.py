"""What one answer may cost: work that is linear in its bytes, and turns of the loop in between.
Everything is counted, and nothing is timed."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiohttp import web
from gateway import events_of, gateway_before, run
from standins import ChatServer

from dsv4._parse.parser import StreamParser
from dsv4.serve import asgi
from dsv4.serve.asgi import EventStream
from dsv4.serve.backend import BackendError
from dsv4.serve.upstreams import answer_reader, http_client, sse_reader
from dsv4.serve.upstreams.http_client import InflatedBody
from dsv4.serve.upstreams.sse_reader import SseReader
from dsv4.tokens import Tokenizer
from parts import ALL

MIB = 2**20
# A line of 64 MiB, and one that the tests of every change have time for.
LONGEST = sse_reader.LONGEST_EVENT - MIB


class Answer:
    """An answer that has come."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def test_a_compressed_body_is_inflated_in_steps_with_turns_between_them() -> None:
    async def scenario() -> None:
        turns = 0

        async def other_stream() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other: Any = asyncio.create_task(other_stream())
        body = InflatedBody(Answer(gzip.compress(bytes(200 * MIB), 1)), "gzip")  # type: ignore[arg-type]
        size = largest = 0
        while piece := await body.read():
            size += len(piece)
            largest = max(largest, len(piece))
        other.cancel()
        assert size == 200 * MIB
        assert largest <= MIB
        assert turns >= size // MIB

    asyncio.run(scenario())


@pytest.mark.parametrize("pieces", [1, 1000])
def test_a_long_line_is_joined_once(pieces: int) -> None:
    copied = 0

    class Counted(bytes):
        """A piece whose bytes are counted when they are joined."""

        def __add__(self, other: bytes) -> bytes:
            nonlocal copied
            copied += len(self) + len(other)
            return Counted(bytes(self) + other)

    reader = SseReader()
    piece = b"x" * ((LONGEST if ALL else 8 * MIB) // pieces)
    assert reader.feed(Counted(b"data: ")) == []
    for _ in range(pieces):
        assert reader.feed(Counted(piece)) == []
    [line] = reader.feed(b"\n\n")
    assert len(line) == len(piece) * pieces
    assert copied == 0


class InPieces(ChatServer):
    """Sends an answer in a thousand pieces."""

    async def sent(self, request: web.Request, events: Sequence[bytes]) -> web.StreamResponse:
        body = b"".join(events)
        size = len(body) // 1000 + 1
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        return await super().sent(request, pieces)


@pytest.mark.parametrize("stream", [True, False])
def test_a_large_event_is_read_beside_the_loop_and_written_in_pieces(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    in_loop: dict[str, int] = {}

    def counted(owner: Any, name: str, size: Callable[..., int]) -> None:
        work = getattr(owner, name)

        def work_counted(*given: Any) -> Any:
            result = work(*given)
            if threading.current_thread() is threading.main_thread():
                in_loop[name] = max(in_loop.get(name, 0), size(result, *given))
            return result

        monkeypatch.setattr(owner, name, work_counted)

    counted(SseReader, "feed", lambda events, *_: sum(map(len, events)))
    counted(answer_reader, "parse_event", lambda _, data: len(data))
    counted(StreamParser, "feed", lambda _, parser, text: len(text))
    counted(EventStream, "queued", lambda _, stream, data: len(data))
    counted(asgi, "json_bytes", lambda data, _: len(data))
    size = LONGEST if ALL else 3 * MIB
    said = "The file is here, I think.\n" * (size // 28) + "So."
    choice = {"index": 0, "delta": {"content": said}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 5}
    events = [{"id": "x", "choices": [each], "usage": usage} for each in (choice, end)]

    async def scenario() -> None:
        upstream = InPieces(tokenizer, json.dumps(events))
        async with gateway_before(upstream.running()) as g:
            body = {"messages": [{"role": "user", "content": "Hi"}], "stream": stream}
            _, _, text = await g.post("/v1/chat/completions", body)
            told = events_of(text)[:-1] if stream else [text]
            messages = [
                each["delta" if stream else "message"] for e in told for each in e["choices"]
            ]
            assert "".join(each.get("content") or "" for each in messages) == said

    run(scenario())
    assert all(size < MIB for size in in_loop.values()), in_loop


def test_an_event_without_an_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_reader, "LONGEST_EVENT", MIB)
    for piece in (b"x" * 1000, b"data: " + b"x" * 1000 + b"\n"):
        reader = SseReader()
        body = iter([piece] * 2000)
        with pytest.raises(BackendError, match="without an end"):
            list(map(reader.feed, body))


def test_no_step_makes_more_than_a_mebibyte() -> None:
    assert http_client._MOST_INFLATED <= MIB

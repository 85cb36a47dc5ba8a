"""What one answer may cost: work that is linear in its bytes, and turns of the loop in between.
Everything is counted, and nothing is timed."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from dsv4.serve.upstreams import http_client
from dsv4.serve.upstreams.http_client import InflatedBody
from dsv4.serve.upstreams.sse_reader import SseReader

MIB = 2**20


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
    piece = b"x" * (8 * MIB // pieces)
    assert reader.feed(Counted(b"data: ")) == []
    for _ in range(pieces):
        assert reader.feed(Counted(piece)) == []
    [line] = reader.feed(b"\n\n")
    assert len(line) == len(piece) * pieces
    assert copied == 0


def test_no_step_makes_more_than_a_mebibyte() -> None:
    assert http_client._MOST_INFLATED <= MIB

"""The pieces of a streamed response go out in the order they come, whoever lives to wait for it."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest

from dsv4.serve.asgi import EventStream

HEAD = b"<head>"


class Client:
    """Takes what it is sent. While it reads slowly, a send waits, and no write is immediate."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.got.append(message.get("body", HEAD))

    def write_now(self, data: bytes) -> bool:
        if self.reads.is_set():
            self.got.append(data)
        return self.reads.is_set()

    def stream(self) -> EventStream:
        return EventStream(self.send, self.send, {}, None, self.write_now)

    @property
    def text(self) -> bytes:
        return b"".join(self.got)


def test_a_piece_that_waits_is_overtaken_by_none() -> None:
    async def scenario() -> None:
        client = Client()
        stream = client.stream()
        await stream.write(b"0")
        assert stream.push(b"1") is None
        client.reads.clear()
        waiting = [stream.push(b"2")]
        client.reads.set()
        waiting.append(stream.push(b"3"))
        assert client.text == HEAD + b"01"
        for each in reversed(waiting):
            assert each is not None
            await each
        assert stream.push(b"4") is None
        assert client.text == HEAD + b"01234"

    asyncio.run(scenario())


def test_of_two_first_pieces_one_brings_the_head() -> None:
    async def scenario() -> None:
        client = Client()
        stream = client.stream()
        one, two = stream.push(b"1"), stream.push(b"2")
        assert stream.has_begun
        assert one is not None
        assert two is not None
        await asyncio.gather(_waited(two), _waited(one))
        assert client.text == HEAD + b"12"

    asyncio.run(scenario())


@pytest.mark.parametrize("is_first", [True, False])
def test_what_nobody_waited_for_goes_out_before_what_follows(is_first: bool) -> None:
    async def scenario() -> None:
        client = Client()
        stream = client.stream()
        if not is_first:
            await stream.write(b"0")
        client.reads.clear()
        before = b"" if is_first else b"0"
        stream.push(b"1")
        gc.collect()  # a coroutine that nobody awaits is an error here
        task = asyncio.create_task(stream.write(b"2"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.reads.set()
        await stream.write(b"3")
        assert client.text == HEAD + before + b"123"
        assert stream.is_free

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(50))
def test_however_writers_come_wait_and_are_cancelled(seed: int) -> None:
    rng = random.Random(seed)

    async def scenario() -> None:
        client = Client()
        stream, pushed, tasks = client.stream(), b"", list[asyncio.Task[None]]()
        for n in range(100):
            data = b"%d," % n
            pushed += data
            waiting = stream.push(data)
            if waiting is not None and rng.random() < 0.7:
                tasks.append(asyncio.create_task(_waited(waiting)))
            if tasks and rng.random() < 0.3:
                rng.choice(tasks).cancel()
            if rng.random() < 0.3:
                rng.choice([client.reads.set, client.reads.clear])()
            if rng.random() < 0.5:
                await asyncio.sleep(0)
        client.reads.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        await stream.write(b"end")
        assert client.text == HEAD + pushed + b"end"

    asyncio.run(scenario())


async def _waited(waiting: Awaitable[None]) -> None:
    with suppress(asyncio.CancelledError):
        await waiting

"""The client of backends, against sockets that say what they are told to."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.http_client import HttpClient, HttpError, rest_of

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Server:
    """Answers the n-th request on any connection with the n-th of `answers`; after one that is
    marked as its last, the connection is closed."""

    def __init__(self, *answers: bytes, closes: bool = False) -> None:
        self.answers = list(answers)
        self.closes = closes
        self.connections = 0
        self.heads: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                if not self.answers:
                    break
                writer.write(self.answers.pop(0))
                await writer.drain()
                if self.closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def client(self, user: str = "") -> AsyncIterator[HttpClient]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://{user}127.0.0.1:{port}/base"
        client = HttpClient(url, {"x-key": "1"}, Settings(connect_timeout=5))
        try:
            yield client
        finally:
            client.close()
            server.close()
            await server.wait_closed()


async def whole(client: HttpClient, path: str = "/") -> bytes:
    answer = await client.request("GET", path)
    try:
        return await rest_of(answer, 2**30)
    finally:
        client.release(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ],
    ids=["a length", "chunks", "the connection's end", "HTTP/1.0", "a word before it"],
)
def test_a_body_ends_as_its_head_says(answer: bytes) -> None:
    async def scenario() -> None:
        async with Server(answer, closes=True).client() as client:
            assert await whole(client) == b"hello"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello",
        CHUNKED + b"6\r\nhello",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"no number\r\n",
        b"this is no HTTP\r\n\r\n",
    ],
)
def test_what_breaks_off_never_looks_whole(answer: bytes) -> None:
    async def scenario() -> None:
        async with Server(answer, closes=True).client() as client:
            with pytest.raises(HttpError):
                await whole(client)

    asyncio.run(scenario())


def test_a_connection_is_used_again_when_its_answer_was_read_to_the_end() -> None:
    async def scenario() -> None:
        server = Server(EMPTY, EMPTY, CHUNKED + b"2\r\nhe\r\n", EMPTY)
        async with server.client() as client:
            await whole(client)
            await whole(client)
            assert server.connections == 1
            answer = await client.request("GET", "/")
            assert await answer.read() == b"he"
            client.release(answer)  # and nobody reads on
            await whole(client)
            assert server.connections == 2

    asyncio.run(scenario())


def test_a_connection_that_was_closed_while_idle_is_replaced() -> None:
    async def scenario() -> None:
        server = Server(EMPTY, EMPTY, closes=True)
        async with server.client() as client:
            await whole(client)
            # The end of the first connection is not known yet when the second request is made.
            await whole(client)
            assert server.connections == 2

    asyncio.run(scenario())


def test_what_a_request_says() -> None:
    async def scenario() -> None:
        server = Server(EMPTY, EMPTY)
        async with server.client(user="me:p%40ss@") as client:
            await whole(client, "/v1/models")
            answer = await client.request("POST", "/v1/completions", b"")
            client.release(answer)
        got, posted = server.heads
        assert got.startswith("GET /base/v1/models HTTP/1.1\r\nauthorization: Basic bWU6cEBzcw==")
        assert "\r\nhost: 127.0.0.1:" in got
        assert "\r\nx-key: 1\r\n" in got
        assert "content-length" not in got
        assert posted.endswith("\r\ncontent-length: 0\r\n\r\n")

    asyncio.run(scenario())


def test_a_body_that_nobody_reads_waits_at_the_server() -> None:
    size = 64 * 1024 * 1024

    async def scenario() -> None:
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size
        async with Server(answer).client() as client:
            asked = await client.request("GET", "/")
            await asyncio.sleep(0.2)
            first = len(await asked.read())
            assert 0 < first < 4 * 1024 * 1024
            assert first + len(await rest_of(asked, size)) == size
            client.release(asked)

    asyncio.run(scenario())


def test_a_server_that_does_not_answer_in_time_leaves_no_connection() -> None:
    async def scenario() -> None:
        async with Server(b"").client() as client:
            with pytest.raises((asyncio.TimeoutError, HttpError)):
                await asyncio.wait_for(whole(client), 0.1)

    asyncio.run(scenario())


def test_a_post_is_sent_once_however_many_idle_connections_turn_out_closed() -> None:
    """The server reads the request and closes the connection without a word."""

    async def scenario() -> None:
        server = Server(*[EMPTY] * 4)
        async with server.client() as client:
            answers = [await client.request("GET", "/") for _ in range(4)]
            for answer in answers:
                client.release(answer)
            assert server.connections == 4
            with pytest.raises(HttpError):
                await client.request("POST", "/v1/completions", b"{}")
            posts = [head for head in server.heads if head.startswith("POST")]
            assert len(posts) == 1

    asyncio.run(scenario())


def test_an_idle_connection_that_the_server_has_closed_is_not_written_to() -> None:
    heads: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        """Closes every connection after its first answer, outside of the client's loop."""
        for _ in range(2):
            connection, _ = listening.accept()
            heads.append(connection.recv(65536))
            connection.sendall(EMPTY)
            connection.close()

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=serve, args=(listening,), daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            client = HttpClient(url, {}, Settings())
            client.release(await client.request("GET", "/"))
            time.sleep(0.2)  # its end has come, and the loop has not looked
            client.release(await client.request("POST", "/", b"{}"))
            client.close()
            thread.join(10)
        assert [head.split(b" ")[0] for head in heads] == [b"GET", b"POST"]

    asyncio.run(scenario())

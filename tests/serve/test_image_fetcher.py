"""Pictures that the gateway fetches: every way around the rules, on real sockets.

A server of the test stands on 127.0.0.1, which is public there; 127.0.0.2 is not.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from dsv4.errors import ImageError
from dsv4.serve.images.image_fetcher import ImageFetcher, PictureUrl

PIXEL = b"GIF89a\x01\x00\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
MOST = 1000
OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.2"


class PictureServer:
    """Answers each request with the next of what it was given: bytes, or pieces without an end."""

    def __init__(self, *answers: bytes | Callable[[int], Sequence[bytes]]) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[PictureServer]:
        server = await asyncio.start_server(self._answer, OUTSIDE, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    def url(self, path: str = "/cat.gif", host: str = "cats.example") -> str:
        return f"http://{host}:{self.port}{path}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            if isinstance(answer, bytes):
                writer.write(answer.replace(b"PORT", str(self.port).encode()))
            else:
                for n in range(10**6):
                    for piece in answer(n):
                        writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


def answer(body: bytes = PIXEL, status: str = "200 OK", **headers: object) -> bytes:
    given = {"content_length": len(body), **headers}
    head = "".join(f"{n.replace('_', '-')}: {v}\r\n" for n, v in given.items() if v is not None)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirect(to: str) -> bytes:
    return answer(b"", "302 Found", location=to)


async def names(host: str, port: int) -> Sequence[str]:
    return {"inside.example": [INSIDE], "both.example": [OUTSIDE, INSIDE]}.get(host, [OUTSIDE])


def fetched(server: PictureServer, url: str | None = None, **options: object) -> bytes:
    async def scenario() -> bytes:
        async with server.running():
            known = {"resolve": names, "may_ask": OUTSIDE.__eq__, **options}
            fetcher = ImageFetcher(**known)  # type: ignore[arg-type]
            return await fetcher.fetched(url or server.url(), MOST)

    return asyncio.run(asyncio.wait_for(scenario(), 30))


def refusal(server: PictureServer, url: str | None = None, **options: object) -> str:
    with pytest.raises(ImageError) as caught:
        fetched(server, url, **options)
    return str(caught.value)


def test_a_picture_is_fetched() -> None:
    server = PictureServer(answer())
    assert fetched(server) == PIXEL
    [request] = server.requests
    assert request.startswith(b"GET /cat.gif HTTP/1.1\r\nhost: cats.example:")


@pytest.mark.parametrize("kind", ["image/png", "text/html", "application/json", ""])
def test_the_type_that_a_server_names_makes_no_difference(kind: str) -> None:
    assert fetched(PictureServer(answer(content_type=kind))) == PIXEL


def test_redirects_are_followed_and_counted() -> None:
    near = [redirect("/b"), redirect("//dogs.example:PORT/c"), redirect("http://x.example:PORT/d")]
    server = PictureServer(*near, answer())
    assert fetched(server) == PIXEL
    assert [request.split()[1] for request in server.requests] == [b"/cat.gif", b"/b", b"/c", b"/d"]
    assert "more than 3 redirects" in refusal(PictureServer(redirect("/again")))


@pytest.mark.parametrize(
    "target",
    [
        "http://inside.example:PORT/",
        "http://both.example:PORT/",
        "//inside.example/latest/meta-data",
    ],
)
def test_a_redirect_to_what_is_not_public_is_refused(target: str) -> None:
    server = PictureServer(redirect(target), answer())
    assert "found no public address" in refusal(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://cats.example/", "data:text/plain,x", "gopher://x/"]
)
def test_a_redirect_to_another_scheme_is_refused(target: str) -> None:
    assert "expected http://… or https://…" in refusal(PictureServer(redirect(target)))


@pytest.mark.parametrize("host", ["inside.example", "both.example"])
def test_every_address_of_a_host_must_be_public(host: str) -> None:
    server = PictureServer(answer())
    assert "found no public address" in refusal(server, f"http://{host}:1/")
    assert server.requests == []


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost", "0.0.0.0"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::]", "169.254.169.254", "[fe80::1]", "10.0.0.1"),
    ],
)
def test_addresses_of_this_machine_and_its_network_are_refused(host: str) -> None:
    """With the real rules, and the system's own resolver."""

    async def scenario(server: PictureServer) -> str:
        async with server.running():
            fetcher = ImageFetcher()
            try:
                with pytest.raises(ImageError) as caught:
                    await fetcher.fetched(server.url(host=host), MOST)
                return str(caught.value)
            finally:
                fetcher.close()

    server = PictureServer(answer())
    problem = asyncio.run(asyncio.wait_for(scenario(server), 30))
    assert "no public address" in problem or "cannot be fetched" in problem
    assert server.requests == []


def test_a_name_is_asked_for_once_and_what_was_checked_is_connected_to() -> None:
    """Else a second answer of the name server could lead inside."""
    asked = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return [OUTSIDE] if len(asked) == 1 else [INSIDE]

    server = PictureServer(answer())
    assert fetched(server, resolve=rebinding) == PIXEL
    assert asked == ["cats.example"]


def test_after_a_redirect_the_same_name_is_checked_again() -> None:
    answers = iter([[OUTSIDE], [INSIDE]])

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return next(answers)

    server = PictureServer(redirect("/again"), answer())
    assert "found no public address" in refusal(server, resolve=rebinding)
    assert len(server.requests) == 1


def endless(_: int) -> Sequence[bytes]:
    return [b"x" * 65536]


def endless_body(n: int) -> Sequence[bytes]:
    return [b"HTTP/1.1 200 OK\r\n\r\n" if n == 0 else b"x" * 65536]


def endless_chunks(n: int) -> Sequence[bytes]:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    return [head if n == 0 else b"10000\r\n" + b"x" * 65536 + b"\r\n"]


def endless_head(n: int) -> Sequence[bytes]:
    return [b"HTTP/1.1 200 OK\r\n" if n == 0 else b"x-%d: %s\r\n" % (n, b"y" * 4096)]


def endless_interim(n: int) -> Sequence[bytes]:
    return [b"HTTP/1.1 103 Early Hints\r\nx: %s\r\n\r\n" % (b"y" * 4096)]


BOMB = gzip.compress(bytes(10**7))
TOO_MUCH = {
    "a length above the limit": (answer(content_length=10**9), "more than 1000 bytes"),
    "a length of many digits": (answer(content_length="9" * 30), ""),
    "a body above the limit": (answer(bytes(2000)), "more than 1000 bytes"),
    "a body without an end": (endless_body, "more than 1000 bytes"),
    "chunks without an end": (endless_chunks, "more than 1000 bytes"),
    "a compressed bomb": (answer(BOMB, content_encoding="gzip"), "more than 1000 bytes"),
    "a coding that nobody asked for": (answer(content_encoding="br"), "compressed by br"),
    "a head without an end": (endless_head, "its head is too long"),
    "interim answers without an end": (endless_interim, "its head is too long"),
    "no HTTP": (endless, "no HTTP"),
    "a body that breaks off": (answer(content_length=100), "closed the connection"),
    "nothing": (b"", "closed the connection"),
    "an error": (answer(status="404 Not Found"), "found the status 404"),
    "an empty redirect": (answer(b"", "302 Found"), "more than 3 redirects"),
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_what_a_server_may_not_do(kind: str) -> None:
    given, problem = TOO_MUCH[kind]
    assert problem in refusal(PictureServer(given))


def test_a_slow_body_ends_at_the_deadline() -> None:
    def slow(n: int) -> Sequence[bytes]:
        return [answer(b"", content_length=MOST)] if n == 0 else []

    assert "no end of it within 0.2 s" in refusal(PictureServer(slow), seconds=0.2)


def test_a_slow_name_server_ends_at_the_deadline() -> None:
    async def slow(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        return []

    problem = refusal(PictureServer(answer()), resolve=slow, seconds=0.1)
    assert "no end of it within 0.1 s" in problem


NO_URLS = [
    "file:///etc/passwd",
    "/etc/passwd",
    "cat.png",
    "ftp://x/",
    "http://",
    "http:///x",
    "http://:80/",
    "http://x:0/",
    "http://x:99999/",
    "http://x:y/",
    "https://user:secret@x/",
    "http://@x/",
    "javascript:alert(1)",
    "//x/y",
    "http://[::1",
    "http://a..b/",
    "http://x%00y/",
    "http://[fe80::1%25eth0]/",
]


@pytest.mark.parametrize("url", [*NO_URLS, "", "http://a b/", "http://x\x00y/"])
def test_what_is_no_address_of_a_picture(url: str) -> None:
    with pytest.raises(ImageError, match="expected http"):
        PictureUrl.of(url)


def test_nothing_of_an_address_becomes_a_line_of_the_request() -> None:
    request = PictureUrl.of("http://cats.example/a b\r\nx: y?ü=%41#frag").request
    assert request.splitlines()[0] == b"GET /a%20bx:%20y?%C3%BC=%41 HTTP/1.1"
    assert b"\r\nx: y" not in request
    wide = PictureUrl.of("https://bücher.example:8443/")
    assert b"host: xn--bcher-kva.example:8443\r\n" in wide.request


def test_errors_tell_nothing_of_the_network() -> None:
    problem = refusal(PictureServer(answer()), "http://cats.example:1/")
    assert problem == "'http://cats.example:1/': it cannot be fetched: no connection"

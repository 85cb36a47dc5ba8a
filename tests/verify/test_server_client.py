"""One request over HTTP, to servers that answer in every wrong way there is.

Each has a deadline or a bound on its size: where that did not hold, a test here would not end.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from http_servers import behaving, served
from stand_ins import VLLM, StandIn

from dsv4.verify import HttpServer, Reply, ServerProblem
from dsv4.verify.sending import observed
from dsv4.verify.server_client import MOST_ATTEMPTS, MOST_BYTES, check_url
from rows import each_row

Send: TypeAlias = Callable[[bytes], None]
KEY = "sk-secret-1234"
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
SECONDS = 0.3
never = threading.Event()


def asked(behaviour: Callable[[Send], None], seconds: float = 20.0) -> Reply:
    with behaving(behaviour) as there:
        return HttpServer(there.url, KEY, seconds).post("/chat/completions", {"messages": []})


def says_nothing(send: Send) -> None:
    never.wait(20)


def closes_at_once(send: Send) -> None:
    return


def drips(head: bytes) -> Callable[[Send], None]:
    def behaviour(send: Send) -> None:
        send(head)
        while not never.wait(0.02):
            send(b" ")

    return behaviour


def repeats(head: bytes, block: bytes) -> Callable[[Send], None]:
    def behaviour(send: Send) -> None:
        send(head)
        while True:
            send(block)

    return behaviour


def once(data: bytes) -> Callable[[Send], None]:
    return lambda send: send(data)


def body(data: bytes, head: bytes = JSON_HEAD) -> Callable[[Send], None]:
    return once(head + b"content-length: %d\r\n\r\n" % len(data) + data)


class TestBoundedTime:
    @pytest.mark.parametrize(
        "behaviour",
        [
            says_nothing,
            drips(b""),
            drips(JSON_HEAD),
            drips(JSON_HEAD + b"\r\n"),
            drips(JSON_HEAD + b"connection: close\r\ncontent-length: 100000\r\n\r\n"),
            drips(STREAM_HEAD),
            repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ],
        ids=["silent", "no-head", "half-a-head", "body", "closing", "stream", "continue"],
    )
    def test_a_server_that_never_ends_its_answer(self, behaviour: Callable[[Send], None]) -> None:
        assert asked(behaviour, SECONDS).problem == "no complete answer within 0.3 seconds"

    def test_a_server_that_asks_to_wait_for_a_year(self) -> None:
        reply = asked(once(b"HTTP/1.1 429 No\r\nretry-after: 31536000\r\n\r\n{}"))
        assert reply.problem == "the server asks to wait 31,536,000 seconds (status 429)"

    @pytest.mark.parametrize("after", [b"Wed, 21 Oct 2026 07:28:00 GMT", b"nan", b"inf"])
    def test_a_wait_that_is_no_number(self, after: bytes) -> None:
        reply = asked(once(b"HTTP/1.1 429 No\r\nretry-after: " + after + b"\r\n\r\n{}"))
        assert "asks to wait" in reply.problem

    def test_a_server_that_always_asks_for_a_little_patience(self) -> None:
        with behaving(once(b"HTTP/1.1 429 No\r\nretry-after: 0\r\n\r\n{}")) as there:
            assert HttpServer(there.url).post("/chat/completions", {}).status == 429
        assert len(there.received) == MOST_ATTEMPTS


def test_each_event_has_its_time() -> None:
    events = b'data: {"n": 1}\n\ndata: {"n": 2}\n\ndata: [DONE]\n\n'
    reply = asked(once(STREAM_HEAD + events))
    assert [event["n"] for event in reply.events] == [1, 2]
    assert len(reply.times) == 2
    assert 0 < reply.times[0] <= reply.times[1]


class TestBoundedMemory:
    def test_an_answer_that_does_not_end(self) -> None:
        with behaving(repeats(JSON_HEAD + b"\r\n", b"[" * 65536)) as there:
            reply = HttpServer(there.url).post("/chat/completions", {})
        assert reply.problem == "an answer of more than 8,388,608 bytes"
        assert there.sent < 4 * MOST_BYTES  # with what is in the buffers between the two

    def test_a_stream_of_one_endless_line(self) -> None:
        reply = asked(repeats(STREAM_HEAD, b"data: " + b"x" * 65536))
        assert reply.problem

    def test_a_stream_of_endless_events(self) -> None:
        reply = asked(repeats(STREAM_HEAD, b'data: {"choices": []}\n\n' * 100))
        assert reply.problem == "a stream that does not end"

    def test_headers_that_do_not_end(self) -> None:
        reply = asked(repeats(JSON_HEAD, b"x-more: 1\r\n"))
        assert "does not speak HTTP" in reply.problem

    def test_a_compressed_answer_is_not_unpacked(self) -> None:
        bomb = zlib.compress(bytes(10_000_000))
        reply = asked(body(bomb, JSON_HEAD + b"content-encoding: deflate\r\n"))
        assert reply.problem == "a compressed answer, which was not asked for"

    def test_json_that_is_nested_too_deep(self) -> None:
        assert "in place of JSON" in asked(body(b"[" * 100_000)).problem

    def test_a_number_of_very_many_digits(self) -> None:
        reply = asked(body(b'{"usage": {"prompt_tokens": ' + b"9" * 100_000 + b"}}"))
        assert observed("plain", reply).count is None


class TestClearWords:
    @each_row(
        "behaviour, words",
        [
            (closes_at_once, "ends the connection before its answer is complete"),
            (once(b"SSH-2.0-OpenSSH_9.6\r\n"), "does not speak HTTP"),
            (once(b"\x00\xff\x00"), "does not speak HTTP"),
            (
                once(JSON_HEAD + b'content-length: 100\r\n\r\n{"usage"'),
                "an answer that breaks off after 8 bytes",
            ),
            (
                once(JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n10\r\n{"),
                "ends the connection before its answer is complete",
            ),
            (once(STREAM_HEAD + b'data: {"choi'), "an event that is no JSON"),
            (body(b"<html>Not here</html>"), "HTML in place of JSON (status 200)"),
            (body(b"hello"), "something in place of JSON (status 200)"),
            (body(b""), "something in place of JSON (status 200)"),
        ],
    )
    def test_what_is_wrong_is_said(self, behaviour: Callable[[Send], None], words: str) -> None:
        assert words in asked(behaviour).problem

    def test_a_wrong_content_type_is_no_problem(self) -> None:
        answer = json.dumps({"usage": {"prompt_tokens": 84}}).encode()
        reply = asked(body(answer, b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"))
        assert (reply.status, reply.body) == (200, {"usage": {"prompt_tokens": 84}})

    def test_nobody_listens(self) -> None:
        with behaving(closes_at_once) as there:
            pass
        reply = HttpServer(there.url).post("/chat/completions", {})
        assert reply.problem == "no server answers at this address"

    def test_a_server_without_tls(self) -> None:
        with behaving(once(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as there:
            secure = there.url.replace("http:", "https:")
            assert (
                HttpServer(secure)
                .post("/chat/completions", {})
                .problem.startswith("no secure connection")
            )


@pytest.mark.parametrize(
    ("header", "adapted"),
    [
        (b"developer,later-system", ("developer", "later-system")),
        (b"", ()),
        (b"developer, \x1b[31m", ()),
        (b"a" * 5_000, ()),
    ],
)
def test_what_heal_says_that_it_changed_is_ids_or_nothing(
    header: bytes, adapted: tuple[str, ...]
) -> None:
    named = b"x-dsv4-adapted: " + header + b"\r\n"
    for head in (JSON_HEAD + named, STREAM_HEAD.removesuffix(b"\r\n") + named):
        assert asked(body(b"{}", head)).adapted == adapted


class TestKeys:
    def test_a_redirect_is_not_followed(self) -> None:
        with behaving(body(b"{}")) as elsewhere:
            moved = f"HTTP/1.1 307 Moved\r\nlocation: {elsewhere.url}\r\n\r\n".encode()
            reply = asked(once(moved))
        assert reply.problem == "a redirect (status 307), which is not followed"
        assert elsewhere.received == []

    def test_a_key_goes_with_each_request_and_is_not_shown(self) -> None:
        with behaving(body(b"{}")) as there:
            server = HttpServer(there.url, KEY)
            server.post("/chat/completions", {})
        assert f"authorization: Bearer {KEY}".encode() in there.received[0]
        assert KEY not in repr(server)

    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("ftp://example.com", "expected a URL such as"),
            ("example.com/v1", "expected a URL such as"),
            ("http://[::1", "the URL cannot be read"),
            ("http://localhost:99999999/v1", "the URL cannot be read"),
            ("https://user:pass@example.com/v1", "found a password in the URL"),
            ("https://example.com/v1?api_key=x", "found a key in the URL"),
            ("http://example.com/v1", "the key would be sent unencrypted"),
        ],
    )
    def test_an_address_that_might_leak_it_is_refused(self, url: str, words: str) -> None:
        with pytest.raises(ServerProblem, match=words.replace("?", ".")):
            check_url(url, has_key=True)

    def test_a_key_may_go_to_this_machine_or_where_it_is_allowed(self) -> None:
        assert check_url("http://localhost:8000/v1/", has_key=True) == "http://localhost:8000/v1"
        assert check_url("http://example.com", has_key=True, insecure=True)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(StandIn(VLLM)) as url:
        yield url


def test_whole_and_streamed_answers_are_read(address: str) -> None:
    question = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    server = HttpServer(address)
    assert server.post("/chat/completions", question).body["usage"]["prompt_tokens"] == 84
    streamed = server.post("/chat/completions", {**question, "stream": True})
    assert streamed.events[-1]["usage"]["prompt_tokens"] == 84

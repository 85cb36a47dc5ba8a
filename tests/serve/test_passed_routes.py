"""Routes of the chat server that the gateway does not know."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import pytest
from aiohttp import web
from gateway import gateway, gateway_before, key_file, run
from standins import ChatServer, lower

from dsv4.serve.observe.records import differences, read_exchange
from dsv4.tokens import Tokenizer


class Embeddings(ChatServer):
    """A server with one more route."""

    routes: ClassVar[dict[str, str]] = {**ChatServer.routes, "/v1/embeddings": "embed"}

    async def embed(self, request: web.Request) -> web.Response:
        asked = await request.json() if request.can_read_body else None
        self.headers.append(dict(request.headers))
        found = {"method": request.method, "query": request.query_string, "asked": asked}
        return web.json_response(found, status=201)


def test_are_passed_on_with_the_keys_of_the_gateway(tokenizer: Tokenizer, tmp_path: Path) -> None:
    keys, own = tmp_path / "keys", tmp_path / "own"
    keys.write_text("a:client-key-0123\n")
    own.write_text("upstream-key")

    async def scenario() -> None:
        upstream = Embeddings(tokenizer, "[]")
        given: dict[str, Any] = {"api_key_file": str(keys), "upstream_key_file": str(own)}
        async with gateway_before(upstream.running(), **given) as g:
            body, key = {"input": ["a"]}, {"authorization": "Bearer client-key-0123"}
            status, _, answer = await g.post("/v1/embeddings?x=1", body, **key)
            assert (status, answer) == (201, {"method": "POST", "query": "x=1", "asked": body})
            assert upstream.headers[-1]["Authorization"] == "Bearer upstream-key"
            assert (await g.post("/v1/embeddings", body))[0] == 401
            assert (await g.get("/v1/nothing", **key))[0] == 404
            form = {**key, "content-type": "multipart/form-data"}
            status, _, answer = await g.post("/v1/embeddings", b"x", **form)
            assert status == 415
            assert "expected JSON" in answer["error"]["message"]

    run(scenario())


def test_answers_keep_what_says_how_to_read_them(tokenizer: Tokenizer) -> None:
    class Compressing(Embeddings):
        async def embed(self, request: web.Request) -> web.Response:
            self.headers.append(dict(request.headers))
            kept = {"content-encoding": "gzip", "retry-after": "7", "x-request-id": "theirs"}
            headers = kept if request.query_string else {}
            body = gzip.compress(b'{"a": 1}') if headers else b'{"a": 1}'
            return web.Response(body=body, content_type="application/json", headers=headers)

    async def scenario() -> None:
        upstream = Compressing(tokenizer, "[]")
        async with gateway_before(upstream.running()) as g:
            named = {"x-request-id": "mine"}
            _, headers, answer = await g.post("/v1/embeddings?x=1", {}, **named)
            assert answer == {"a": 1}
            assert (headers["retry-after"], headers["x-request-id"]) == ("7", "theirs")
            _, headers, answer = await g.post("/v1/embeddings", {}, **named)
            assert (answer, headers["x-request-id"]) == ({"a": 1}, "mine")
            assert lower(upstream.headers[-1])["x-request-id"] == "mine"

    run(scenario())


def test_keys_have_their_limits_there_too(
    tokenizer: Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = key_file(tmp_path, "old:a expires=2020-01-01\nnarrow:b models=this\nslow:c requests=1\n")

    async def scenario() -> None:
        upstream = Embeddings(tokenizer, "[]")
        given: dict[str, Any] = {"settings_backend": "chat", "api_key_file": str(keys)}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:

            async def post(key: str, model: str = "this") -> int:
                body = {"model": model, "input": "a"}
                status, _, _ = await g.post("/v1/embeddings", body, **{"x-api-key": key})
                return int(status)

            assert await post("a") == 401
            assert [await post("b"), await post("b", "that")] == [201, 403]
            assert [await post("c"), await post("c")] == [201, 429]
            for _ in range(6):
                assert await post("wrong") == 401
            assert await post("b") == 201

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario())
    passed = [getattr(record, "dsv4_fields", {}) for record in caplog.records]
    assert [line["status"] for line in passed[:5]] == [401, 201, 403, 201, 429]
    assert passed[1]["key"] == "narrow"


class Endless(Embeddings):
    """A server whose answer has no end."""

    async def embed(self, request: web.Request) -> Any:
        return await self.sent(request, [b"data: {}\n\n"] * 10_000)


def test_who_goes_away_and_what_breaks_off(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        upstream = Endless(tokenizer, "[]", pause=0.01)
        async with upstream.running() as url, gateway(settings_backend="chat", upstream=url) as g:
            asked = g.client.post(f"{g.url}/v1/embeddings", data=b"{}")
            async with asked as response:
                assert response.status == 200
                await response.content.readany()
            while not upstream.disconnects:  # at once, and not after the last event
                await asyncio.sleep(0.01)
            async with g.client.post(f"{g.url}/v1/embeddings", data=b"{}") as response:
                await response.content.readany()
                upstream.dies()
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()

    run(scenario(), seconds=20)


class Lingering(Embeddings):
    """A server that says all and takes its time to end the body."""

    last_event = b""

    async def embed(self, request: web.Request) -> Any:
        return await self.sent(request, [b"data: {}\n\n", self.last_event])


@pytest.mark.parametrize(
    ("last_event", "status"),
    [
        (b"data: [DONE]\n\n", 200),
        (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', 200),
        (b'data: {"type": "response.completed", "response": {}}\r\n\r\n', 200),
        (b'data: {"type": "response.created", "response": {}}\n\n', 499),
        (b'data: {"text": "[DONE]"}\n\n', 499),
        (b"data: []\n\n", 499),
    ],
)
def test_a_client_that_leaves_with_the_last_event_was_answered(
    last_event: bytes, status: int, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        upstream = Lingering(tokenizer, "[]", pause=0.2)
        upstream.last_event = last_event
        async with gateway_before(upstream.running()) as g:
            async with g.client.post(f"{g.url}/v1/embeddings", data=b"{}") as response:
                came = b""
                while not came.endswith(last_event):
                    came += await response.content.readany()
            while not upstream.disconnects:
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario(), seconds=20)
    lines = [getattr(record, "dsv4_fields", {}) for record in caplog.records]
    assert [line["status"] for line in lines if "status" in line] == [status]


def test_an_engine_that_is_drained_is_not_asked(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        first, second = Embeddings(tokenizer, "[]"), Embeddings(tokenizer, "[]")
        async with (
            first.running() as one,
            second.running() as two,
            gateway(settings_backend="chat", upstream=(one, two)) as g,
        ):
            g.server.engines.drain(one, True)
            assert (await g.post("/v1/embeddings", {}))[0] == 201
            assert (len(first.headers), len(second.headers)) == (0, 1)

    run(scenario())


@pytest.mark.parametrize("status", [302, 401])
def test_what_is_between_gateway_and_server_is_not_shown_to_clients(
    status: int, tokenizer: Tokenizer
) -> None:
    class Refusing(Embeddings):
        async def embed(self, request: web.Request) -> web.Response:
            return web.Response(status=status, text="Incorrect API key provided: sk-secret")

    async def scenario() -> None:
        upstream = Refusing(tokenizer, "[]")
        async with gateway_before(upstream.running()) as g:
            answered, headers, body = await g.post("/v1/embeddings", {"input": "a"})
            assert (answered, headers["x-should-retry"]) == (502, "false")
            assert "sk-secret" not in str(body)
            assert f"(status {status})" in body["error"]["message"]

    run(scenario())


def test_only_where_a_chat_server_is_behind_the_gateway() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            assert (await g.post("/v1/embeddings", {"input": "a"}))[0] == 404

    run(scenario())


class Open(ChatServer):
    """A server that answers whatever it is asked for, and says what that was."""

    routes: ClassVar[dict[str, str]] = {**ChatServer.routes, "/{path:.*}": "anything"}
    usage: ClassVar[dict[str, Any] | None] = {"prompt_tokens": 30, "completion_tokens": 12}

    async def anything(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        body = {"path": request.raw_path, "method": request.method}
        headers = {"x-request-id": "theirs", "retry-after": "7", "x-secret": "inside"}
        return web.json_response(
            {**body, "usage": self.usage} if self.usage else body, headers=headers
        )


# Method, path, and what comes of it for any key; those of administrators reach all that is 404.
DOORS = [
    ("POST", "/v1/completions", 200),
    ("POST", "/v1/embeddings", 200),
    ("POST", "/v1/rerank", 200),
    ("POST", "/v1/audio/speech", 200),
    ("GET", "/version", 200),
    ("POST", "/v1/score", 200),  # by the setting of the tests
    ("GET", "/v1/files/file-1/content", 200),  # likewise
    ("GET", "/v1/files", 404),
    ("GET", "/v1/completions", 404),
    ("DELETE", "/v1/embeddings", 404),
    ("POST", "/v2/rerank", 404),
    ("POST", "/shutdown", 404),
    ("POST", "/update_weights_from_disk", 404),
    ("POST", "/v1/audio", 404),
    ("POST", "/v1/load_lora_adapter", 404),
    ("GET", "/server_info", 404),
    ("DELETE", "/v1/files/file-1", 404),
    ("POST", "//v1/chat/completions", 400),
    ("POST", "/v1//completions", 400),
    ("POST", "/v1/audio/../../shutdown", 400),
    ("POST", "/v1/audio/%2e%2e/%2E%2E/shutdown", 400),
    ("POST", "/v1/audio/..%2f..%2fshutdown", 400),
    ("POST", "/v1/audio/..%5cshutdown", 400),
    ("GET", "/../tenant-b/v1/models", 400),
    ("POST", "/./shutdown", 400),
]
SETTINGS = {"passed_routes": ("POST /v1/score", "GET /v1/files/*"), "settings_backend": "chat"}


async def raw_status(url: str, method: str, path: str, key: str) -> int:
    """The status of a request whose path goes out as it stands: clients tidy it up."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\nconnection: close\r\n"
    body = "content-length: 2\r\n\r\n{}" if method == "POST" else "\r\n"
    writer.write((head + body).encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1])


def test_who_reaches_which_route(tokenizer: Tokenizer, tmp_path: Path) -> None:
    keys = key_file(tmp_path, "user:u\nadmin root:r\n")

    async def scenario() -> None:
        upstream = Open(tokenizer, "[]")
        async with (
            upstream.running() as url,
            gateway(upstream=url, api_key_file=str(keys), **SETTINGS) as g,
        ):
            for method, path, status in DOORS:
                upstream.headers.clear()
                assert (await raw_status(g.url, method, path, "u"), path) == (status, path)
                assert len(upstream.headers) == (status == 200), path
                for_admins = 200 if status == 404 else status
                assert (await raw_status(g.url, method, path, "r"), path) == (for_admins, path)

    run(scenario())


def test_a_post_needs_no_body(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """As `/sleep` and `/wake_up` of vLLM have none."""
    keys = key_file(tmp_path, "admin root:r\n")

    async def scenario() -> None:
        upstream = Open(tokenizer, "[]")
        given: dict[str, Any] = {"settings_backend": "chat", "api_key_file": str(keys)}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:
            assert (await g.post("/sleep", b"", **{"x-api-key": "r"}))[0] == 200
            assert len(upstream.headers) == 1

    run(scenario())


def test_where_no_keys_are_asked_for_nobody_is_an_administrator_there(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        upstream = Open(tokenizer, "[]")
        async with upstream.running() as url, gateway(upstream=url, **SETTINGS) as g:
            for method, path, status in DOORS:
                assert (await raw_status(g.url, method, path, ""), path) == (status, path)

    run(scenario())


@pytest.mark.parametrize(("usage", "allowed"), [(Open.usage, 3), (None, 100)])
def test_what_is_passed_on_is_counted_against_the_limit_of_tokens(
    usage: dict[str, Any] | None, allowed: int, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    keys = key_file(tmp_path, "narrow:n tokens=100\nadmin watcher:w\n")

    async def scenario() -> None:
        upstream = Open(tokenizer, "[]")
        upstream.usage = usage  # type: ignore[misc]
        async with (
            upstream.running() as url,
            gateway(upstream=url, api_key_file=str(keys), **SETTINGS) as g,
        ):
            answers, body, key = 0, {"prompt": "x"}, {"x-api-key": "n"}
            while (await g.post("/v1/completions", body, **key))[0] == 200:
                answers += 1
                assert answers <= allowed
            assert answers == (3 if usage else answers) > 0
            # What keys have used is for administrators.
            text = (await g.get("/metrics", **{"x-api-key": "w"}))[1]
            assert 'dsv4_key_tokens_total{key="narrow",kind="prompt"}' in text

    run(scenario())


def test_the_head_of_the_answer_keeps_what_clients_act_on(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        upstream = Open(tokenizer, "[]")
        async with upstream.running() as url, gateway(upstream=url, **SETTINGS) as g:
            _, headers, _ = await g.post("/v1/embeddings", {"input": "a"})
            assert (headers["x-request-id"], headers["retry-after"]) == ("theirs", "7")
            assert "x-secret" not in headers

    run(scenario())


def test_what_is_passed_on_is_recorded_and_replayed_without_complaint(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    record = tmp_path / "record.jsonl"

    async def scenario() -> None:
        upstream = Open(tokenizer, "[]")
        async with (
            upstream.running() as url,
            gateway(upstream=url, record=str(record), **SETTINGS) as g,
        ):
            await g.post("/v1/embeddings", {"input": "a"})

    run(scenario())
    exchange = read_exchange(json.loads(record.read_text("utf-8")))
    assert (exchange.request, exchange.prompt) == ({"input": "a"}, "/v1/embeddings")
    assert '"usage"' in exchange.completion
    assert differences(exchange, tokenizer) == []


def test_every_route_of_real_servers_is_open_or_for_administrators(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Of all that vLLM and SGLang register, users reach the listed routes and no other."""
    keys, recorded = tmp_path / "keys", Path(__file__).parent / "server_routes.json"
    keys.write_text("user:u\nadmin root:r\n")
    routes = sorted({r for each in json.loads(recorded.read_text("utf-8")).values() for r in each})
    open_to_all = {
        *("GET /version", "POST /v1/completions", "POST /v1/embeddings", "POST /v1/rerank"),
        *("POST /v1/audio/transcriptions", "POST /v1/audio/translations"),
    }

    async def scenario() -> None:
        upstream = Open(tokenizer, "[]")
        given: dict[str, Any] = {"settings_backend": "chat", "api_key_file": str(keys)}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:

            async def reaches(route: str, key: str) -> bool:
                method, path = route.split(" ")
                upstream.headers.clear()
                await raw_status(g.url, method, re.sub(r"\{.*?\}", "x", path), key)
                return bool(upstream.headers)

            assert {route for route in routes if await reaches(route, "u")} == open_to_all
            admins = {route for route in routes if await reaches(route, "r")}
            assert {"POST /sleep", "POST /update_weights_from_disk", "POST /v1/score"} <= admins

    run(scenario())

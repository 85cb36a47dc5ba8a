"""Routes of the chat server that the gateway does not know."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import pytest
from aiohttp import web
from gateway import gateway, run
from standins import ChatServer

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
        async with (
            upstream.running() as url,
            gateway(settings_backend="chat", upstream=url, **given) as g,
        ):
            body, key = {"input": ["a"]}, {"authorization": "Bearer client-key-0123"}
            status, _, answer = await g.post("/v1/embeddings?x=1", body, **key)
            assert (status, answer) == (201, {"method": "POST", "query": "x=1", "asked": body})
            assert upstream.headers[-1]["Authorization"] == "Bearer upstream-key"
            assert (await g.post("/v1/embeddings", body))[0] == 401
            status, answer = await g.get("/v1/embeddings", **key)
            assert (status, answer["method"]) == (201, "GET")
            assert (await g.get("/v1/nothing", **key))[0] == 404
            form = {**key, "content-type": "multipart/form-data"}
            status, _, answer = await g.post("/v1/embeddings", b"x", **form)
            assert status == 415
            assert "expected JSON" in answer["error"]["message"]

    run(scenario())


def test_keys_have_their_limits_there_too(
    tokenizer: Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("old:a expires=2020-01-01\nnarrow:b models=this\nslow:c requests=1\n")

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
            assert g.server.access._wrong_keys.next_pause("127.0.0.1") > 0

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
        async with upstream.running() as url, gateway(settings_backend="chat", upstream=url) as g:
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

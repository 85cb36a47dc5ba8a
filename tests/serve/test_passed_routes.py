"""Routes of the chat server that the gateway does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

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


def test_only_where_a_chat_server_is_behind_the_gateway() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            assert (await g.post("/v1/embeddings", {"input": "a"}))[0] == 404

    run(scenario())

"""Heads of requests: how many headers one may have, and what the rest costs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from gateway import gateway, run

from dsv4.serve import asgi


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/models", "/nowhere"])
def test_many_small_headers_are_refused_before_anybody_looks_at_them(path: str) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            host, port = g.url.removeprefix("http://").split(":")

            async def asked(count: int) -> tuple[str, str]:
                reader, writer = await asyncio.open_connection(host, int(port))
                many = "".join(f"a{n}: b\r\n" for n in range(count))
                end = "content-length: 2\r\n\r\n{}"
                head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\n{many}{end}"
                writer.write(head.encode())
                status = (await reader.readline()).decode().split(" ")[1]
                body = "" if count < 500 else (await reader.read()).decode()
                writer.close()
                return status, body

            assert (await asked(400))[0] != "431"
            status, body = await asked(20_000)
            assert status == "431"
            assert "The request has more than 500 headers." in body

    run(scenario())


def test_no_more_headers_are_kept_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    guarded = asgi.DoorApp.__call__

    async def noted(app: Any, scope: Any, receive: Any, send: Any) -> None:
        seen.append(len(scope.get("headers", ())))
        await guarded(app, scope, receive, send)

    monkeypatch.setattr(asgi.DoorApp, "__call__", noted)

    async def scenario() -> None:
        async with gateway() as g:
            await g.post("/v1/chat/completions", {}, **{f"a{n}": "b" for n in range(5_000)})

    run(scenario())
    assert max(seen) == asgi.MOST_HEADERS + 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_http_1_0_gets_no_chunks(stream: bool) -> None:
    """It would take their sizes for text."""

    async def scenario() -> None:
        async with gateway() as g:
            reader, writer = await asyncio.open_connection("127.0.0.1", g.url.rpartition(":")[2])
            sent = {"messages": [{"role": "user", "content": "hi"}], "stream": stream}
            body = json.dumps(sent).encode()
            asked = "POST /v1/chat/completions HTTP/1.0\r\nhost: localhost\r\n"
            asked += f"content-length: {len(body)}\r\n\r\n"
            writer.write(asked.encode() + body)
            answer = await reader.read()  # up to the end of the connection
            answer_head, _, said = answer.partition(b"\r\n\r\n")
            assert b"chunked" not in answer_head.lower()
            if stream:
                assert said.startswith(b"data: {")
                assert said.endswith(b"data: [DONE]\n\n")
            else:
                assert json.loads(said)["choices"]
            writer.close()

    run(scenario())

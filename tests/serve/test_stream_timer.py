"""Requests that wait for a stream: they get keep-alives, may go away, and are refused
immediately if they could never be answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from gateway import Gateway, events_of, gateway, run

from dsv4.serve.asgi import StreamTimer
from dsv4.serve.settings import Settings
from dsv4.serve.workers.uvicorn_runner import BoundedProtocol

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 500}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": CHAT,
    "/v1/responses": {"input": "Hi"},
}
ENDS = ("message_stop", "response.completed")
every_path = pytest.mark.parametrize("path", BODIES)


async def waiting(g: Gateway, number: int) -> None:
    """Comes back when so many requests wait."""
    while g.server.gate.waiting != number:
        await asyncio.sleep(0.005)


@every_path
def test_signs_of_life_come_while_a_request_waits(path: str) -> None:
    async def scenario() -> None:
        async with gateway(streams=1, keep_alive=0.05) as g:
            data = json.dumps({**BODIES[path], "stream": True})
            with g.server.gate.place():
                response = await g.client.post(g.url + path, data=data)
                signs = [await response.content.readany() for _ in range(3)]
                assert g.server.gate.waiting == 1
            text = (b"".join(signs) + await response.content.read()).decode()
            events = events_of(text)
            if path == "/v1/responses":
                assert [event["sequence_number"] for event in events] == list(range(len(events)))
            assert "demo" in "".join(map(str, events))
            assert events[-1] == "[DONE]" or events[-1]["type"] in ENDS

    run(scenario())


def test_the_backend_is_not_late_before_it_is_asked() -> None:
    async def scenario() -> None:
        settings = Settings(keep_alive=0.05, total_timeout=0.05, first_byte_timeout=0.05)
        looks: asyncio.Queue[str] = asyncio.Queue()
        timer = StreamTimer(settings, lambda: looks.put_nowait("quiet"), looks.put_nowait)
        assert [await looks.get() for _ in range(3)] == ["quiet"] * 3
        timer.backend_asked()
        while await looks.get() != "total_timeout":
            pass
        timer.close()

    run(scenario())


@every_path
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_leaves_the_queue(path: str, stream: bool) -> None:
    async def scenario() -> None:
        async with gateway(streams=1) as g:
            with g.server.gate.place():
                body = {**BODIES[path], "stream": stream}
                asked = asyncio.create_task(g.post(path, body))
                await waiting(g, 1)
                asked.cancel()
                await waiting(g, 0)
            assert g.server.gate.running == 0

    run(scenario())


def test_a_prompt_that_is_too_long_does_not_wait() -> None:
    """Clients shorten their history where a status says so, and few where a stream does."""

    async def scenario() -> None:
        async with gateway(streams=1, context=2) as g:
            with g.server.gate.place():
                assert (await g.post("/v1/chat/completions", CHAT))[0] == 400

    run(scenario())


def test_the_inspector_shows_who_waits() -> None:
    async def scenario() -> None:
        async with gateway(streams=1, inspect=True) as g:
            assert g.server.inspector is not None
            with g.server.gate.place():
                asked = asyncio.create_task(g.post("/v1/chat/completions", CHAT))
                await waiting(g, 1)
                while (seen := g.server.inspector.get(1)) is None or seen.run is None:
                    await asyncio.sleep(0.005)
                assert (seen.summary()["status"], seen.summary()["queued"]) == ("queued", None)
            await asked
            assert seen.summary()["status"] == "done"
            assert seen.summary()["queued"] > 0

    run(scenario())


def test_what_waits_is_counted() -> None:
    async def scenario() -> None:
        async with gateway(streams=1) as g:
            with g.server.gate.place():
                asked = asyncio.create_task(g.post("/v1/chat/completions", CHAT))
                await waiting(g, 1)
                metrics = (await g.get("/metrics"))[1]
                assert "dsv4_streams_running 1.0" in metrics
                assert "dsv4_streams_waiting 1.0" in metrics
            assert (await asked)[0] == 200
            assert "dsv4_streams_running 0.0" in (await g.get("/metrics"))[1]

    run(scenario())


def test_every_head_has_its_time_on_a_kept_connection_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "head_timeout", 0.3)

    async def scenario() -> None:
        async with gateway() as g:
            port = int(g.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await reader.read(65536)).startswith(b"HTTP/1.1 200")
            writer.write(b"GET /health HTTP/1.1\r\nho")
            assert await reader.read() == b""
            writer.close()

    run(scenario(), seconds=20)

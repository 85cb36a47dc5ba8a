"""A store that goes away and comes back: what was to be kept, who asks meanwhile, what is said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gateway import gateway, run
from standins import THINK_END, Scripted, free_port, redis_server

from dsv4.serve import Chunk
from dsv4.serve.storage import turn_stores
from dsv4.serve.storage.turn_stores import MemoryTurnStore, StoreFailure, StoreWatch, WatchedStore


class Fickle(MemoryTurnStore):
    """A store that is there only while a test says so."""

    def __init__(self) -> None:
        super().__init__(100, 10**6)
        self.is_up = True
        self.questions = 0

    def _check(self) -> None:
        self.questions += 1
        if not self.is_up:
            raise StoreFailure("connection refused")

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        self._check()
        await super().put(owner, names, value)

    async def get(self, owner: str, name: str) -> bytes | None:
        self._check()
        return await super().get(owner, name)

    async def delete(self, owner: str, name: str) -> bool:
        self._check()
        return await super().delete(owner, name)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that has failed is asked again at once, unless a test says otherwise."""
    monkeypatch.setattr(turn_stores, "RETRY_SECONDS", 0.0)


def test_what_is_put_while_it_is_away_is_found_and_brought_when_it_is_back() -> None:
    async def scenario() -> None:
        inner = Fickle()
        store = WatchedStore(inner, StoreWatch("replay"))
        await store.put("ann", ["old"], b"1")
        inner.is_up = False
        await store.put("ann", ["new", "call"], b"2")
        assert await store.get("ann", "call") == b"2"
        with pytest.raises(StoreFailure):
            await store.get("ann", "old")
        with pytest.raises(StoreFailure):
            await store.delete("ann", "old")
        inner.is_up = True
        await store.bring_waiting()
        assert await inner.get("ann", "call") == b"2"
        assert await store.get("ann", "old") == b"1"
        assert await store.delete("ann", "new")
        assert await store.get("ann", "call") is None

    asyncio.run(scenario())


def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    changes: list[bool] = []

    async def scenario() -> None:
        inner = Fickle()
        store = WatchedStore(inner, StoreWatch("replay", changes.append))
        for is_up in (True, False, False, True, True, False):
            inner.is_up = is_up
            await store.put("ann", ["turn"], b"1")

    with caplog.at_level(logging.WARNING, "dsv4.serve"):
        asyncio.run(scenario())
    lines = [record.getMessage() for record in caplog.records]
    refused = "replay cannot be used: connection refused"
    assert lines == [refused, "replay can be used again", refused]
    assert changes == [True, False, False, True, True, False]


def test_an_outage_does_not_cost_each_request_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_stores, "RETRY_SECONDS", 3600.0)

    async def scenario() -> None:
        inner = Fickle()
        store = WatchedStore(inner, StoreWatch("replay"))
        inner.is_up = False
        for n in range(10):
            with pytest.raises(StoreFailure):
                await store.get("ann", str(n))
        assert inner.questions == 1
        assert store.watch.failure == "connection refused"

    asyncio.run(scenario())


RESPONSE = {"model": "m", "input": "Hi"}


def test_a_gateway_whose_redis_is_killed_and_comes_back_loses_and_denies_nothing(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        port = free_port()
        answer = (f"Hm.{THINK_END}", Chunk(text="Hello.", finish="eos"))
        given: dict[str, Any] = {"replay": f"redis://127.0.0.1:{port}"}

        async def respond(g: Any, **more: Any) -> tuple[int, Any, Any]:
            status, headers, body = await g.post("/v1/responses", {**RESPONSE, **more})
            return status, headers, body

        async with gateway(Scripted(*answer), **given) as g:
            ready = (await g.get("/ready"))[1]
            while "stores" not in ready:  # it is looked for from the start
                await asyncio.sleep(0.01)
                ready = (await g.get("/ready"))[1]
            assert "unavailable" in ready["stores"]["replay"]
            with redis_server(tmp_path, port):
                first = (await respond(g))[2]["id"]
                assert (await respond(g, previous_response_id=first))[0] == 200
                assert (await g.get("/ready"))[1].get("stores") is None
            # It is gone: what was stored is neither denied nor deleted, and requests go on.
            status, headers, _ = await respond(g, previous_response_id=first)
            assert (status, headers["x-should-retry"]) == (503, "true")
            assert headers["retry-after"] == "1"
            async with g.client.delete(f"{g.url}/v1/responses/{first}") as deleted:
                assert deleted.status == 503
            assert (await g.get(f"/v1/responses/{first}"))[0] == 503
            status, _, body = await respond(g)
            meanwhile = body["id"]
            assert status == 200
            text = (await g.get("/metrics"))[1]
            assert "dsv4_store_up 0.0" in text
            with redis_server(tmp_path, port):
                while (await g.get(f"/v1/responses/{first}"))[0] == 503:
                    await asyncio.sleep(0.01)
                for id in (first, meanwhile):
                    assert (await respond(g, previous_response_id=id))[0] == 200
                async with g.client.delete(f"{g.url}/v1/responses/{first}") as deleted:
                    assert deleted.status == 200
                assert (await g.get(f"/v1/responses/{first}"))[0] == 404
                assert (await g.get(f"/v1/responses/{meanwhile}"))[0] == 200

    run(scenario())

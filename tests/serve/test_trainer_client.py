"""The client for trainers, against a running gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from gateway import gateway, run

from dsv4.trajectories import AsyncClient, Client, GatewayRefused, export, read_sessions

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


def test_sessions_are_made_rewarded_closed_and_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with gateway(trajectories=str(tmp_path / "s.db")) as at:
            client = AsyncClient(at.url)
            await client.weights("v7")
            ids = []
            for n in range(2):
                made = await client.create(group="g", metadata={"n": n})
                ids.append(made["id"])
                path = made["urls"]["openai"].removeprefix(at.url) + "/chat/completions"
                assert (await at.post(path, HELLO))[0] == 200
            assert not await client.wait_closed(ids[0], seconds=0.0, pause=0.0)
            waiting = asyncio.create_task(client.wait_closed(ids[0], pause=0.01))
            await client.reward(ids[0], 0.25, metadata="why")
            await client.close(ids[0])
            assert await waiting
            first, second = await client.group("g")
            assert (first["id"], first["reward"], first["closed"]) == (ids[0], 0.25, True)
            assert (second["reward"], second["closed"]) == (None, False)
            assert first["trajectories"][0]["weights"][0]["version"] == "v7"
            closed = await asyncio.to_thread(lambda: list(Client(at.url).sessions(closed=1)))
            assert [each["id"] for each in closed] == [ids[0]]

            # The file and the gateway tell the same.
            by_url = await asyncio.to_thread(lambda: list(read_sessions(at.url)))
            assert by_url == list(read_sessions(tmp_path / "s.db"))
            done = await asyncio.to_thread(export, at.url, tmp_path / "out.jsonl", closed=True)
            assert (done.sessions, done.rows) == (1, 1)

    run(scenario())


def test_what_the_gateway_refuses_is_raised(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "keys").write_text("admin trainer:secret\nann:hers\n")
        settings = {"trajectories": str(tmp_path / "s.db"), "api_key_file": str(tmp_path / "keys")}
        async with gateway(**settings) as at:
            for key, status in ((None, 401), ("hers", 403), ("secret", 404)):
                with pytest.raises(GatewayRefused) as refused:
                    await AsyncClient(at.url, key).trajectories("none")
                assert refused.value.status == status
        with pytest.raises(GatewayRefused) as refused:
            await AsyncClient(at.url).close("none")
        assert refused.value.status == 0

    run(scenario())

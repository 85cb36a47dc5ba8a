"""The client for trainers, against a running gateway."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, gateway, run

from dsv4.__main__ import main
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


PAGE = (Path(__file__).parents[2] / "docs" / "trajectories.md").read_text("utf-8")


def _agent(base_url: str) -> None:
    """Runs the loop of an agent with one tool."""
    messages: list[Any] = [{"role": "user", "content": "RUN: date\nTURNS: 3"}]
    while True:
        body = json.dumps({"messages": messages, "tools": TOOLS}).encode()
        with urllib.request.urlopen(f"{base_url}/chat/completions", body) as answer:
            message = json.load(answer)["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", ()):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "Monday"})
        if not message.get("tool_calls"):
            return


def test_the_page_about_trajectories_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its program trains with an agent, and its commands write what was recorded."""
    monkeypatch.chdir(tmp_path)
    program = next(code for code in _blocks("python") if "run_agent(" in code)
    commands = [line for code in _blocks("sh") for line in code.splitlines()]
    commands = [line for line in commands if line.startswith("dsv4 trajectories")]
    trained: list[tuple[Any, ...]] = []

    async def scenario() -> None:
        async with gateway(trajectories="sessions.db") as at:
            names = {"run_agent": _agent, "train": lambda *row: trained.append(row)}
            await asyncio.to_thread(exec, _addressed(program, at.url), names)
            session = names["session"]["id"]  # type: ignore[index]
            for line in commands:
                command = shlex.split(_addressed(line, at.url).replace("SESSION", session))
                assert await asyncio.to_thread(main, command[1:]) == 0

    run(scenario())
    [(ids, mask, logprobs)] = trained  # three turns, one sequence
    assert len(ids) == len(mask) == len(logprobs)
    assert sum(mask) == sum(each is not None for each in logprobs) > 20
    assert len(commands) == 3
    (row,) = map(json.loads, Path("rollouts.jsonl").read_text().splitlines())
    assert (row["input_ids"], row["reward"], row["group"]) == (ids, 1.0, "task-7")
    assert Path("rollouts.parquet").stat().st_size
    assert "DONE: Monday" in capsys.readouterr().out


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def _addressed(text: str, url: str) -> str:
    """The page's text, with the address of a gateway that runs."""
    return text.replace("http://127.0.0.1:8000", url)

"""Agents that lose the model's reasoning, in front of an API that asks for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from gateway import TOOLS, Gateway, gateway, gateway_before, key_file, run
from official_api import MISSING, OfficialApi
from test_turn_stores import redis_url

__all__ = ["redis_url"]  # a fixture
TASK = "RUN: echo one\nRUN: echo two"


@asynccontextmanager
async def served(api: OfficialApi) -> AsyncIterator[str]:
    runner = web.AppRunner(api.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class ChatAgent:
    """An agent that sends back no reasoning, and arguments in its own spelling."""

    path = "/v1/chat/completions"

    def __init__(self, sealed: bool = False) -> None:
        self.history: list[dict[str, Any]] = []

    def user(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def body(self) -> dict[str, Any]:
        return {"model": "any", "messages": self.history, "tools": TOOLS}

    def take(self, answer: dict[str, Any]) -> list[str]:
        """Adds an answer, and the results of its calls, to the history; returns their ids."""
        message = answer["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        kept = {"role": "assistant", "content": (message["content"] or "").strip() or None}
        if calls:
            kept["tool_calls"] = [_respelled(call) for call in calls]
        self.history.append(kept)
        for n, call in enumerate(calls):
            result = {"role": "tool", "tool_call_id": call["id"], "content": f"result {n}"}
            self.history.append(result)
        return [call["id"] for call in calls]


def _respelled(call: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"))
    return {**call, "function": {**call["function"], "arguments": arguments}}


class MessagesAgent(ChatAgent):
    path = "/v1/messages"

    def __init__(self, sealed: bool = False) -> None:
        super().__init__()
        self._sealed = sealed

    def body(self) -> dict[str, Any]:
        function = TOOLS[0]["function"]
        tools = [{"name": "bash", "input_schema": function["parameters"]}]
        return {"model": "any", "max_tokens": 99, "messages": self.history, "tools": tools}

    def take(self, answer: dict[str, Any]) -> list[str]:
        blocks = [self._kept(block) for block in answer["content"]]
        self.history.append({"role": "assistant", "content": [b for b in blocks if b]})
        ids = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": f"result {n}"}
            for n, id in enumerate(ids)
        ]
        if results:
            self.history.append({"role": "user", "content": results})
        return ids

    def _kept(self, block: dict[str, Any]) -> dict[str, Any] | None:
        if block["type"] != "thinking":
            return block
        return {**block, "thinking": ""} if self._sealed else None


class ResponsesAgent(MessagesAgent):
    path = "/v1/responses"

    def body(self) -> dict[str, Any]:
        tools = [{"type": "function", **TOOLS[0]["function"]}]
        return {"model": "any", "input": self.history, "tools": tools, "store": False}

    def take(self, answer: dict[str, Any]) -> list[str]:
        items = [self._kept(item) for item in answer["output"]]
        self.history += [item for item in items if item]
        ids = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
        self.history += [
            {"type": "function_call_output", "call_id": id, "output": f"result {n}"}
            for n, id in enumerate(ids)
        ]
        return ids

    def _kept(self, item: dict[str, Any]) -> dict[str, Any] | None:
        if item["type"] != "reasoning":
            return item
        return {**item, "content": None, "summary": []} if self._sealed else None


AGENTS = (ChatAgent, MessagesAgent, ResponsesAgent)
every_agent = pytest.mark.parametrize("kind", AGENTS)


async def ask(agent: ChatAgent, g: Gateway, **headers: str) -> tuple[list[str], str]:
    """One request: the ids of its calls, and what was adapted."""
    status, found, body = await g.post(agent.path, agent.body(), **headers)
    assert status == 200, body
    return agent.take(body), found.get("x-dsv4-adapted", "")


class TestTheLoop:
    @pytest.mark.parametrize(
        ("kind", "replay"),
        [
            *((kind, replay) for kind in AGENTS for replay in ("memory", "sqlite", "redis")),
            # Chat Completions has no field that a sealed turn could travel in.
            *((kind, "sealed") for kind in AGENTS[1:]),
        ],
    )
    def test_no_reasoning_is_lost_across_restarts(
        self,
        kind: type[ChatAgent],
        replay: str,
        tmp_path: Path,
        request: pytest.FixtureRequest,
    ) -> None:
        """Every request has a gateway of its own, but in memory, which lasts as long as one."""
        stores = {"sqlite": f"sqlite:{tmp_path / 'turns'}"}
        if replay == "redis":
            stores["redis"] = request.getfixturevalue("redis_url")
        key = tmp_path / "key"
        key.write_text("0123456789abcdef")
        settings: dict[str, Any] = {"replay": stores.get(replay, replay)}
        if replay == "sealed":
            settings["seal_key_file"] = str(key)

        async def scenario() -> None:
            api, agent = OfficialApi(), kind(replay == "sealed")
            async with served(api) as url:
                given = {"settings_backend": "chat", "upstream": url, **settings}
                async with gateway(**given) as first:
                    for _ in range(2):
                        agent.user(TASK)
                        while True:
                            if replay == "memory":
                                calls, _ = await ask(agent, first)
                            else:
                                async with gateway(**given) as g:
                                    calls, _ = await ask(agent, g)
                            if not calls:
                                break
            assert (len(api.seen), api.refused) == (4, [])
            assert "“so be it”" in api.seen[-1].prompt
            assert (api.imperfect, api.unknown) == ([], 0)

        run(scenario())

    @every_agent
    def test_calls_that_the_server_gave_no_ids(self, kind: type[ChatAgent]) -> None:
        """Their turn is known by the ids that the client was given."""

        async def scenario() -> None:
            api, agent = OfficialApi(gives_ids=False), kind()
            async with gateway_before(served(api)) as g:
                agent.user(TASK)
                await ask(agent, g)
                _, adapted = await ask(agent, g)
                assert "missing-reasoning" not in adapted
                sent = api.seen[-1].body["messages"][1]
                assert "so be it" in sent["reasoning_content"]

        run(scenario())

    def test_what_is_put_back_is_named_counted_and_can_be_switched_off(self) -> None:
        async def scenario() -> None:
            api, agent = OfficialApi(), ChatAgent()
            async with gateway_before(served(api), debug=True) as g:
                agent.user(TASK)
                await ask(agent, g)
                before = list(agent.history)
                _, adapted = await ask(agent, g)
                assert adapted == "reasoning,turns"
                agent.history = before
                body = agent.body()
                _, _, whole = await g.post(agent.path, body, **{"x-dsv4-debug": "1"})
                assert whole["dsv4"]["adapted"] == ["reasoning", "turns"]
                _, metrics = await g.get("/metrics")
                assert 'dsv4_adaptations_total{id="reasoning"} 2.0' in metrics
                status, _, whole = await g.post(agent.path, body, **{"x-dsv4-adapt": "off"})
                assert status == 400
                assert MISSING in whole["error"]["message"]

        run(scenario())

    @pytest.mark.parametrize(
        ("choice", "status"), [("space", 200), ("empty", 200), ("refuse", 400)]
    )
    def test_a_turn_that_was_never_seen(self, choice: str, status: int) -> None:
        async def scenario() -> None:
            api, agent = OfficialApi(), ChatAgent()
            async with served(api) as url:
                given = {"settings_backend": "chat", "upstream": url}
                agent.user(TASK)
                async with gateway(**given) as g:
                    await ask(agent, g)
                async with gateway(**given, missing_reasoning=choice) as g:
                    found, headers, body = await g.post(agent.path, agent.body())
                    assert found == status
                    if choice == "space":
                        assert headers["x-dsv4-adapted"] == "missing-reasoning"
                        assert api.seen[-1].body["messages"][1]["reasoning_content"] == " "
                    elif choice == "refuse":
                        assert "messages[1].reasoning_content" in body["error"]["message"]

        run(scenario())

    def test_a_turn_that_came_back_in_pieces_keeps_its_reasoning(self) -> None:
        """As a client sends it that runs one call after the other."""

        async def scenario() -> None:
            api, agent = OfficialApi(), ChatAgent()
            async with gateway_before(served(api)) as g:
                agent.user(TASK)
                await ask(agent, g)
                user, turn, first, second = agent.history
                pieces = [{**turn, "tool_calls": [call]} for call in turn["tool_calls"]]
                agent.history = [user, pieces[0], first, pieces[1], second]
                await ask(agent, g)
                assert api.refused == []
                said = [m.get("reasoning_content") for m in api.seen[-1].body["messages"][1::2]]
                assert said[0] == said[1]
                assert "so be it" in said[0]

        run(scenario())

    def test_a_turn_without_a_thought_has_none_to_lose(self) -> None:
        """A forced call was asked for without thinking: nothing of it is unknown."""

        async def scenario() -> None:
            api, agent = OfficialApi(), ChatAgent()
            async with gateway_before(served(api)) as g:
                agent.user(TASK)
                body = {**agent.body(), "tool_choice": "required"}
                status, _, answer = await g.post(agent.path, body)
                assert status == 200
                agent.take(answer)
                _, adapted = await ask(agent, g)
                assert "missing-reasoning" in adapted
            assert (api.refused, api.unknown) == ([], 0)

        run(scenario())

    def test_keys_do_not_share_turns(self, tmp_path: Path) -> None:
        keys = key_file(tmp_path, "a:first-key-0123\nb:second-key-0123\n")

        async def scenario() -> None:
            api, agent = OfficialApi(), ChatAgent()
            async with gateway_before(served(api), api_key_file=keys) as g:
                agent.user(TASK)
                await ask(agent, g, authorization="Bearer first-key-0123")
                _, adapted = await ask(agent, g, authorization="Bearer second-key-0123")
                assert adapted == "missing-reasoning"

        run(scenario())


class TestWhatIsSent:
    """Requests that the official API would refuse."""

    @pytest.mark.parametrize("choice", ["thinking-off", "auto", "refuse"])
    def test_a_forced_call_while_thinking(self, choice: str) -> None:
        async def scenario() -> None:
            api = OfficialApi()
            async with gateway_before(served(api), forced_calls=choice) as g:
                body = {
                    "messages": [{"role": "user", "content": TASK}],
                    "tools": TOOLS,
                    "tool_choice": "required",
                    "thinking": {"type": "enabled"},
                }
                status, headers, answer = await g.post("/v1/chat/completions", body)
                if choice == "refuse":
                    assert (status, api.refused) == (400, [])
                    assert "refuses both together" in answer["error"]["message"]
                    return
                assert status == 200
                assert headers["x-dsv4-adapted"] == "forced-call"
                (seen,) = api.seen
                assert ("tool_choice" in seen.body) == (choice == "thinking-off")
                message = answer["choices"][0]["message"]
                assert len(message["tool_calls"]) == 2
                assert ("reasoning_content" in message) == (choice == "auto")

        run(scenario())

    @every_agent
    def test_names_that_the_api_refuses_are_mapped_back(self, kind: type[ChatAgent]) -> None:
        name = "mcp.files/" + "x" * 150

        async def scenario() -> None:
            api, agent = OfficialApi(), kind()
            async with gateway_before(served(api)) as g:
                agent.user(TASK)
                for _ in range(2):
                    body = json.loads(json.dumps(agent.body()).replace('"bash"', f'"{name}"'))
                    status, _, answer = await g.post(agent.path, body)
                    assert (status, api.refused) == (200, [])
                    text = json.dumps(answer)
                    agent.take(json.loads(text))
                    if len(api.seen) == 1:
                        assert text.count(f'"name": "{name}", ') >= 2
                sent = api.seen[-1].body
                (tool,) = sent["tools"]
                assert len(tool["function"]["name"]) == 128
                assert api.imperfect == []

        run(scenario())

    def test_without_a_server_to_adapt_to_a_request_is_passed_on_as_it_is(self) -> None:
        async def scenario() -> None:
            api = OfficialApi()
            async with gateway_before(served(api), adapt_for="none") as g:
                messages = [{"role": "developer", "content": "x"}, {"role": "user", "content": "y"}]
                status, headers, _ = await g.post("/v1/chat/completions", {"messages": messages})
                assert (status, "x-dsv4-adapted" in headers) == (400, False)

        run(scenario())

"""The inspector: what is kept of requests, for how long, and who may see it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from gateway import TOOLS, Gateway, gateway, key_file, run

from dsv4.serve import Settings
from dsv4.serve.backend import Chunk, Model
from dsv4.serve.observe.inspector import (
    MAX_REQUEST_BYTES,
    Inspector,
    inspector_for,
)
from dsv4.serve.settings import SettingError

JSON = {"content-type": "application/json"}
HELLO = {"model": "x", "messages": [{"role": "user", "content": "Hello"}]}
SECRET = "sk-very-secret-key-of-a-client"


async def asked(gate: Gateway, name: str, body: Any, **headers: str) -> tuple[int, Any]:
    path = f"/playground/inspector/{name}"
    status, _, answer = await gate.post(path, body, **{**JSON, **headers})
    return status, answer


async def listed(gate: Gateway) -> list[dict[str, Any]]:
    status, answer = await asked(gate, "changes", {"patience": 0})
    assert status == 200
    return answer["changed"]


class TestWhatIsKept:
    def test_a_request_of_each_protocol(self) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                await gate.post("/v1/chat/completions", HELLO)
                await gate.post("/v1/responses", {"model": "x", "input": "Hello"})
                await gate.stream("/v1/messages", {**HELLO, "max_tokens": 100})
                seen = await listed(gate)
                assert [s["protocol"] for s in seen] == ["chat", "responses", "messages"]
                for summary in seen:
                    assert summary["status"] == "done"
                    assert summary["finish"] == "stop"
                    assert 0 <= summary["queued"] <= summary["first"] <= summary["total"]
                    assert summary["prompt_tokens"] == summary["usage"]["prompt"] > 0
                    assert summary["usage"]["completion"] > 0

        run(scenario())

    def test_prompt_completion_and_repairs_are_those_of_the_exchange(self) -> None:
        body = {
            **HELLO,
            "tools": TOOLS,
            "messages": [{"role": "user", "content": "RUN: ls\nBREAK: no-wrapper"}],
        }

        async def scenario() -> None:
            async with gateway(inspect=True, debug=True) as gate:
                debug = {"x-dsv4-debug": "1"}
                _, _, answer = await gate.post("/v1/chat/completions", body, **debug)
                _, told = await asked(gate, "request", {"number": 1})
                assert json.loads(told["request"]) == body
                assert told["prompt"] == answer["dsv4"]["prompt"]
                (completion,) = told["completions"]
                assert completion["text"] == answer["dsv4"]["completion"][0]
                kinds = [d["kind"] for d in answer["dsv4"]["diagnostics"]]
                assert [r["kind"] for r in completion["repairs"]] == kinds != []
                assert told["repairs"] == len(kinds)
                functions = [tool["function"] for tool in TOOLS]
                options = {"dialect": "v4", "thinking": True, "tools": json.dumps(functions)}
                assert told["options"] == options

        run(scenario())

    def test_how_much_of_a_prompt_an_earlier_one_had(self) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                for _ in range(2):
                    await gate.post("/v1/chat/completions", HELLO)
                one, two = await listed(gate)
                assert one["shared_tokens"] == 0
                assert two["shared_tokens"] == two["prompt_tokens"]

        run(scenario())

    def test_requests_that_are_refused(self) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                await gate.post("/v1/chat/completions", {"messages": [{"role": "wizard"}]})
                await gate.post("/v1/chat/completions", b"{")
                seen = await listed(gate)
                assert [s["status"] for s in seen] == ["failed", "failed"]
                assert "wizard" in seen[0]["problem"]
                _, told = await asked(gate, "request", {"number": 2})
                assert (told["request"], told["prompt"], told["completions"]) == ("{", None, [])

        run(scenario())

    def test_real_clients(self) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                async with openai.AsyncOpenAI(base_url=f"{gate.url}/v1", api_key=SECRET) as client:
                    stream = await client.chat.completions.create(**HELLO, stream=True)
                    async for _ in stream:
                        pass
                async with anthropic.AsyncAnthropic(base_url=gate.url, api_key=SECRET) as claude:
                    await claude.messages.create(**HELLO, max_tokens=200)
                seen = await listed(gate)
                assert [(s["protocol"], s["status"]) for s in seen] == [
                    ("chat", "done"),
                    ("messages", "done"),
                ]

        run(scenario())

    def test_a_request_has_its_client_and_what_the_user_said_last(self) -> None:
        result = {"role": "tool", "tool_call_id": "c", "content": "a result"}
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        parts = [{"type": "text", "text": "Second"}, {"type": "text", "text": "x" * 500}]
        messages = [
            {"role": "user", "content": "First"},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            result,
        ]

        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                agent = {"user-agent": "my-agent/2.0 " + "x" * 500}
                await gate.post("/v1/chat/completions", {**HELLO, "messages": messages}, **agent)
                (seen,) = await listed(gate)
                assert seen["said"].startswith("Second\n\nxxx")
                assert seen["client"].startswith("my-agent/2.0 xxx")
                assert len(seen["said"]) == len(seen["client"]) == 200

        run(scenario())

    def test_what_the_user_said_stands_before_turns_as_they_were_sampled(self) -> None:
        asked_for = {"role": "user", "content": "RUN: ls"}

        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                body = {**HELLO, "messages": [asked_for], "tools": TOOLS}
                _, _, answer = await gate.post("/v1/chat/completions", body)
                turn = answer["choices"][0]["message"]
                id = turn["tool_calls"][0]["id"]
                result = {"role": "tool", "tool_call_id": id, "content": "a result"}
                more = {**body, "messages": [asked_for, turn, result]}
                status, _, _ = await gate.post("/v1/chat/completions", more)
                assert status == 200
                assert [seen["said"] for seen in await listed(gate)] == ["RUN: ls", "RUN: ls"]

        run(scenario())

    def test_no_key_and_no_header_is_among_it(self, tmp_path: Path) -> None:
        keys = key_file(tmp_path, f"ann:{SECRET}\nadmin root:{SECRET}-root\n")

        async def scenario() -> None:
            async with gateway(inspect=True, api_key_file=keys) as gate:
                mine = {"authorization": f"Bearer {SECRET}", "x-strange": "header-of-mine"}
                await gate.post("/v1/chat/completions", HELLO, **mine)
                await gate.post("/v1/messages", {**HELLO, "max_tokens": 9}, **{"x-api-key": SECRET})
                root = {"authorization": f"Bearer {SECRET}-root"}
                _, told = await asked(gate, "changes", {}, **root)
                details = [(await asked(gate, "request", {"number": n}, **root))[1] for n in (1, 2)]
                assert [s["owner"] for s in told["changed"]] == ["ann", "ann"]
                shown = json.dumps([told, details]) + _everything(gate.server.inspector)
                assert SECRET not in shown
                assert "header-of-mine" not in shown

        run(scenario())


def _everything(value: Any, depth: int = 6) -> str:
    """All that can be reached from a value, as text."""
    if depth == 0:
        return ""
    if isinstance(value, dict):
        return "".join(_everything(v, depth - 1) for item in value.items() for v in item)
    if isinstance(value, (list, tuple)):
        return "".join(_everything(item, depth - 1) for item in value)
    names = [*getattr(value, "__slots__", ()), *getattr(value, "__dict__", ())]
    inside = (_everything(getattr(value, name, ""), depth - 1) for name in names)
    return repr(value) + "".join(inside)


class Slow:
    """A backend that says a word at a time, when it is let."""

    grammar_form = None

    def __init__(self) -> None:
        self.go = asyncio.Semaphore(0)

    async def models(self) -> list[Model]:
        return [Model("slow")]

    async def stream(self, prompt: Any, ids: Any, options: Any) -> Any:
        for word in ("One ", "two ", "three"):
            await self.go.acquire()
            yield Chunk(text=word)
        yield Chunk(finish="stop")

    async def aclose(self) -> None:
        return None


class TestAsItHappens:
    def test_a_completion_grows_while_somebody_watches(self) -> None:
        async def scenario() -> None:
            slow = Slow()
            async with gateway(slow, inspect=True, thinking=False) as gate:
                answer = asyncio.create_task(gate.stream("/v1/chat/completions", HELLO))
                name, version, tails, statuses = "", 0, [], []
                for n in range(50):
                    if n % 3 == 0:
                        slow.go.release()
                    body = {"name": name, "since": version, "patience": 0.2}
                    _, told = await asked(gate, "changes", body)
                    name, version = told["name"], told["version"]
                    for summary in told["changed"]:
                        tails.append(summary["tail"])
                        statuses.append(summary["status"])
                    if statuses[-1:] == ["done"]:
                        break
                await answer
                assert tails[-1] == "One two three"
                assert "running" in statuses
                assert sorted(tails, key=len) == tails
                assert len(set(tails)) >= 3

        run(scenario())

    def test_nothing_new_is_waited_for_and_not_repeated(self) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                await gate.post("/v1/chat/completions", HELLO)
                _, first = await asked(gate, "changes", {})
                known = {"name": first["name"], "since": first["version"]}
                waits = asyncio.create_task(asked(gate, "changes", known))
                await asyncio.sleep(0.3)
                assert not waits.done()
                await gate.post("/v1/chat/completions", HELLO)
                _, second = await waits
                assert [s["number"] for s in second["changed"]] == [2]
                # Another server has other numbers.
                _, anew = await asked(gate, "changes", {**known, "name": "another"})
                assert [s["number"] for s in anew["changed"]] == [1, 2]

        run(scenario())

    def test_a_client_that_goes_away(self) -> None:
        async def scenario() -> None:
            slow = Slow()
            async with gateway(slow, inspect=True) as gate:
                task = asyncio.create_task(gate.stream("/v1/chat/completions", HELLO))
                slow.go.release()
                while not (seen := await listed(gate)) or seen[0]["status"] != "running":
                    await asyncio.sleep(0.02)
                task.cancel()
                while (await listed(gate))[0]["status"] == "running":
                    await asyncio.sleep(0.02)
                assert (await listed(gate))[0]["status"] == "gone"

        run(scenario())

    def test_clearing_leaves_what_runs(self) -> None:
        async def scenario() -> None:
            slow = Slow()
            async with gateway(slow, inspect=True) as gate:
                await gate.post("/v1/chat/completions", b"{")
                task = asyncio.create_task(gate.stream("/v1/chat/completions", HELLO))
                while len(gate.server.inspector or ()) < 2:
                    await asyncio.sleep(0.02)
                slow.go.release()
                while (await listed(gate))[1]["status"] != "running":
                    await asyncio.sleep(0.02)
                assert (await asked(gate, "clear", {}))[0] == 200
                assert [s["number"] for s in await listed(gate)] == [2]
                for _ in range(3):
                    slow.go.release()
                await task

        run(scenario())


class TestBounds:
    def test_in_number(self) -> None:
        async def scenario() -> None:
            inspector = Inspector(most=3)
            for _ in range(10):
                with inspector.watched("ann", "chat", b"{}"):
                    pass
            assert inspector.changes(0)["numbers"] == [8, 9, 10]
            # Nothing is remembered of those that are gone.
            assert len(_everything(inspector, 3)) < 10_000

        run(scenario())

    def test_in_bytes(self) -> None:
        async def scenario() -> None:
            inspector = Inspector(most_bytes=100_000)
            for _ in range(10):
                with inspector.watched("ann", "chat", b"x" * 40_000):
                    pass
            assert len(inspector) == 2

        run(scenario())

    def test_prompts_and_completions_count(self) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                assert gate.server.inspector is not None
                messages = [{"role": "user", "content": "x" * 50_000}]
                await gate.post("/v1/chat/completions", {**HELLO, "messages": messages})
                seen = gate.server.inspector.get(1)
                assert seen is not None
                assert 100_000 < seen.weight < 200_000

        run(scenario())

    def test_of_one_request(self) -> None:
        async def scenario() -> None:
            inspector = Inspector()
            with inspector.watched("ann", "chat", b"x" * (MAX_REQUEST_BYTES + 1)):
                pass
            seen = inspector.get(1)
            assert seen is not None
            assert (seen.body, seen.size, seen.details()["request"]) == (
                None,
                MAX_REQUEST_BYTES + 1,
                None,
            )

        run(scenario())

    def test_off_by_default_and_then_nothing_is_there(self) -> None:
        async def scenario() -> None:
            async with gateway(playground=True) as gate:
                assert gate.server.inspector is None
                assert (await asked(gate, "changes", {}))[0] in (404, 405)

        run(scenario())

    def test_it_needs_one_process(self) -> None:
        with pytest.raises(SettingError, match="workers"):
            inspector_for(Settings(inspect=True, workers=2))


class TestWhoMayLook:
    @pytest.mark.parametrize("name", ["changes", "request", "clear"])
    def test_with_keys_only_an_admin(self, tmp_path: Path, name: str) -> None:
        keys = key_file(tmp_path, "ann:secret-1\nadmin bob:secret-2\n")

        async def scenario() -> None:
            async with gateway(inspect=True, api_key_file=keys) as gate:
                body = {"number": 1, "patience": 0}
                ann = {"authorization": "Bearer secret-1"}
                bob = {"x-api-key": "secret-2"}
                await gate.post("/v1/chat/completions", HELLO, **ann)
                assert (await asked(gate, name, body))[0] == 401
                assert (await asked(gate, name, body, **{"x-api-key": "no"}))[0] == 401
                status, told = await asked(gate, name, body, **ann)
                assert status == 403
                assert "admin" in told["error"]["message"]
                assert (await asked(gate, name, body, **bob))[0] == 200

        run(scenario())

    def test_beyond_loopback_nobody_without_keys(self) -> None:
        async def scenario() -> None:
            settings = {"inspect": True, "host": "0.0.0.0", "no_auth": True}
            async with gateway(**settings) as gate:
                assert (await asked(gate, "changes", {}))[0] == 403

        run(scenario())

    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "evil.example"},
            {"host": "evil.example:8000"},
            {"host": "127.0.0.1.evil.example"},
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"content-type": "text/plain"},
        ],
    )
    def test_no_page_of_somebody_else(self, headers: dict[str, str]) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                assert (await asked(gate, "changes", {}, **headers))[0] in (403, 415, 421)

        run(scenario())

    def test_bad_questions(self) -> None:
        async def scenario() -> None:
            async with gateway(inspect=True) as gate:
                assert (await asked(gate, "request", {"number": "1"}))[0] == 400
                assert (await asked(gate, "request", {"number": 5}))[0] == 404
                assert (await asked(gate, "changes", {"since": None}))[0] == 400
                assert (await asked(gate, "changes", b"[]"))[0] == 400
                assert (await asked(gate, "other", {}))[0] == 404

        run(scenario())

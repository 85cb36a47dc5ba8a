"""Several engines: who gets a request, who takes over, and what one of them takes along."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway import Gateway, events_of, gateway, key_file, run
from standins import THINK_END, Scripted, VllmServer, in_a_thread

from dsv4.serve.backend import BackendError, Model
from dsv4.serve.observe.metrics import Metrics
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.upstreams.engine_pool import Engine, EngineLease, EnginePool, PromptPrefix
from dsv4.serve.workers.reload import check_models, reload
from dsv4.serve.workers.uvicorn_runner import serve
from dsv4.tokens import Tokenizer

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}


def pool(count: int = 2) -> EnginePool:
    return EnginePool([Engine(f"http://{n}", Scripted()) for n in range(count)])


def prefix(text: str, head: str = "") -> PromptPrefix:
    return PromptPrefix(text.encode(), head.encode())


class TestChoosing:
    def test_the_same_first_messages_go_to_the_same_engine(self) -> None:
        one, other = pool(3), pool(3)  # as another worker would
        chosen = [one.choose(prefix("", f"session {n}")) for n in range(60)]
        again = [other.choose(prefix("", f"session {n}")) for n in range(60)]
        urls = [engine.url for engine in chosen if engine]
        assert urls == [engine.url for engine in again if engine]
        assert len(set(urls)) == 3

    def test_a_conversation_stays_where_its_prefix_is(self) -> None:
        engines = pool()
        first = engines.choose(prefix("a" * 3000, "x"))
        assert first is not None
        other = next(engine for engine in engines.engines if engine is not first)
        engines.note(prefix("a" * 3000), other)  # it was moved
        assert engines.choose(prefix("a" * 3000 + "b" * 3000, "x")) is other
        assert engines.choose(prefix("c" * 3000, "x")) is first

    def test_an_engine_that_is_much_busier_is_relieved(self) -> None:
        engines = pool()
        preferred = engines.choose(prefix("", "x"))
        assert preferred is not None
        preferred.running = 8
        assert engines.choose(prefix("", "x")) is preferred
        preferred.running = 9
        assert engines.choose(prefix("", "x")) is not preferred

    def test_dead_and_draining_engines_get_nothing(self) -> None:
        engines = pool(3)
        engines.engines[0].set_up(False, "dead")
        engines.drain("http://1", True)
        for n in range(20):
            chosen = engines.choose(prefix("", f"session {n}"))
            assert chosen is engines.engines[2]
        assert engines.is_ready
        engines.drain("http://2", True)
        assert not engines.is_ready
        assert not engines.drain("http://9", True)

    def test_where_all_are_down_one_is_tried_all_the_same(self) -> None:
        engines = pool()
        for engine in engines.engines:
            engine.set_up(False, "dead")
        assert engines.choose(prefix("", "x")) is not None

    def test_a_lease_tries_each_engine_once_and_a_bad_request_none_again(self) -> None:
        engines = pool(3)
        lease = EngineLease(engines, prefix("", "x"))
        used = [lease.engine.url]
        assert not lease.moved_on(BackendError("bad prompt", 400))
        while lease.moved_on(BackendError("gone", 503)):
            used.append(lease.engine.url)
        assert sorted(used) == ["http://0", "http://1", "http://2"]
        assert sum(engine.running for engine in engines.engines) == 1
        lease.close(False, None)
        assert sum(engine.running for engine in engines.engines) == 0


@asynccontextmanager
async def two_engines(
    tokenizer: Tokenizer, text: str = f"Hm.{THINK_END}Hello.", **settings: Any
) -> Any:
    """A gateway with two engines, and both of them."""
    engines = [VllmServer(tokenizer, text), VllmServer(tokenizer, text)]
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(engine.running()) for engine in engines]
        given = {"upstream": tuple(urls), "settings_backend": "vllm", "probe_interval": 0.1}
        g = await stack.enter_async_context(gateway(**{**given, **settings}))
        yield g, engines, urls


def test_before_the_first_byte_another_engine_takes_over(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with two_engines(tokenizer) as (g, engines, _):
            engines[0].fault = lambda request, number: web.Response(status=500)
            for n in range(6):
                messages = [{"role": "user", "content": f"Session {n}"}]
                status, _, _ = await g.post("/v1/chat/completions", {**CHAT, "messages": messages})
                assert status == 200
            assert len(engines[1].requests) == 6
            # It failed often enough to be left alone, until it answers questions again.
            assert len(engines[0].requests) <= 6

    run(scenario())


def test_each_of_several_choices_moves_on_by_itself(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with two_engines(tokenizer, probe_interval=60.0) as (g, engines, urls):
            engines[0].fault = lambda request, number: web.Response(status=500)
            # The engine of a session hangs on the engines' ports, so a few may all have the other.
            sessions = 0
            while not engines[0].requests:
                messages = [{"role": "user", "content": f"Session {sessions}"}]
                body = {**CHAT, "messages": messages, "n": 3}
                status, _, answer = await g.post("/v1/chat/completions", body)
                assert (status, len(answer.get("choices", ()))) == (200, 3)
                sessions += 1
            assert len(engines[1].requests) == 3 * sessions
            _, shown = await g.get("/admin/upstreams")
            up = {each["url"]: (each["up"], each["streams"]) for each in shown["engines"]}
            assert up[urls[1]] == (True, 0)

    run(scenario())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_the_death_of_an_engine_takes_only_its_own_streams(path: str, tokenizer: Tokenizer) -> None:
    async def read(g: Gateway, n: int) -> bytes:
        body = {**CHAT, "messages": [{"role": "user", "content": f"Session {n}"}], "stream": True}
        got = bytearray()
        try:
            async with g.client.post(g.url + path, data=json.dumps(body)) as response:
                async for chunk in response.content.iter_any():
                    got += chunk
        except aiohttp.ClientPayloadError:
            got += b"BROKEN"
        return bytes(got)

    async def scenario() -> None:
        async with two_engines(tokenizer, f"Hm.{THINK_END}" + "word " * 40) as (g, engines, urls):
            for engine in engines:
                engine.pause = 0.02
            tasks = [asyncio.create_task(read(g, n)) for n in range(12)]
            while sum(engine.written for engine in engines) < 60:
                await asyncio.sleep(0.01)
            dying = {engine.url: engine.running for engine in g.server.engines.engines}[urls[0]]
            assert 0 < dying < 12
            engines[0].dies()
            answers = await asyncio.gather(*tasks)
            broken = [text for text in answers if text.endswith(b"BROKEN")]
            assert len(broken) == dying
            for text in broken:  # each with its protocol's error
                last = events_of(text.removesuffix(b"BROKEN").decode())[-1]
                assert last.get("error") or last["type"] == "error"
            assert sum(b"finish_reason" in text or b"message_stop" in text for text in answers)
            assert not g.server.engines.engines[0].is_up
            assert all(engine.running == 0 for engine in g.server.engines.engines)
            assert (await g.get("/ready"))[0] == 200

    run(scenario())


def test_an_engine_is_drained_and_taken_back_by_its_administrator(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with two_engines(tokenizer) as (g, engines, urls):
            status, _, shown = await g.post("/admin/upstreams", {"url": urls[0], "draining": True})
            assert status == 200
            assert [each["draining"] for each in shown["engines"]] == [True, False]
            for n in range(8):
                messages = [{"role": "user", "content": f"Session {n}"}]
                await g.post("/v1/chat/completions", {**CHAT, "messages": messages})
            assert not engines[0].requests
            await g.post("/admin/upstreams", {"url": urls[0], "draining": False})
            _, shown = await g.get("/admin/upstreams")
            assert [each["draining"] for each in shown["engines"]] == [False, False]
            assert (await g.post("/admin/upstreams", {"url": "x", "draining": True}))[0] == 404
            assert (await g.post("/admin/upstreams", {"url": urls[0]}))[0] == 400
            assert (await g.post("/admin/restart", {}))[0] == 409

    run(scenario())


def test_administration_needs_the_key_of_an_administrator(tmp_path: Any) -> None:
    keys = key_file(tmp_path, "ann:one\nadmin bob:two\n")

    async def scenario() -> None:
        async with gateway(api_key_file=str(keys)) as g:
            assert (await g.get("/admin/upstreams", **{"x-api-key": "one"}))[0] == 403
            assert (await g.get("/admin/upstreams", **{"x-api-key": "two"}))[0] == 200

    run(scenario())


def test_engines_are_reloaded_from_the_file(tokenizer: Tokenizer, tmp_path: Any) -> None:
    async def scenario() -> None:
        second, liar = VllmServer(tokenizer, "x"), VllmServer(tokenizer, "x")
        liar.model = "another/model"
        file = tmp_path / "serve.toml"
        first = VllmServer(tokenizer, "x")
        async with first.running() as one, second.running() as two, liar.running() as three:
            file.write_text(f'upstream = "{one}"')
            given = {"upstream": one, "settings_backend": "vllm", "config": str(file)}
            async with gateway(**given) as g:
                await g.post("/v1/chat/completions", CHAT)
                file.write_text(f'upstream = ["{one}", "{two}"]')
                await reload(g.server)
                assert [engine.url for engine in g.server.engines.engines] == [one, two]
                lies, twice = f'["{one}", "{three}"]', f'["{one}", "{one}"]'
                for wrong in (lies, twice, '["nonsense"]', "5"):
                    file.write_text(f"upstream = {wrong}")
                    await reload(g.server)
                    assert [engine.url for engine in g.server.engines.engines] == [one, two]
                file.write_text(f'upstream = ["{two}"]')
                await reload(g.server)
                assert [engine.url for engine in g.server.engines.engines] == [two]
                assert (await g.post("/v1/chat/completions", CHAT))[0] == 200
                assert len(second.requests) == 1

    run(scenario())


def test_an_engine_that_does_not_answer_is_not_taken_in(
    tokenizer: Tokenizer, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    dead = "http://127.0.0.1:1"

    async def scenario() -> None:
        first, second = VllmServer(tokenizer, "x"), VllmServer(tokenizer, "x")
        file = tmp_path / "serve.toml"
        async with first.running() as one, second.running() as two:
            file.write_text(f'upstream = "{one}"')
            given = {"upstream": one, "settings_backend": "vllm", "config": str(file)}
            async with gateway(**given) as g:
                for listed, expected in (
                    (f'["{dead}"]', [one]),
                    (f'["{one}", "{dead}"]', [one]),
                    (f'["{dead}", "{two}"]', [two]),
                ):
                    file.write_text(f"upstream = {listed}")
                    await reload(g.server)
                    assert [engine.url for engine in g.server.engines.engines] == expected
                    assert (await g.post("/v1/chat/completions", CHAT))[0] == 200

    run(scenario())
    assert caplog.text.count(f"engine {dead} is not added: it does not answer") == 3
    assert caplog.text.count("the engines stay as they were") == 1


def test_a_worker_that_starts_later_has_the_engines_of_the_others(
    tokenizer: Tokenizer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(Metrics, "shared_folder", tmp_path)
    monkeypatch.setattr("os.kill", lambda pid, signal: told.append(signal))

    async def scenario() -> None:
        first, second, file = VllmServer(tokenizer, "x"), VllmServer(tokenizer, "x"), tmp_path / "t"
        async with first.running() as one, second.running() as two:
            file.write_text(f'upstream = "{one}"')
            given = {"upstream": one, "settings_backend": "vllm", "config": str(file)}
            async with gateway(**given) as g:
                file.write_text(f'upstream = ["{one}", "{two}"]')
                await reload(g.server)
                assert (await g.post("/admin/upstreams", {"url": one, "draining": True}))[0] == 200
                assert told == [signal.SIGHUP]
                async with gateway(**{**given, "config": None}) as later:
                    _, shown = await later.get("/admin/upstreams")
                    states = {each["url"]: each["draining"] for each in shown["engines"]}
                    assert states == {one: True, two: False}

    run(scenario())


def test_a_conversation_stays_with_its_engine_whichever_worker_gets_it(
    tokenizer: Tokenizer, tmp_path: Any
) -> None:
    replay = {"replay": f"sqlite:{tmp_path / 'turns'}"}
    question = {"role": "user", "content": "Hi"}

    async def scenario() -> None:
        async with two_engines(tokenizer, **replay) as (g, engines, urls):
            await g.post("/v1/chat/completions", CHAT)
            usual = 0 if engines[0].requests else 1
            given = {"upstream": tuple(urls), "settings_backend": "vllm", **replay}
            async with gateway(**given) as other:  # another worker, where it had to go elsewhere
                other.server.engines.drain(urls[usual], True)
                _, _, answer = await other.post("/v1/chat/completions", CHAT)
            said = answer["choices"][0]["message"]
            messages = [question, said, {"role": "user", "content": "And?"}]
            await g.post("/v1/chat/completions", {**CHAT, "messages": messages})
            assert [len(engines[n].requests) for n in (usual, 1 - usual)] == [1, 2]

    run(scenario())


def test_an_engine_that_lies_about_its_model_is_refused(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with two_engines(tokenizer) as (g, engines, urls):
            engines[1].model = "another/model"
            with pytest.raises(SettingError, match=f"{urls[1]}: found the model another/model"):
                await check_models(g.server, g.server.engines.engines)
            # One that begins to lie later gets no more requests.
            await g.server.engines.probe(Model("deepseek-ai/DeepSeek-V4"), 5)
            assert [engine.is_up for engine in g.server.engines.engines] == [True, False]

    run(scenario())


def test_a_server_does_not_start_with_engines_of_two_models(tokenizer: Tokenizer) -> None:
    other = VllmServer(tokenizer, "x")
    other.model = "another/model"
    with in_a_thread(VllmServer(tokenizer, "x"), other) as urls:
        settings = Settings(backend="vllm", upstream=tuple(urls), port=0)
        with pytest.raises(SettingError, match=f"{urls[1]}: found the model another/model"):
            serve(settings, print)


def test_upstreams_may_be_given_in_every_form() -> None:
    assert Settings(backend="vllm", upstream="http://a").upstream == ("http://a",)
    with pytest.raises(SettingError, match="found 'http://a' twice"):
        Settings(backend="vllm", upstream=("http://a", "http://a"))

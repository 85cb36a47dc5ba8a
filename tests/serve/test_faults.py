"""Backends that break, and clients that go away: nothing hangs, and nothing is left over."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from itertools import product
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway import TOOLS, Gateway, events_of, gateway, run
from standins import Scripted, VllmServer

from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.serve import Chunk
from dsv4.tokens import Tokenizer
from parts import fewer

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5000}
PATHS = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": CHAT,
    "/v1/responses": {"input": "Hi"},
}
CALL = (
    f'Think.{THINK_END}\n\n<{DSML}tool_calls>\n<{DSML}invoke name="bash">\n'
    f'<{DSML}parameter name="command" string="true">rm -rf '
)
every_path = pytest.mark.parametrize("path", PATHS)


async def answer(status: int, body: str, kind: str = "application/json") -> web.Response:
    return web.Response(status=status, text=body, content_type=kind)


def faulty(status: int, body: str, kind: str = "application/json") -> Any:
    return lambda request, number: answer(status, body, kind)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (faulty(500, "oops", "text/plain"), 502),
        (faulty(503, '{"error": {"message": "loading"}}'), 503),
        (faulty(429, "{}"), 429),
        (faulty(400, '{"message": "bad prompt"}'), 400),
        (faulty(200, "<html>", "text/html"), 502),
        (faulty(200, "garbage\n\ndata: {no json\n\n", "text/event-stream"), 502),
        (
            faulty(200, 'data: {"error": {"message": "out of memory"}}\n\n', "text/event-stream"),
            502,
        ),
    ],
)
def test_a_backend_that_fails_before_the_first_byte(
    fault: Any, expected: int, tokenizer: Tokenizer
) -> None:
    async def scenario() -> None:
        backend = VllmServer(tokenizer, "")
        backend.fault = fault
        async with backend.running() as url, gateway(backend=None, **vllm(url)) as g:
            for path, stream in product(PATHS, (True, False)):
                status, headers, body = await g.post(path, {**PATHS[path], "stream": stream})
                assert status == expected, (path, stream, body)
                assert body["error"]["message"], (path, stream)
                assert ("retry-after" in headers) == (expected in (429, 503)), (path, stream)

    run(scenario())


def vllm(url: str, **settings: Any) -> dict[str, Any]:
    # `backend` of the settings, not the object.
    return {"upstream": url, "settings_backend": "vllm", **settings}


def test_a_backend_that_is_not_there() -> None:
    async def scenario() -> None:
        async with gateway(**vllm("http://127.0.0.1:1")) as g:
            status, headers, _body = await g.post("/v1/chat/completions", CHAT)
            assert status == 503
            assert headers["retry-after"] == "1"
            assert (await g.get("/ready"))[0] == 503
            assert (await g.get("/health"))[0] == 200

    run(scenario())


@every_path
def test_a_backend_that_breaks_in_the_middle_never_looks_like_a_clean_end(path: str) -> None:
    async def scenario() -> None:
        backend = Scripted("Thinking ", "about", 0.1, RuntimeError("boom"))
        async with gateway(backend) as g:
            await broken_off(g, path, PATHS[path])

    run(scenario())


async def broken_off(g: Gateway, path: str, body: Any) -> str:
    """What a stream says that has the protocol's error as its last event, and no clean end."""
    data = json.dumps({**body, "stream": True})
    received = bytearray()

    async def read() -> None:
        async with g.client.post(g.url + path, data=data) as response:
            assert response.status == 200
            async for chunk in response.content.iter_any():
                received.extend(chunk)

    with pytest.raises(aiohttp.ClientPayloadError):
        await read()
    last = events_of(received.decode())[-1]
    assert last.get("error") or last["type"] in ("error", "response.failed"), last
    return received.decode()


@every_path
def test_a_call_that_was_cut_is_never_sent(path: str) -> None:
    async def scenario() -> None:
        tools: Any = TOOLS
        if path == "/v1/messages":
            tools = [{"name": "bash", "input_schema": TOOLS[0]["function"]["parameters"]}]
        elif path == "/v1/responses":
            tools = [{"type": "function", **TOOLS[0]["function"]}]
        backend = Scripted(CALL, Chunk(finish="length"))
        async with gateway(backend) as g:
            events = await g.stream(path, {**PATHS[path], "tools": tools})
            if path == "/v1/responses":  # it has a word for what is not complete
                last = events[-1]["response"]["output"][-1]
                assert (last["type"], last["status"]) == ("function_call", "incomplete")
                assert "response.function_call_arguments.done" not in {e["type"] for e in events}
            else:
                assert "rm -rf" not in json.dumps(events)
            _, _, whole = await g.post(path, {**PATHS[path], "tools": tools})
            text = json.dumps(whole)
            assert '"length"' in text or '"max_tokens"' in text or '"incomplete"' in text

    run(scenario())


def tools_for(path: str) -> Any:
    function = TOOLS[0]["function"]
    if path == "/v1/messages":
        return [{"name": "bash", "input_schema": function["parameters"]}]
    return [{"type": "function", **function}] if path == "/v1/responses" else TOOLS


# Finish reasons that stand for nothing that anybody knows.
UNKNOWN = ["timeout", "cancelled", "aborted", "abort", "Stop", 5, 0, {"type": "stop"}, ["stop"]]


@pytest.mark.parametrize("finish", UNKNOWN, ids=str)
def test_a_finish_reason_that_is_not_known_is_a_failure(finish: Any) -> None:
    async def scenario() -> None:
        async with gateway(Scripted(CALL, Chunk(finish=finish))) as g:
            for path in PATHS:
                body = {**PATHS[path], "tools": tools_for(path)}
                status, headers, whole = await g.post(path, body)
                assert (status, headers["x-should-retry"]) == (502, "true"), path
                assert "rm -rf" not in json.dumps(whole), path
                assert "rm -rf" not in await broken_off(g, path, body), path

    run(scenario())


async def answered(backend: Any, **settings: Any) -> Any:
    """The choice of a chat request that declares a tool."""
    async with gateway(backend, **settings) as g:
        body = {**CHAT, "tools": TOOLS, "stop": "\n\nSTOP"}
        status, _, whole = await g.post("/v1/chat/completions", body)
        assert status == 200, whole
        return whole["choices"][0]


@pytest.mark.parametrize("finish", ["max_tokens", "model_length", "content_filter", "refusal", ""])
def test_no_word_but_an_end_completes_a_call(finish: str) -> None:
    choice = run(answered(Scripted(CALL, Chunk(finish=finish))))
    assert not choice["message"].get("tool_calls")
    filtered = finish in ("content_filter", "refusal")
    assert choice["finish_reason"] == ("content_filter" if filtered else "length")


@pytest.mark.parametrize("finish", ["stop", "eos", "eos_token", "end_turn", "tool_calls"])
def test_the_end_of_a_model_whose_server_strips_eos_completes_one(finish: str) -> None:
    """No stop string was sent to it, so none can have ended the text."""
    choice = run(answered(Scripted(CALL, Chunk(finish=finish))))
    assert choice["finish_reason"] == "tool_calls"
    named = Chunk(finish="stop", stop_string="&&")
    assert not run(answered(Scripted(CALL, named)))["message"].get("tool_calls")


def test_with_ids_only_an_eos_among_them_says_that_the_model_ended_it(
    tokenizer: Tokenizer,
) -> None:
    ids = VllmServer(tokenizer).ids(CALL)
    cut = Scripted(Chunk(ids=ids), Chunk(ids=[], finish="stop"))
    assert not run(answered(cut))["message"].get("tool_calls")
    whole = Scripted(Chunk(ids=[*ids, tokenizer.special_id(EOS)]), Chunk(ids=[], finish="stop"))
    assert run(answered(whole))["finish_reason"] == "tool_calls"


def test_a_stop_string_that_was_hit_stays_hit_whatever_the_server_says_then() -> None:
    said = Chunk(f"Hm.{THINK_END}Yes\n\nSTOP no", more=True)
    for finish in ("length", "content_filter", "timeout"):
        choice = run(answered(Scripted(said, Chunk(finish=finish))))
        assert (choice["message"]["content"], choice["finish_reason"]) == ("Yes", "stop")


def test_a_backend_that_stalls_is_given_up() -> None:
    async def scenario() -> None:
        backend = Scripted("Hm", 30.0)
        async with gateway(backend, idle_timeout=0.2, first_byte_timeout=0.2) as g:
            status, _, body = await g.post("/v1/chat/completions", CHAT)
            assert status == 504, body
            assert backend.open == 0
        silent = Scripted(30.0)
        async with gateway(silent, idle_timeout=0.2, first_byte_timeout=0.2) as g:
            status, _, body = await g.post("/v1/chat/completions", {**CHAT, "stream": True})
            assert status == 504, body
            assert silent.open == 0

    run(scenario())


def test_signs_of_life_come_while_nothing_else_does() -> None:
    async def scenario() -> None:
        backend = Scripted(0.5, "Hm", 0.5, f"{THINK_END}Hi{EOS}")
        async with gateway(backend, keep_alive=0.1) as g:
            _, _, chat = await g.post("/v1/chat/completions", {**CHAT, "stream": True})
            assert chat.count(": keep-alive") >= 3
            assert events_of(chat)[-1] == "[DONE]"
            pings = await g.stream("/v1/messages", CHAT)
            assert sum(e["type"] == "ping" for e in pings) >= 3
            items = await g.stream("/v1/responses", {"input": "Hi"})
            assert [item["sequence_number"] for item in items] == list(range(len(items)))
            assert sum(item["type"] == "response.in_progress" for item in items) >= 3

    run(scenario())


@every_path
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_the_backend_at_once(path: str, stream: bool) -> None:
    async def scenario() -> None:
        backend = Scripted("Hm ", *([0.05, "more "] * 500))
        async with gateway(backend) as g:
            host, port = g.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            data = json.dumps({**PATHS[path], "stream": stream}).encode()
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
            writer.write(head.encode() + data)
            await writer.drain()
            if stream:
                await reader.readuntil(b"Hm")
            while not backend.open:
                await asyncio.sleep(0.01)
            writer.close()
            await writer.wait_closed()
            before = backend.steps
            while backend.open or g.server.gate.running:
                await asyncio.sleep(0.01)
            # Of a thousand. Steps are counted, because a slow machine takes fewer in a second.
            assert backend.steps <= before + 4

    run(scenario())


def test_half_a_request_is_given_up() -> None:
    async def scenario() -> None:
        async with gateway(body_timeout=0.2) as g:
            host, port = g.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n"
            writer.write(head + b"{")
            assert b" 408 " in await reader.readline()
            writer.close()

    run(scenario())


def test_more_than_the_streams_wait_and_more_than_the_queue_are_refused() -> None:
    async def scenario() -> None:
        may_end = asyncio.Event()
        backend = Scripted(may_end, f"{THINK_END}Hi{EOS}")
        async with gateway(backend, streams=1, queue=1) as g:
            asked = [asyncio.create_task(g.post("/v1/chat/completions", CHAT)) for _ in range(4)]
            while sum(task.done() for task in asked) < 2:
                await asyncio.sleep(0.01)
            may_end.set()
            answers = await asyncio.gather(*asked)
            assert sorted(status for status, _, _ in answers) == [200, 200, 429, 429]
            refused = next(headers for status, headers, _ in answers if status == 429)
            assert refused["retry-after"] == "1"

    run(scenario())


def test_tries_again_only_before_the_first_byte() -> None:
    from dsv4.serve import BackendError

    async def scenario() -> None:
        early = Scripted(BackendError("down", 503))
        async with gateway(early, retries=2) as g:
            assert (await g.post("/v1/chat/completions", CHAT))[0] == 503
            assert early.opened == 3
        late = Scripted("Hm", BackendError("down", 503))
        async with gateway(late, retries=2) as g:
            assert (await g.post("/v1/chat/completions", CHAT))[0] == 503
            assert late.opened == 1

    run(scenario())


def test_nothing_is_left_over() -> None:
    """Tasks and sockets are back to where they were, whatever clients did."""

    async def scenario() -> None:
        backend = Scripted("Hm ", *([0.01, "more "] * 20), f"{THINK_END}Hi{EOS}")
        async with gateway(backend) as g:

            async def rude(n: int) -> None:
                try:
                    timeout = aiohttp.ClientTimeout(total=0.02 * (n % 5) or None)
                    data = json.dumps({**CHAT, "stream": n % 2 == 0})
                    url = g.url + "/v1/chat/completions"
                    async with g.client.post(url, data=data, timeout=timeout) as response:
                        await response.read()
                except (asyncio.TimeoutError, aiohttp.ClientError):
                    pass

            await asyncio.gather(*(rude(n) for n in range(5)))
            await asyncio.sleep(0.2)
            before = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
            for _ in range(fewer(5, 2)):
                await asyncio.gather(*(rude(n) for n in range(20)))
            for _ in range(50):
                await asyncio.sleep(0.05)
                if not g.server.gate.running:
                    break
            await asyncio.sleep(0.2)
            gc.collect()
            after = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
            assert after[0] <= before[0]
            assert after[1] <= before[1] + 2
            assert backend.open == 0

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("open files cannot be counted here")
    run(scenario())

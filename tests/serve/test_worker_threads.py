"""Looking at prompts and completions takes long, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import aiohttp
import pytest
from gateway import Gateway, gateway, run

from dsv4._parse.parser import StreamParser
from dsv4.serve import plain_routes
from dsv4.tokens import Tokenizer

LONG = "word " * 4_000
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
PARSE = ("/parse", {"text": LONG, "thinking": False})
WORK = [
    PARSE,
    ("/parse", {"ids": [5] * 5_000, "thinking": False}),
    ("/tokenize", {"text": LONG}),
    ("/tokenize", CHAT),
    ("/render", CHAT),
    ("/v1/messages/count_tokens", CHAT),
]


class Held:
    """Work that goes on when it is let, step by step."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_go = threading.Event()
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        self.began.set()
        assert self.may_go.wait(30)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every way of working in those routes, held."""
    work = Held()

    def holding(function: Any) -> Any:
        def held_up(*given: Any, **options: Any) -> Any:
            work.step()
            return function(*given, **options)

        return held_up

    class Parser(StreamParser):
        def feed(self, text: str) -> Any:
            work.step()
            return super().feed(text)

        def feed_inert(self, text: str) -> Any:
            work.step()
            return super().feed_inert(text)

    monkeypatch.setattr(plain_routes, "StreamParser", Parser)
    monkeypatch.setattr(plain_routes, "encoded_now", holding(plain_routes.encoded_now))
    monkeypatch.setattr(Tokenizer, "encode_text", holding(Tokenizer.encode_text))
    # Making the tokenizer ready is no work of a route.
    work.may_go.set()
    yield work
    work.may_go.set()


def begin(held: Held) -> None:
    held.began.clear()
    held.may_go.clear()
    held.steps = 0


async def begun(held: Held) -> None:
    assert await asyncio.to_thread(held.began.wait, 30)


@pytest.mark.parametrize(("path", "body"), WORK)
def test_others_are_answered_while_one_is_worked_on(path: str, body: Any, held: Held) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            begin(held)
            asked = asyncio.create_task(g.post(path, body))
            await begun(held)
            assert (await g.get("/health"))[0] == 200
            assert not asked.done()
            held.may_go.set()
            assert (await asked)[0] == 200

    run(scenario())


@pytest.mark.parametrize(("path", "body"), WORK)
def test_it_takes_one_of_the_places(path: str, body: Any, held: Held) -> None:
    async def scenario() -> None:
        async with gateway(streams=1, queue=0) as g:
            begin(held)
            asked = asyncio.create_task(g.post(path, body))
            await begun(held)
            status, headers, _ = await g.post(*PARSE)
            assert (status, headers["retry-after"]) == (429, "1")
            assert (await g.post("/v1/chat/completions", CHAT))[0] == 429
            held.may_go.set()
            assert (await asked)[0] == 200
            assert (await g.post(*PARSE))[0] == 200

    run(scenario())


async def left(g: Gateway, path: str, body: Any) -> asyncio.Task[Any]:
    """A request whose client goes away when the task is cancelled."""

    async def ask() -> None:
        async with aiohttp.ClientSession() as client:
            await client.post(g.url + path, json=body)

    return asyncio.create_task(ask())


async def free(g: Gateway) -> None:
    while g.server.gate.running or g.server.gate.waiting:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(("path", "body"), WORK[:2])
def test_it_stops_when_its_client_goes_away(path: str, body: Any, held: Held) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            begin(held)
            client = await left(g, path, body)
            await begun(held)
            client.cancel()
            await free(g)
            held.may_go.set()
            # The same threads do what comes next, so the other must have ended.
            for _ in range(3):
                assert (await g.post("/parse", {"text": ""}))[0] == 200
            assert held.steps <= 2  # of five and more

    run(scenario())


def test_what_waits_is_not_begun_when_its_client_goes_away(held: Held) -> None:
    async def scenario() -> None:
        async with gateway(streams=1, queue=5) as g:
            begin(held)
            first = await left(g, *PARSE)
            await begun(held)
            second = await left(g, *PARSE)
            while not g.server.gate.waiting:
                await asyncio.sleep(0.001)
            second.cancel()
            while g.server.gate.waiting:
                await asyncio.sleep(0.001)
            first.cancel()
            await free(g)
            assert held.steps == 1

    run(scenario())


def test_pieces_make_no_difference_to_what_is_read() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            _, _, answer = await g.post(*PARSE)
            assert answer["message"]["content"] == LONG
            assert [event["type"] for event in answer["events"]] == ["ContentDelta", "End"]

    run(scenario())


TOO_MANY = [{"type": "function", "function": {"name": 5}}] * 1001
SPACE = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": 5}] * 1000}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {**CHAT, "tools": TOO_MANY}),
        ("/v1/messages", {**CHAT, "tools": TOO_MANY}),
        ("/v1/responses", {"input": "Hi", "tools": TOO_MANY}),
        ("/v1/responses", {"input": "Hi", "tools": [SPACE]}),
        ("/v1/messages/count_tokens", {**CHAT, "tools": TOO_MANY}),
        ("/render", {**CHAT, "tools": TOO_MANY}),
        ("/tokenize", {**CHAT, "tools": TOO_MANY}),
        ("/parse", {"text": "Hi", "tools": TOO_MANY}),
    ],
)
def test_tools_are_counted_before_any_of_them_is_read(path: str, body: Any) -> None:
    """Were they read, it would be their names that are wrong."""

    async def scenario() -> None:
        async with gateway() as g:
            status, _, answer = await g.post(path, body)
            assert status == 400
            assert "found 1001 tools, expected at most 1000" in answer["error"]["message"]

    run(scenario())

"""The balance of keys, records and metrics: every request that was asked for was answered, has
failed or was left, and what a key was charged is what was counted and told."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway import Gateway, gateway, gateway_before, key_file, run
from standins import ChatServer, Scripted

from dsv4.serve.access.key_usage import KeyUsage
from dsv4.serve.backend import BackendError, Chunk, Counts
from dsv4.tokens import Tokenizer
from parts import ALL

SEEDS = range(25 if ALL else 2)
REQUESTS = 60 if ALL else 24
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
KEYS = ("ann", "bob")


class Moody(Scripted):
    """A backend that answers, breaks before or behind its first piece, or takes its time."""

    def __init__(self, dice: random.Random, *, breaks: bool) -> None:
        super().__init__()
        self._dice = dice
        self._breaks = breaks

    async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
        self.opened += 1
        dice = self._dice
        said = ["Hm.</think>", *(["more "] * dice.randrange(1, 9))]
        counts = dice.choice([Counts(), Counts(dice.randrange(90), 0, 7), Counts(-5, 9, -1)])
        end = Chunk("", finish="stop", counts=counts)
        kind = dice.random()
        script: list[Any] = [*said, end]
        if kind < 0.1 and self._breaks:
            script = [BackendError("away", 503)]
        elif kind < 0.2 and self._breaks:
            script = [*said, BackendError("broken")]
        elif kind < 0.5:
            script = [each for text in said for each in (text, 0.005)] + [end]
        async for chunk in Scripted(*script).stream(prompt, ids, options):
            yield chunk


class Asked:
    """What clients asked for, and what they know of it."""

    def __init__(self, g: Gateway, dice: random.Random, *, leaves: bool) -> None:
        self._g = g
        self._dice = dice
        self._leaves = leaves
        self.count: Counter[str] = Counter()
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.told: Counter[str] = Counter()  # how many tokens, by key
        self.unsure: set[str] = set()  # keys that may have used more than was told

    async def request(self) -> None:
        dice = self._dice
        key, path, stream = dice.choice(KEYS), dice.choice(PATHS), dice.random() < 0.5
        body: dict[str, Any] = {"stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
        if path == PATHS[2]:
            body = {"stream": stream, "input": "Hi"}
        elif path == PATHS[1]:
            body["max_tokens"] = 99
        elif stream:
            body["stream_options"] = {"include_usage": True}
        data = b"{" if dice.random() < 0.1 else json.dumps(body).encode()
        leaves = self._leaves and dice.random() < 0.2
        self.count[key] += 1
        headers = {"authorization": f"Bearer sk-{key}"}
        try:
            async with self._g.client.post(
                self._g.url + path, data=data, headers=headers
            ) as answer:
                if leaves:
                    self.unsure.add(key)
                    await answer.content.read(dice.randrange(1, 400))
                    return
                text = await answer.text()
        except aiohttp.ClientError:  # broken off behind its first byte
            self.unsure.add(key)
            return
        self.statuses[key, answer.status] += 1
        self._note(key, text)

    def _note(self, key: str, text: str) -> None:
        """Adds the tokens that an answer tells, which is its last word about them."""
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")] or [text]
        found = [usage for line in lines for usage in _usages(json.loads(line))]
        if found and not json.loads(lines[-1]).get("error"):
            last = found[-1]
            names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
            more = last.get("cache_read_input_tokens") or 0
            self.told[key] += sum(last.get(name) or 0 for name in names) + more
        elif self._leaves:
            self.unsure.add(key)


def _usages(event: Any) -> list[dict[str, Any]]:
    places = (event, event.get("response") or {}, event.get("message") or {})
    return [place["usage"] for place in places if place.get("usage")]


@pytest.mark.parametrize("seed", SEEDS)
def test_asked_is_answered_failed_and_left_and_charged_is_counted(
    seed: int, tmp_path: Path
) -> None:
    lines = "".join(f"{key}:sk-{key} day_tokens=100000000\n" for key in KEYS)
    given: dict[str, Any] = {"api_key_file": key_file(tmp_path, lines), "open_key_files": True}
    record = tmp_path / "records.jsonl"

    async def scenario() -> None:
        # In every other run nothing breaks and nobody leaves: then all that is charged was told.
        dice, is_rough = random.Random(f"balance {seed}"), seed % 2 == 0
        backend = Moody(dice, breaks=is_rough)
        async with gateway(backend, record=str(record), **given) as g:
            asked = Asked(g, dice, leaves=is_rough)
            for _ in range(REQUESTS // 6):
                await asyncio.gather(*(asked.request() for _ in range(6)))
            await ended(g, asked)
            await check_balance(g, asked)
        assert record.read_text("utf-8").count("\n") == backend.opened

    run(scenario())


# What ends a stream of each protocol.
LAST_EVENTS = dict(zip(PATHS, (b"[DONE]", b"message_stop", b"response.completed"), strict=True))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heals", [False, True], ids=["serve", "heal"])
def test_who_leaves_with_the_last_event_was_answered(
    path: str, heals: bool, tokenizer: Tokenizer
) -> None:
    field = "input" if path == PATHS[2] else "messages"
    body = {field: [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 99}
    deltas = [{"delta": {"content": "Hi."}}, {"delta": {}, "finish_reason": "stop"}]
    chunks = json.dumps([{"choices": [choice]} for choice in deltas])

    async def scenario() -> None:
        before = gateway_before(ChatServer(tokenizer, chunks, pause=0.2).running())
        backend = Scripted("Hm.</think>Hi.", Chunk("", finish="stop"), 0.2)
        async with before if heals else gateway(backend) as g:
            async with g.client.post(g.url + path, data=json.dumps(body).encode()) as answer:
                came = b""
                while LAST_EVENTS[path] not in came:
                    came += await answer.content.readany()
            while not total(g, "requests"):
                await asyncio.sleep(0.01)
            assert total(g, "requests", status="200") == 1
            assert total(g, "clients_gone") == 0

    run(scenario())


async def check_balance(g: Gateway, asked: Asked) -> None:
    assert total(g, "requests") == REQUESTS
    charged: Counter[str] = Counter()
    for key in KEYS:
        used = await usage_of(g, key)
        charged[key] = used.day_tokens
        assert sum(used.streams.values()) == 0
        assert total(g, "key_requests", key=key) == used.requests == asked.count[key]
        assert total(g, "key_tokens", key=key) == charged[key] >= asked.told[key]
        if key not in asked.unsure:
            assert charged[key] == asked.told[key]
        for (name, status), seen in asked.statuses.items():
            if name == key:
                assert total(g, "key_requests", key=key, status=str(status)) >= seen
    of_all = [total(g, "tokens", kind=kind) for kind in ("prompt", "completion")]
    assert sum(of_all) == sum(charged.values())


async def usage_of(g: Gateway, key: str) -> KeyUsage:
    found: list[KeyUsage] = []
    await g.server.access.meter.table.change(key, lambda usage, now: found.append(usage))
    return found[-1]


def total(g: Gateway, name: str, **labels: str) -> float:
    """The sum of a counter's samples that have these labels."""
    return sum(
        sample.value
        for metric in g.server.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == f"dsv4_{name}_total" and labels.items() <= sample.labels.items()
    )


async def ended(g: Gateway, asked: Asked) -> None:
    """Waits until every request is counted and charged, and nothing of any is left over."""
    while total(g, "key_requests") < sum(asked.count.values()) or g.server.gate.running:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)  # charging comes behind counting

"""The law of upstreams: whatever form a chat server gives its answer, the client is told exactly
what went in, or a failure in its protocol's own form; never less told as complete.

`fuzz/upstream_changes.py` has the forms, and `fuzz/upstream_law.py` what is told of each.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest
from gateway import run

from dsv4 import serve
from dsv4.serve.upstreams import answer_reader
from loading import loaded
from parts import ALL

law = loaded("fuzz/upstream_law.py")

COUNT = 100_000 if ALL else 2_000
BATCHES = 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def shown(found: list[Any]) -> str:
    return "\n\n".join(
        f"{seed}: {answer.changes}\n{problem}" for seed, answer, problem in found[:5]
    )


def test_there_are_many_kinds_of_changes() -> None:
    names = [change.name for change in (*law.KEEPING, *law.DAMAGING)]
    assert len(set(names)) == len(names) >= 100


def test_every_change_by_itself() -> None:
    found = asyncio.run(law.alone(20 if ALL else 2))
    assert not found, shown(found)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_changes_together(batch: int) -> None:
    seeds = [f"{batch} {n}" for n in range(COUNT // BATCHES)]
    found = asyncio.run(law.violations(seeds))
    assert not found, shown(found)


def test_changes_without_the_fast_reader_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reader, "parse_event", answer_reader._slow_event_json)
    found = asyncio.run(law.violations([f"slow {n}" for n in range(COUNT // BATCHES)]))
    assert not found, shown(found)


PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


async def told_by_app(answer: Any, protocol: str, stream: bool) -> Any:
    """What a client of the whole gateway is told."""
    backend = law.backend_of(answer)
    app = serve.app(serve.Settings(backend="chat", upstream=("http://x",), retries=0), backend)
    body = json.dumps({**law.BODIES[protocol], "model": "m", "stream": stream}).encode()
    messages = [{"type": "http.request", "body": body}]
    sent: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop()
        return await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": PATHS[protocol],
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "scheme": "http",
        "root_path": "",
    }
    await app(scope, receive, send)
    data = b"".join(message.get("body", b"") for message in sent[1:])
    if stream and sent[0]["status"] == 200:
        return law.told_stream(protocol, data)
    return law.told_whole(protocol, json.loads(data))


def test_a_part_of_them_through_the_whole_gateway() -> None:
    async def scenario() -> None:
        for n in range(600 if ALL else 30):
            seed = f"app {n}"
            answer = law.changed_answer(seed)
            rng = random.Random(seed)
            protocol, stream = rng.choice(list(PATHS)), rng.random() < 0.5
            told = await told_by_app(answer, protocol, stream)
            assert law.wrong(answer, told, protocol) is None, (seed, answer.changes, told)

    run(scenario(), 600)

"""A chunk that nothing waits for goes from socket to socket without waking a task."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from gateway import gateway_before, run
from standins import ChatServer

from dsv4.serve import asgi
from dsv4.serve.workers import uvicorn_runner
from dsv4.tokens import Tokenizer


def test_nearly_every_chunk_is_written_when_it_comes(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: Counter[type] = Counter()

    def count(owner: type, name: str) -> None:
        write = getattr(owner, name)

        def counted(stream: Any, data: bytes) -> Any:
            ways[owner] += 1
            return write(stream, data)

        monkeypatch.setattr(owner, name, counted)

    count(asgi.EventStream, "queued")
    count(uvicorn_runner._DirectWriter, "write")
    choices = [
        {"index": 0, "delta": {"content": f"{n} "}, "finish_reason": None} for n in range(50)
    ]
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    answer = json.dumps([{"id": "x", "choices": [each]} for each in (*choices, end)])

    async def scenario() -> None:
        upstream = ChatServer(tokenizer, answer, pause=0.002)
        async with gateway_before(upstream.running()) as g:
            body = {
                "messages": [{"role": "user", "content": "Hi"}],
                "thinking": {"type": "disabled"},
            }
            await g.stream("/v1/chat/completions", body)

    run(scenario())
    assert ways[asgi.EventStream] <= 3  # the first, with the head of the answer, and the end
    assert ways[uvicorn_runner._DirectWriter] >= 10

"""A chunk that nothing waits for goes from socket to socket without waking a task."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from gateway import gateway_before, run
from standins import ChatServer

from dsv4.serve import asgi
from dsv4.tokens import Tokenizer


def test_nearly_every_chunk_is_written_when_it_comes(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: Counter[bool] = Counter()
    push = asgi.EventStream.push

    def counted(stream: asgi.EventStream, data: bytes) -> Any:
        waiting = push(stream, data)
        ways[waiting is None] += 1
        return waiting

    monkeypatch.setattr(asgi.EventStream, "push", counted)
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
    assert ways[False] <= 2  # the first, with the head of the answer
    assert ways[True] >= 10

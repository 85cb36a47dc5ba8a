"""How fast ids are made, beside `tokenizers`. bench/README.md says how to run and read it."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from collections.abc import Callable
from timeit import default_timer
from typing import Any

from loads import LOADS, Message, agent

import dsv4
from dsv4._format.tokens import EOS

try:
    from tokenizers import Tokenizer as Peer

    from dsv4.tokens import IdParser, Session, Tokenizer

    TOKENIZER = Tokenizer.load()
except (ImportError, dsv4.Error) as error:
    sys.exit(f'bench/tokens.py needs pip install "dsv4[tokens]" tokenizers: {error}')
PEER = Peer.from_file(TOKENIZER.vocabulary.name)

GROWN = 200
# Of the turns that `tokenizers` encodes again and again, one in so many is measured.
MEASURED_TURNS = 10


def peer_ids(text: str) -> list[int]:
    return list(PEER.encode(text, add_special_tokens=False).ids)


def best(run: Callable[[], Any], rounds: int) -> float:
    """Seconds, the best of the rounds."""
    times = []
    for _ in range(rounds):
        start = default_timer()
        run()
        times.append(default_timer() - start)
    return min(times)


def forget() -> None:
    TOKENIZER._remembered.cache_clear()


def whole_prompts(rounds: int) -> None:
    """From messages to ids, against ids of the finished string."""
    print("Ids of a conversation:\n")
    row("load", "tokens", "tokenizers, finished string", "dsv4, from messages", "dsv4, cold")
    row("---", "---", "---", "---", "---")
    for name, load in LOADS.items():
        messages = load()
        text = str(dsv4.encode(messages))
        ids = peer_ids(text)
        if TOKENIZER.encode(dsv4.encode(messages)) != ids:
            sys.exit(f"{name}: the ids differ")
        peer, warm, cold = in_turns(messages, text, rounds)
        times = beside(warm, peer), beside(cold, peer)
        row(name, f"{len(ids):,}", f"{1e3 * peer:.3g} ms", *times)
    print()


def in_turns(messages: list[Message], text: str, rounds: int) -> tuple[float, float, float]:
    """Seconds of `tokenizers`, and of ours with and without the ids of short texts remembered.

    They are taken in turns, so that they see the same machine.
    """
    times = []
    for _ in range(rounds):
        peer = best(lambda: peer_ids(text), 1)
        forget()
        cold = best(lambda: TOKENIZER.encode(dsv4.encode(messages)), 1)
        warm = best(lambda: TOKENIZER.encode(dsv4.encode(messages)), 3)
        times.append((peer, warm, cold))
    peer, warm, cold = (min(column) for column in zip(*times, strict=True))
    return peer, warm, cold


def other_views(rounds: int) -> None:
    """What more than ids costs."""
    prompt = dsv4.encode(agent(GROWN))
    ids = TOKENIZER.encode(prompt)
    print(f"agent, {GROWN} messages, {len(ids):,} tokens:\n")
    row("what", "time")
    row("---", "---")
    views: dict[str, Callable[[], Any]] = {
        "encode": lambda: TOKENIZER.encode(prompt),
        "encode_masked": lambda: TOKENIZER.encode_masked(prompt),
        "spans": lambda: TOKENIZER.spans(prompt),
        "prompt_cost": lambda: TOKENIZER.prompt_cost(prompt),
        "decode": lambda: TOKENIZER.decode(ids),
        "expand, one example": lambda: TOKENIZER.expand(agent(GROWN)),
        "expand, 4 times as many messages": lambda: TOKENIZER.expand(agent(4 * GROWN)),
    }
    for name, view in views.items():
        row(name, f"{1e3 * best(view, rounds):.3g} ms")
    written = [id for id, weight in zip(*TOKENIZER.encode_masked(prompt), strict=True) if weight]
    written = written[: written.index(TOKENIZER.special_id(EOS)) + 1]
    each = best(lambda: streamed(written), rounds) / len(written)
    row("IdParser.feed_ids, for each id of the first answer", f"{1e6 * each:.3g} µs")
    print()


def streamed(ids: list[int]) -> None:
    parser = IdParser(TOKENIZER)
    for id in ids:
        parser.feed_ids((id,))
    parser.finish()


def session_times(messages: list[Message]) -> list[float]:
    """Seconds for each turn of a new session."""
    session, times = Session(TOKENIZER), []
    forget()
    for message in messages:
        start = default_timer()
        session.append(message)
        session.prompt_ids()
        times.append(default_timer() - start)
    if session.prompt_ids() != TOKENIZER.encode(dsv4.encode(messages)):
        sys.exit("the session's ids differ")
    return times


def growth() -> None:
    """A conversation that grows message by message, with its ids at every turn."""
    messages = agent(GROWN)
    turns = [min(times) for times in zip(*(session_times(messages) for _ in range(3)), strict=True)]
    again = {}
    for turn in range(MEASURED_TURNS // 2, GROWN, MEASURED_TURNS):
        text = str(dsv4.encode(messages[: turn + 1]))
        start = default_timer()
        peer_ids(text)
        again[turn] = default_timer() - start
    peer = sum(again.values()) * MEASURED_TURNS
    print(f"A conversation grown to {GROWN} messages, ids at every turn:\n")
    row("", "in total", f"a turn of the first {GROWN // 4}", f"a turn of the last {GROWN // 4}")
    row("---", "---", "---", "---")
    quarter = GROWN // 4
    first, last = turns[1 : quarter + 1], turns[-quarter:]
    row(
        "Session",
        f"{sum(turns):.3g} s",
        *(f"{1e3 * sum(t) / quarter:.3g} ms" for t in (first, last)),
    )
    firsts = [t for turn, t in again.items() if turn < quarter]
    lasts = [t for turn, t in again.items() if turn >= GROWN - quarter]
    means = (1e3 * sum(part) / len(part) for part in (firsts, lasts))
    row("tokenizers, the string again", f"{peer:.3g} s", *(f"{mean:.3g} ms" for mean in means))
    row("ratio", f"{peer / sum(turns):.0f}x", "", "")
    print(
        f"\nOf the turns of `tokenizers` one in {MEASURED_TURNS} is measured, and counted as all."
    )


def beside(time: float, peer: float) -> str:
    return f"{1e3 * time:.3g} ms, {peer / time:.1f}x"


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=20, help="samples of each time")
    rounds = arguments.parse_args().rounds
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("fastokens", "tokenizers")
    )
    print(f"dsv4 {dsv4.__version__}, {versions}, Python {platform.python_version()}\n")
    whole_prompts(rounds)
    other_views(rounds)
    growth()


if __name__ == "__main__":
    main()

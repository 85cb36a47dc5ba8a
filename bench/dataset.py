"""dsv4 dataset: speed on one core and two, memory, being killed, and Ray.

    python bench/dataset.py                    200,000 conversations, about ten minutes
    python bench/dataset.py --conversations 20000 --few 2000

Needs the extra `tokens`; with `ray` installed, Ray's output is compared as well.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from loads import agent, chat, tool

SRC = Path(__file__).parent.parent / "src"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conversations", type=int, default=200_000)
    parser.add_argument("--few", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where the files go, some gigabytes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        measure(Path(name), args.conversations, args.few)


def measure(folder: Path, many: int, few: int) -> None:
    write_lines(folder / "many.jsonl", many)
    write_lines(folder / "few.jsonl", few)
    size = (folder / "many.jsonl").stat().st_size
    say(f"{many:,} conversations, {size / 1e6:,.0f} MB; {os.cpu_count()} cores")
    small = run(folder, "few", "few", "--jobs", "2")
    show("two processes, few", small)
    two = run(folder, "many", "two", "--jobs", "2")
    show("two processes", two)
    one = run(folder, "many", "one", "--jobs", "1")
    show("one process", one)
    faster = two["conversations_per_second"] / one["conversations_per_second"]
    by_work = 2 * one["cpu_seconds"] / two["cpu_seconds"]
    say(f"two / one: {faster:.2f}x; by the work done, with both cores free: {by_work:.2f}x")
    growth = max(two["worker_peak_mb"]) / max(small["worker_peak_mb"])
    say(f"peak of a worker, {many:,} / {few:,} conversations: {growth:.3f}x")
    say(f"one and two processes write the same: {same(folder, 'one', 'two')}")
    peer_seconds, peer_cpu = run_peer(folder)
    say(
        f"tokenizers in two processes, ids alone: {many / peer_seconds:,.0f} conversations/s, "
        f"{peer_seconds:.1f} s, {peer_cpu:.1f} s of CPU ({two['cpu_seconds'] / peer_cpu:.2f}x)"
    )
    killed_at = kill(folder, seconds=two["seconds"] / 2)
    resumed = run(folder, "many", "killed", "--jobs", "2", "--resume")
    say(
        f"killed after {killed_at:,} conversations in the journal, resumed in "
        f"{resumed['seconds']:.0f} s: the same: {same(folder, 'killed', 'two')}"
    )
    if find_spec("ray") is None:
        return
    show("Ray, few", run(folder, "few", "ray", "--engine", "ray"))
    say(f"Ray writes the same: {same(folder, 'ray', 'few')}")


def write_lines(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.writelines(f"{json.dumps(conversation)}\n" for conversation in conversations(count))


def conversations(count: int) -> Iterator[Any]:
    """Chats of 3 to 9 messages; each tenth has tools of its own, each twentieth is an agent's."""
    for n in range(count):
        if n % 20 == 7:
            yield agent(6, tools=2)
            continue
        messages = chat(4 + n % 4 * 2)[:-1]
        messages[1]["content"] += f" This is conversation {n}, or {n * 7919 % 1_000_003}."
        yield {"messages": messages, "tools": [tool(n)]} if n % 10 == 3 else messages


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dsv4", "dataset", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SRC)}


def run(folder: Path, given: str, out: str, *options: str) -> dict[str, Any]:
    """What `--stats` says, and the time that all processes spent."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    load = os.getloadavg()[0]
    done = subprocess.run(
        command(f"{given}.jsonl", "-o", f"{out}.out.jsonl", "--stats", *options),
        **{"cwd": folder, "env": environment(), "stderr": subprocess.PIPE, "text": True},
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stats = json.loads(done.stderr.splitlines()[-1])
    return {**stats, "cpu_seconds": cpu, "load": (load, os.getloadavg()[0])}


# What people write instead: texts joined by hand, and no masks, no checks, nothing to resume.
PEER = """
import json, multiprocessing, sys
from tokenizers import Tokenizer

def load(path):
    global tokenizer
    tokenizer = Tokenizer.from_file(path)

def encoded(line):
    value = json.loads(line)
    messages = value["messages"] if isinstance(value, dict) else value
    text = "".join(f"<|{m['role']}|>{m.get('content') or ''}" for m in messages)
    return json.dumps({"input_ids": tokenizer.encode(text).ids}, separators=(",", ":"))

if __name__ == "__main__":
    given, out, vocabulary = sys.argv[1:]
    with multiprocessing.Pool(2, load, (vocabulary,)) as pool, open(given) as lines:
        with open(out, "w") as file:
            file.writelines(row + "\\n" for row in pool.imap(encoded, lines, chunksize=256))
"""


def run_peer(folder: Path) -> tuple[float, float]:
    """The time of the script on the same lines, by the clock and by what its processes spent."""
    (folder / "peer.py").write_text(PEER)
    sys.path.insert(0, str(SRC))
    from dsv4.tokens import Tokenizer

    vocabulary = Tokenizer.load().vocabulary.name
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "peer.py", "many.jsonl", "peer.out.jsonl", vocabulary],
        cwd=folder,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu


def kill(folder: Path, seconds: float) -> int:
    """Starts a run and kills it with no chance to do anything about it."""
    process = subprocess.Popen(
        command("many.jsonl", "-o", "killed.out.jsonl", "--jobs", "2", "--stats"),
        cwd=folder,
        env=environment(),
    )
    time.sleep(seconds)
    while not (folder / "killed.out.jsonl.journal").exists():
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    journal = json.loads((folder / "killed.out.jsonl.journal").read_text())
    return int(journal["progress"]["conversations"])


def same(folder: Path, a: str, b: str) -> bool:
    return filecmp.cmp(folder / f"{a}.out.jsonl", folder / f"{b}.out.jsonl", shallow=False)


def show(name: str, stats: dict[str, Any]) -> None:
    peaks = ", ".join(f"{peak:.0f}" for peak in stats["worker_peak_mb"])
    loads = " to ".join(f"{load:.1f}" for load in stats["load"])
    say(
        f"{name}: {stats['conversations_per_second']:,.0f} conversations/s, "
        f"{stats['tokens'] / stats['seconds']:,.0f} tokens/s, {stats['seconds']:.1f} s, "
        f"{stats['cpu_seconds']:.1f} s of CPU; workers {peaks} MB, "
        f"main process {stats['main_peak_mb']:.0f} MB; load average {loads}"
    )


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()

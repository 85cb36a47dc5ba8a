"""dsv4 dataset: speed on one core and two, memory, being killed, and Ray; and beside it, a script
that does the same with `tokenizers`.

    python bench/dataset.py                    1,000,000 lines of 1 KB: half an hour on two cores
    python bench/dataset.py --lines 0 --few 5000 --kills 20    only kills, of a smaller run

Needs the extra `tokens`; with `ray` installed, Ray's output is compared as well.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from loads import agent, tool

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--few", type=int, default=20_000, help="lines of all runs but one")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where the files go, some gigabytes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        few = measure_few(folder, args.few)
        if args.lines:
            measure_many(folder, args.lines, few)
        if args.kills:
            kill_at_random(folder, args.kills, args.few)
            if find_spec("ray") is not None:
                kill_a_ray_worker(folder, args.few)


def measure_few(folder: Path, count: int) -> dict[str, Any]:
    """One core, two, and Ray, which all write the same."""
    write_lines(folder / "few.jsonl", count)
    two = run(folder, "few", "two", "--jobs", "2")
    show(f"{count:,} lines, two processes", two)
    one = run(folder, "few", "one", "--jobs", "1")
    show(f"{count:,} lines, one process", one)
    by_work = 2 * one["cpu_seconds"] / two["cpu_seconds"]
    say(
        f"two / one: {one['seconds'] / two['seconds']:.2f}x; by the work done, with both cores "
        f"free: {by_work:.2f}x; the same bytes: {same(folder, 'one', 'two')}"
    )
    if find_spec("ray") is not None:
        show(f"{count:,} lines, Ray", run(folder, "few", "ray", "--engine", "ray"))
        say(f"Ray writes the same: {same(folder, 'ray', 'two')}")
    return two


def measure_many(folder: Path, count: int, few: dict[str, Any]) -> None:
    """Speed and memory, beside a script that people write instead."""
    write_lines(folder / "many.jsonl", count)
    size = (folder / "many.jsonl").stat().st_size
    say(f"{count:,} lines of {size / count:,.0f} bytes, {os.cpu_count()} cores")
    two = run(folder, "many", "many", "--jobs", "2")
    show(f"{count:,} lines, two processes", two)
    for name in ("worker", "main"):
        peaks = [max(each[f"{name}_peak_mb"]) for each in (two, few)]
        say(f"peak of a {name} process: {peaks[0]:.0f} MB, {peaks[0] / peaks[1]:.3f}x that of few")
    seconds, cpu, peaks = run_peer(folder)
    say(
        f"{count:,} lines, tokenizers in two processes: {count / seconds:,.0f} lines/s, "
        f"{seconds:.1f} s, {cpu:.1f} s of CPU: dsv4 takes {two['seconds'] / seconds:.2f}x of the "
        f"first, {two['cpu_seconds'] / cpu:.2f}x of the other; "
        f"peak of a worker {peaks[0]} MB, main process {peaks[1]} MB"
    )
    alike, tokens, peer_tokens = compared(folder)
    say(
        f"{alike / count:.1%} of the script's rows are those of dsv4, the chats; "
        f"tokens in all: {peer_tokens:,}, and {tokens:,} of dsv4"
    )


def compared(folder: Path) -> tuple[int, int, int]:
    """How many rows both write alike, and how many tokens each writes."""
    alike = tokens = peer_tokens = 0
    with open(folder / "many.out.jsonl") as ours, open(folder / "peer.out.jsonl") as theirs:
        for a, b in zip(ours, theirs, strict=True):
            alike += a == b
            # Both columns have as many numbers.
            tokens += a.count(",") // 2
            peer_tokens += b.count(",") // 2
    return alike, tokens, peer_tokens


def write_lines(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines(count))


def lines(count: int) -> Iterator[Any]:
    """Chats of 3 to 7 messages; each tenth has tools of its own, each fiftieth is an agent's."""
    for n in range(count):
        if n % 50 == 7:
            conversation = agent(6, tools=2)
            conversation[1]["content"] = passage(n, 0, 60)
            yield conversation
            continue
        messages: list[dict[str, Any]] = [{"role": "system", "content": passage(n, 0, 9)}]
        for turn in range(1, 2 + n % 3):
            messages += (
                {"role": "user", "content": passage(n, turn, 20)},
                {
                    "role": "assistant",
                    "reasoning_content": passage(n, turn + 10, 9),
                    "content": passage(n, turn + 20, 28),
                },
            )
        yield {"messages": messages, "tools": [tool(n)]} if n % 10 == 3 else messages


def passage(line: int, part: int, length: int) -> str:
    """Some words of this project's pages, others for each line."""
    words = all_words()
    start = (line * 7919 + part * 104_729) * 31 % len(words)
    return f"{line * 7919 % 1_000_003} {' '.join(words[start : start + length])}"


@cache
def all_words() -> list[str]:
    """The words of all pages, without those that are markup."""
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md"))]
    return [word for word in " ".join(pages).split() if word.strip(".,;:()").isalpha()]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dsv4", "dataset", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(folder: Path, given: str, out: str, *options: str) -> dict[str, Any]:
    """What `--stats` says, and the time that all processes spent."""
    before, load = cpu_of_children(), os.getloadavg()[0]
    done = subprocess.run(
        command(f"{given}.jsonl", "-o", f"{out}.out.jsonl", "--stats", *options),
        **{"cwd": folder, "env": environment(), "stderr": subprocess.PIPE, "text": True},
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    stats = json.loads(done.stderr.splitlines()[-1])
    stats["main_peak_mb"] = [stats["main_peak_mb"]]
    cpu = cpu_of_children() - before
    return {**stats, "cpu_seconds": cpu, "load": (load, os.getloadavg()[0])}


# What people write instead: right for chats, and with no checks, nothing counted, nothing to
# resume. Of tools and calls it writes some text, because the format has pages of rules for them.
PEER = """
import json, multiprocessing, resource, sys
from tokenizers import Tokenizer

given, out, vocabulary, bos, eos, user, assistant, think, think_end = sys.argv[1:]

def load():
    global tokenizer, assistant_id, eos_id
    tokenizer = Tokenizer.from_file(vocabulary)
    assistant_id, eos_id = map(tokenizer.token_to_id, (assistant, eos))

def encoded(line):
    value = json.loads(line)
    messages = value["messages"] if isinstance(value, dict) else value
    tools = value.get("tools") if isinstance(value, dict) else messages[0].get("tools")
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    text = bos
    for n, message in enumerate(messages):
        content = message["content"]
        if message["role"] == "system":
            text += content + (json.dumps(tools) if tools else "")
        elif message["role"] != "assistant":
            text += user + content
        else:
            calls = message.get("tool_calls")
            thought = think + message["reasoning_content"] if n > last or tools else ""
            text += assistant + thought + think_end + content
            text += (json.dumps(calls) if calls else "") + eos
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    mask, trained, before = [], 0, None
    for id in ids:
        mask.append(trained)
        if before == assistant_id:
            trained = 1
        elif id == eos_id:
            trained = 0
        before = id
    return json.dumps({"input_ids": ids, "loss_mask": mask}, separators=(",", ":"))

if __name__ == "__main__":
    with multiprocessing.Pool(2, load) as pool, open(given) as lines:
        with open(out, "w") as file:
            file.writelines(row + "\\n" for row in pool.imap(encoded, lines, chunksize=256))
    for whose in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF):
        print(resource.getrusage(whose).ru_maxrss // 1024)
"""


def run_peer(folder: Path) -> tuple[float, float, list[str]]:
    """The time of the script on the same lines, by the clock and by what its processes spent, and
    the peaks of its largest worker and its main process, in MB."""
    from dsv4._format import tokens
    from dsv4.tokens import Tokenizer

    (folder / "peer.py").write_text(PEER)
    words = (tokens.BOS, tokens.EOS, tokens.USER, tokens.ASSISTANT)
    given = ("many.jsonl", "peer.out.jsonl", Tokenizer.load().vocabulary.name)
    thinking = (tokens.THINK_START, tokens.THINK_END)
    before, began = cpu_of_children(), time.monotonic()
    arguments = [sys.executable, "peer.py", *given, *map(str, (*words, *thinking))]
    peaks = subprocess.check_output(arguments, cwd=folder, text=True).split()
    return time.monotonic() - began, cpu_of_children() - before, peaks


def kill_at_random(folder: Path, times: int, lines: int) -> None:
    """Kills runs at random places, with no chance to do anything about it, and resumes them."""
    places, kept, finished = random.Random(41), list[int](), 0
    while len(kept) < times or not finished:
        process = subprocess.Popen(
            command("few.jsonl", "-o", "killed.out.jsonl", "--jobs", "2", "--resume"),
            **{"cwd": folder, "env": environment(), "stderr": subprocess.DEVNULL},
        )
        # A line that is not written yet, and then some part of what is written between two looks.
        begun = min(journaled(folder), lines - 1)
        place = places.randrange(begun, lines) if len(kept) < times else lines
        while process.poll() is None and journaled(folder) < max(place, 1):
            time.sleep(0.01)
        time.sleep(places.uniform(0, 0.3))
        if process.poll() is None and place < lines:
            process.kill()
            process.wait()
            kept.append(journaled(folder))
            continue
        finished += 1
        if process.wait() or not same(folder, "killed", "two"):
            sys.exit(f"after kills at {kept}: exit {process.returncode}, or other bytes")
        (folder / "killed.out.jsonl").unlink()
    say(f"{len(kept)} kills, after {kept} lines; {finished} runs came to their end: the same bytes")


def kill_a_ray_worker(folder: Path, lines: int) -> None:
    """Kills a worker of Ray's that encodes, when a third of the lines is written."""
    process = subprocess.Popen(
        command("few.jsonl", "-o", "killed.out.jsonl", "--engine", "ray"),
        **{"cwd": folder, "env": environment(), "stderr": subprocess.PIPE, "text": True},
    )
    while process.poll() is None and journaled(folder) < lines // 3:
        time.sleep(0.05)
    written = journaled(folder)
    killed = next(encoding_workers_of_ray(), None)
    if process.poll() is not None or killed is None:
        sys.exit(f"no worker of Ray's was there to kill: {process.communicate()[1]}")
    os.kill(killed, signal.SIGKILL)
    _, words = process.communicate()
    if process.returncode or not same(folder, "killed", "two"):
        sys.exit(f"after a worker of Ray's was killed: other bytes, or {words}")
    say(f"a worker of Ray's killed after {written:,} of {lines:,} lines: the same bytes")


def encoding_workers_of_ray() -> Iterator[int]:
    """The processes of this machine that encode for Ray."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"ray::MapWorker(MapBatches(_RayEncoder" in (folder / "cmdline").read_bytes():
                yield int(folder.name)


def journaled(folder: Path) -> int:
    """How many lines a run has written for certain."""
    try:
        entry = json.loads((folder / "killed.out.jsonl.journal").read_text())
    except FileNotFoundError:
        return 0
    return int(entry["progress"]["conversations"])


def same(folder: Path, a: str, b: str) -> bool:
    return filecmp.cmp(folder / f"{a}.out.jsonl", folder / f"{b}.out.jsonl", shallow=False)


def show(name: str, stats: dict[str, Any]) -> None:
    peaks = ", ".join(f"{peak:.0f}" for peak in stats["worker_peak_mb"])
    loads = " to ".join(f"{load:.1f}" for load in stats["load"])
    say(
        f"{name}: {stats['conversations_per_second']:,.0f} lines/s, "
        f"{stats['tokens'] / stats['seconds']:,.0f} tokens/s, {stats['seconds']:.1f} s, "
        f"{stats['cpu_seconds']:.1f} s of CPU; workers {peaks} MB, "
        f"main process {stats['main_peak_mb'][0]:.0f} MB; load average {loads}"
    )


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()

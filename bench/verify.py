"""`dsv4.verify.explain` with 5,000 hypotheses, and `dsv4 cache` on a long log.

    python bench/verify.py
    python bench/verify.py --requests 1000      # a shorter log

Times are of the processor. The log is of an agent whose requests grow from each other, to 115 KB
and 60 KB on average; it is written to a temporary folder, 600 MB for 10,000 requests.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dsv4.profiles.server_faults import variants
from dsv4.verify import Observation, explain
from dsv4.verify.hypotheses import Counts, Hypothesis, clean_servers, forecasts_of_probes

HYPOTHESES, OBSERVATIONS = 5_000, 45
LARGEST = 115_000
WORDS = (
    *("alpha", "beta", "file", "path", "error", "list", "return", "class"),
    *("import", "value", "result", "line", "open", "the", "of"),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=10_000)
    args = parser.parse_args()
    measure_explain()
    with tempfile.TemporaryDirectory() as folder:
        measure_cache(Path(folder, "log.jsonl"), args.requests)


# Explaining.


def measure_explain() -> None:
    started = time.process_time()
    counts = many_counts()
    print(f"{len(counts):,} hypotheses forecast in {time.process_time() - started:.1f} s")
    seen = observed(counts[clean_servers()[0]])
    odd = [
        Observation(o.probe, o.count and o.count + 7 * (n % 3 == 0), refused=o.refused)
        for n, o in enumerate(seen)
    ]
    for name, observations in (("a clean server", seen), ("nothing explains it", odd)):
        started = time.process_time()
        outcome = explain(observations, counts=counts).outcome
        took = time.process_time() - started
        print(f"{name}: {outcome}, {len(observations)} observations in {took:.2f} s")


def many_counts() -> dict[Hypothesis, Counts]:
    """Every server, clean and with each fault, and pairs of faults at random."""
    chance, forecaster = random.Random(1), forecasts_of_probes()
    faults = [fault for fault in variants() if not fault.fault.replaces_prompt]
    chosen = dict.fromkeys(clean_servers())
    chosen |= dict.fromkeys(s.having(fault) for s in clean_servers() for fault in faults)
    while len(chosen) < HYPOTHESES:
        chosen[chance.choice(clean_servers()).having(*chance.sample(faults, 2))] = None
    return {hypothesis: forecaster.counts(hypothesis) for hypothesis in chosen}


def observed(counts: Counts) -> list[Observation]:
    found = []
    for probe, count in list(counts.items())[:OBSERVATIONS]:
        number = count if count is None or isinstance(count, int) else max(count.values())
        found.append(Observation(probe, number, refused=number is None))
    return found


# The cache.


def measure_cache(log: Path, requests: int) -> None:
    write_log(log, requests)
    subprocess.run(
        [sys.executable, "-m", "dsv4", "cache", "--profile", "vllm-0.32", str(log)],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    size, took = log.stat().st_size / requests / 1000, used.ru_utime + used.ru_stime
    print(f"cache: {requests:,} requests of {size:.0f} KB in {took:.1f} s", end=", ")
    print(f"{used.ru_maxrss // 1024} MB of memory at most")


def write_log(path: Path, requests: int) -> None:
    chance = random.Random(1)

    def text(size: int) -> str:
        return " ".join(chance.choices(WORDS, k=size // 6))

    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    function: dict[str, Any] = {"name": "run", "description": text(2000), "parameters": schema}
    left = requests
    with path.open("w", encoding="utf-8") as file:
        while left:
            messages: list[Any] = [{"role": "system", "content": text(3000)}]
            messages.append({"role": "user", "content": text(400)})
            size = 0
            while left and size < LARGEST:
                body = {"messages": messages, "tools": [{"type": "function", "function": function}]}
                size = file.write(json.dumps({"request": body}) + "\n")
                left -= 1
                called = {"name": "run", "arguments": json.dumps({"a": text(120)})}
                call = {"id": f"c{left}", "type": "function", "function": called}
                answer = {"role": "assistant", "content": "", "reasoning_content": text(300)}
                messages.append({**answer, "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": f"c{left}", "content": text(1500)})


if __name__ == "__main__":
    main()

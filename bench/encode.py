"""How fast the encoder is, beside the others. bench/README.md says how to run and read it."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from timeit import Timer
from typing import Any

from loads import LOADS, Message, agent

import dsv4
import encoding_dsv4
from dsv4._encode.tools import DEFAULT_CACHE_CHARACTERS

RELEASED_API, NATIVE, COLD = "dsv4", "dsv4 native", "dsv4 cold"
PEER, PEER_VERSION = "deepseek-recipe", "0.2.0"
Run = Callable[[], object]
Encoder = Callable[[list[Message]], Callable[[], str]]

# The modules of the releases, by the dialects that they write.
MODULES = {"v4": "encoding_dsv4", "v4.1": "encoding_dsv41", "v4.1-1017": "encoding_dsv41_1017"}
# How often two trees are measured in turns, and the samples of each time.
TURNS, SAMPLES = 11, 15

# One sample lasts about this long, so that the clock and a call by itself do not count.
SAMPLE_SECONDS = 0.002


# What is measured: from messages to a function that makes the prompt.


def released_api(messages: list[Message]) -> Callable[[], str]:
    return lambda: encoding_dsv4.encode_messages(messages, thinking_mode="thinking")


def native(messages: list[Message]) -> Callable[[], str]:
    return lambda: str(dsv4.encode(messages))


def peer_encoder() -> Encoder:
    try:
        found = importlib.metadata.version(PEER)
        from deepseek_recipe import ChatCompletionRequest, ConversionOptions, DeepseekV4Encoding
    except ImportError:
        sys.exit(f"bench/encode.py needs the peer: pip install {PEER}=={PEER_VERSION}")
    if found != PEER_VERSION:
        print(f"Note: this is {PEER} {found}, bench/README.md speaks of {PEER_VERSION}.")
    encoding, options = DeepseekV4Encoding(), ConversionOptions()

    def peer(messages: list[Message]) -> Callable[[], str]:
        # Its "low" writes no effort text, as ours does by default: so all write the same prompt.
        body: dict[str, Any] = {"model": "DeepSeek-V4-Pro", "reasoning_effort": "low"}
        body["messages"] = [{k: v for k, v in m.items() if k != "tools"} for m in messages]
        if "tools" in messages[0]:
            body["tools"] = messages[0]["tools"]

        def run() -> str:
            conversation = ChatCompletionRequest(body).convert(options).conversation
            return encoding.render_conversation(conversation).prompt  # type: ignore[no-any-return]

        return run

    return peer


def released_module(path: str) -> Encoder:
    """The module that the model's authors publish, from the user's own copy."""
    spec = importlib.util.spec_from_file_location("released_encoding_dsv4", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        sys.exit(f"--released: found no Python file at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda messages: lambda: module.encode_messages(messages, thinking_mode="thinking")


def forget() -> None:
    """Makes the next encoding a first one."""
    dsv4.set_cache_size(DEFAULT_CACHE_CHARACTERS)


# Measuring.


def best_times(runs: list[Run], cold: list[Run], rounds: int) -> list[float]:
    """Seconds for each run, the best of many samples, all of them taken in turns.

    Before each of the `cold` runs everything remembered is forgotten.
    """
    samplers = [_warm_sampler(run) for run in runs] + [_cold_sampler(run) for run in cold]
    best = [float("inf")] * len(samplers)
    for _ in range(rounds):
        best = [min(before, sample()) for before, sample in zip(best, samplers, strict=True)]
    return best


def _warm_sampler(run: Run) -> Callable[[], float]:
    run()
    timer = Timer(run)
    number = max(1, int(SAMPLE_SECONDS / timer.timeit(3) * 3))
    return lambda: timer.timeit(number) / number


def _cold_sampler(run: Run) -> Callable[[], float]:
    timer = Timer(run, setup=forget)
    return lambda: timer.timeit(1)


def peak_bytes(run: Run) -> int:
    """The most memory that a run held at the same time, including what it returns."""
    forget()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = run()
        _, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return peak - before


# The tables.


def speed(encoders: dict[str, Encoder], rounds: int) -> None:
    """Each encoder's time, and how many times that of the released API and of a cold run it is."""
    others = [name for name in encoders if name not in (RELEASED_API, NATIVE)]
    head = ["load", *encoders, COLD]
    head += [f"{name} / {ours}" for name in others for ours in (RELEASED_API, COLD)]
    rows = [[*head, f"{NATIVE} / {RELEASED_API}"]]
    for load, make in LOADS.items():
        messages = make()
        runs = {name: encoder(messages) for name, encoder in encoders.items()}
        _check_same(load, {name: run() for name, run in runs.items()})
        times = best_times([*runs.values()], [runs[RELEASED_API]], rounds)
        time = dict(zip([*runs, COLD], times, strict=True))
        row = [load, *map(_time, times)]
        for name in others:
            row += [f"{time[name] / time[ours]:.1f}x" for ours in (RELEASED_API, COLD)]
        rows.append([*row, f"{time[NATIVE] / time[RELEASED_API]:.2f}x"])
    _table("Time to encode", rows)


def _check_same(load: str, prompts: dict[str, str]) -> None:
    for name, prompt in prompts.items():
        if prompt != prompts[RELEASED_API]:
            sys.exit(f"{load}: the prompt of {name} is another one, so its time means nothing")


def growth(rounds: int) -> None:
    rows = [["agent, messages", "a message", "a message, cold"]]
    for count in (100, 200, 400, 800):
        run = released_api(agent(count))
        warm, cold = best_times([run], [run], rounds)
        rows.append([str(count), _time(warm / count), _time(cold / count)])
    _table("Growth (released API)", rows)


def memory() -> None:
    rows = [["load", "prompt", "peak, released API", "peak, native"]]
    for load, make in LOADS.items():
        messages = make()
        size = sys.getsizeof(native(messages)())
        peaks = [peak_bytes(encoder(messages)) for encoder in (released_api, native)]
        rows.append([load, f"{size / 1024:.1f} KiB", *(f"{peak / size:.2f}x" for peak in peaks)])
    _table("Peak memory, the prompt included, relative to the prompt (cold)", rows)


def module_encoder(name: str) -> Encoder:
    encode = importlib.import_module(name).encode_messages
    return lambda messages: lambda: encode(messages, thinking_mode="thinking")


def releases(rounds: int) -> None:
    """The modules of all releases, which write the same conversations each in its own way."""
    encoders = [module_encoder(name) for name in MODULES.values()]
    rows = [["load", *MODULES, *(f"{name} / v4" for name in MODULES if name != "v4")]]
    for load, make in LOADS.items():
        messages = make()
        times = best_times([encoder(messages) for encoder in encoders], [], rounds)
        ratios = [f"{time / times[0]:.2f}x" for time in times[1:]]
        rows.append([load, *map(_time, times), *ratios])
    _table("Releases (released API)", rows)


# Two trees.


def print_samples() -> None:
    """The time of every load in every way that this tree has, as JSON, for `against`."""
    tree = Path(dsv4.__file__).parents[1]
    encoders = {"native": native}
    encoders |= {
        name: module_encoder(module) for name, module in MODULES.items() if (tree / module).exists()
    }
    times = {
        f"{load}, {name}": best_times([encoder(make())], [], SAMPLES)[0]
        for load, make in LOADS.items()
        for name, encoder in encoders.items()
    }
    print(json.dumps(times))


def against(other: str) -> None:
    """This tree's times by those of another tree: medians of processes that take turns."""
    trees = [str(Path(dsv4.__file__).parents[1]), other]
    samples: list[list[dict[str, float]]] = [[], []]
    for _ in range(TURNS):
        for tree, taken in zip(trees, samples, strict=True):
            command = [sys.executable, __file__, "--samples"]
            environment = {**os.environ, "PYTHONPATH": tree}
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
            taken.append(json.loads(done.stdout))
    rows = [["load", "this tree / other, median", "least", "most"]]
    for name in (name for name in samples[0][0] if name in samples[1][0]):
        ratios = [here[name] / there[name] for here, there in zip(*samples, strict=True)]
        numbers = (median(ratios), min(ratios), max(ratios))
        rows.append([name, *(f"{number:.3f}" for number in numbers)])
    _table(f"{TURNS} turns of two trees", rows)


def _time(seconds: float) -> str:
    micro = seconds * 1e6
    return f"{micro:.1f} µs" if micro < 1000 else f"{micro / 1000:.2f} ms"


def _table(title: str, rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print(f"\n{title}\n")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast the encoder is, beside the others.")
    parser.add_argument("--released", metavar="PATH", help="a copy of the released module")
    parser.add_argument("--rounds", type=int, default=200, help="samples for each time (200)")
    parser.add_argument("--against", metavar="PATH", help="only compare with another tree's src")
    parser.add_argument("--samples", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.samples:
        print_samples()
        return
    if options.against:
        against(options.against)
        return
    encoders = {RELEASED_API: released_api, NATIVE: native}
    encoders[PEER] = peer_encoder()
    if options.released:
        encoders["released module"] = released_module(options.released)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"dsv4 {dsv4.__version__}, Python {platform.python_version()}, {machine}")
    speed(encoders, options.rounds)
    releases(options.rounds)
    growth(options.rounds)
    memory()


if __name__ == "__main__":
    main()

"""The gateway under load, and beside others: python bench/serve.py (bench/README.md explains it)

Starts an engine that generates nothing but does it at a pace (serve_backend.py), the gateway as its
users start it, and the others, each in a process of its own; opens all streams at the same time and
notes when every token arrives. Nothing is read before all streams have ended, so that the measuring
takes as little of the machine as it can.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import json
import mmap
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import uvloop
from loads import agent
from serve_load import MODEL, answer_pieces, answer_tokens

from dsv4._completion.events import ContentDelta, ReasoningDelta
from dsv4.api import chat
from dsv4.tokens import IdParser, Tokenizer

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
TEXTS = (ReasoningDelta, ContentDelta)


# Processes.


@dataclass
class Process:
    """A server under measurement."""

    pid: int
    url: str

    def cpu(self) -> float:
        """Seconds of CPU time that it has taken, all its threads together."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> float:
        """MiB that it holds in memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE / 2**20


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextmanager
def running(command: list[str], port: int, **environ: str) -> Iterator[Process]:
    """A process that listens on `port`."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env={**os.environ, **environ}, stdout=log, stderr=log, cwd=HERE
        )
        try:
            wait_for(port, process, log)
            yield Process(process.pid, f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/v1/models")
            connection.getresponse().read()  # a 404 is an answer too
            return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    log.seek(0)
    sys.exit(f"{process.args}: did not start\n{log.read().decode()[-2000:]}")


@contextmanager
def engine(load: Load, sent: str) -> Iterator[Process]:
    port = free_port()
    numbers = (port, sent, load.streams, load.tokens, load.per_second, load.steps)
    command = [sys.executable, "serve_backend.py", *map(str, numbers)]
    with running(command, port) as process:
        yield process


@contextmanager
def gateway(upstream: str, *flags: str, tree: Path = HERE.parent) -> Iterator[Process]:
    """The gateway of a working tree."""
    port = free_port()
    command = [sys.executable, "-m", "dsv4", "serve", "--port", str(port), *flags]
    source = str(tree / "src")
    with running([*command, "--upstream", upstream], port, PYTHONPATH=source) as process:
        yield process


@contextmanager
def bare_pipe(upstream: str) -> Iterator[Process]:
    """What only passes bytes on: no gateway can cost less."""
    port = free_port()
    command = [sys.executable, "serve_pipe.py", str(port), upstream.rpartition(":")[2]]
    with running(command, port) as process:
        yield process


@contextmanager
def recipe_app(upstream: str) -> Iterator[Process]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "serve_peer:app", "--port", str(port)]
    quiet = ["--no-access-log", "--log-level", "warning"]
    with running([*command, *quiet], port, UPSTREAM=upstream) as process:
        yield process


@contextmanager
def litellm_proxy(python: str, upstream: str) -> Iterator[Process]:
    port = free_port()
    named = {"model": f"openai/{MODEL}", "api_base": f"{upstream}/v1", "api_key": "none"}
    config = {"model_list": [{"model_name": MODEL, "litellm_params": named}]}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(config, file)  # which is YAML too
        file.flush()
        command = [str(Path(python).parent / "litellm"), "--config", file.name]
        command += ["--port", str(port), "--host", "127.0.0.1", "--num_workers", "1"]
        offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        offline["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
        with running(command, port, **offline) as process:
            yield process


# The load.


@dataclass(frozen=True)
class Load:
    """How many streams there are, and what they bring."""

    streams: int
    seconds: float
    per_second: float
    steps: int
    ramp: float
    in_sessions: bool = False

    @property
    def tokens(self) -> int:
        return int(self.seconds * self.per_second)

    @cached_property
    def settling(self) -> list[int]:
        """For each token, the one that settles how its text is shown.

        It is nearly always itself. But line breaks wait, because they go if calls follow, and so
        does what may be the start of a tag.
        """
        call = chat.read(json.loads(self.body(0)))
        parser = IdParser(Tokenizer.load(), call.parser(call.request.encode()))
        shown = list(
            accumulate(
                sum(len(e.text) for e in parser.feed_ids(ids) if isinstance(e, TEXTS))
                for _, ids in answer_tokens(self.tokens)
            )
        )
        ends = accumulate(len(text) for _, text in answer_pieces(self.tokens))
        last = self.tokens - 1
        return [max(n, min(bisect_left(shown, end), last)) for n, end in enumerate(ends)]

    def body(self, stream: int) -> bytes:
        conversation = agent(20, tools=10)
        tools = conversation[0].pop("tools")
        body = {
            "model": MODEL,
            "messages": conversation,
            "tools": tools,
            "stream": True,
            "seed": stream,
        }
        return json.dumps(body).encode()


class Client(asyncio.Protocol):
    """One stream's client: it keeps what comes, and when."""

    def __init__(self, load: Load, stream: int, ended: asyncio.Future[None]) -> None:
        self._request = request_of(load, stream)
        self._ended = ended
        self.received: list[tuple[float, bytes]] = []

    def connection_made(self, transport: Any) -> None:
        transport.write(self._request)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received.append((time.monotonic(), data))
        if data.endswith(b"0\r\n\r\n"):
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set_result(None)


def request_of(load: Load, stream: int) -> bytes:
    body = load.body(stream)
    session = f"/sessions/{stream}" if load.in_sessions else ""
    head = (
        f"POST {session}/v1/chat/completions HTTP/1.1\r\n"
        "host: localhost\r\nauthorization: Bearer sk-x\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Delay(NamedTuple):
    """How long the text of a token took from the engine to the client."""

    whole: float  # since the token itself was sent
    settled: float  # since the token was sent without which nobody could have shown the text
    full: bool  # whether all streams were open


@dataclass
class Measured:
    """What a run showed."""

    chunks: int = 0
    broken: int = 0
    cpu: float = 0.0
    delays: list[Delay] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    alone: float = (
        0.0  # CPU seconds for a chunk while all streams are open: no request is read then
    )

    @property
    def late(self) -> float:
        """The 99th percentile of the delays while all streams are open, in milliseconds."""
        return quantiles([delay.settled for delay in self.delays if delay.full], n=100)[98] * 1000

    @property
    def rate(self) -> float:
        """Chunks for a second of CPU time."""
        return self.chunks / self.cpu if self.cpu else float("inf")


class Look(NamedTuple):
    """What a server had taken at a moment."""

    at: float
    cpu: float
    memory: float


async def opened(process: Process, load: Load) -> tuple[list[Client], float, list[Look]]:
    """All streams, to their ends; when the last was opened, and what the server had taken, second
    by second."""
    loop = asyncio.get_running_loop()
    host, port = process.url.removeprefix("http://").split(":")
    clients, ends = [], []
    looks: list[Look] = []

    async def watch() -> None:
        while True:
            looks.append(Look(time.monotonic(), process.cpu(), process.memory()))
            await asyncio.sleep(1)

    watching = loop.create_task(watch())
    began = loop.time()
    for stream in range(load.streams):
        await asyncio.sleep(max(began + load.ramp * stream / load.streams - loop.time(), 0))
        ended = loop.create_future()
        client = Client(load, stream, ended)
        clients.append(client)
        ends.append(ended)
        await loop.create_connection(lambda c=client: c, host, int(port))
    full_from = time.monotonic()
    await asyncio.wait(ends, timeout=load.seconds * 10 + 60)
    watching.cancel()
    return clients, full_from, looks


def measure(process: Process, load: Load, sent: Any) -> Measured:
    gc.collect()
    gc.disable()
    before = process.cpu()
    clients, full_from, looks = uvloop.run(opened(process, load))
    measured = Measured(cpu=process.cpu() - before, memory=[look.memory for look in looks])
    gc.enable()
    full_to = min(sent[load.tokens - 1 :: load.tokens])  # the first stream that ends
    while_full = [look for look in looks if full_from + 1 < look.at < full_to]
    if len(while_full) > 1:
        first, *_, last = while_full
        chunks = sum(first.at < when < last.at for when in sent)
        measured.alone = (last.cpu - first.cpu) / max(chunks, 1)
    for stream, client in enumerate(clients):
        times = sent[stream * load.tokens : (stream + 1) * load.tokens]
        read(client, load, times, (full_from, full_to), measured)
    return measured


# Reading what came.

_CHUNK = re.compile(rb"([0-9a-fA-F]+)\r\n")


def read(
    client: Client, load: Load, sent: Any, full: tuple[float, float], measured: Measured
) -> None:
    """Adds the delays of one stream, and whether it came as it was sent. All streams were open
    from and to the times in `full`."""
    pieces, settling = answer_pieces(load.tokens), load.settling
    # Where the text of each token ends, in characters.
    ends = list(accumulate(len(text) for _, text in pieces))
    said: dict[str, list[str]] = {"reasoning_content": [], "content": []}
    at = known = 0
    done = False
    for when, event in events_of(client.received):
        done = done or event == b"[DONE]"
        for name, text in texts_of(event):
            said[name].append(text)
            at += len(text)
        # Tokens without a text (a tag, half of a character) are here when what follows is.
        arrived = bisect_left(ends, at + 1)
        for n in range(known, min(arrived, len(ends))):
            if pieces[n][1]:
                open_all = full[0] <= sent[n] <= full[1]
                delay = Delay(when - sent[n], when - sent[settling[n]], open_all)
                measured.delays.append(delay)
        known = max(known, arrived)
    whole = {name: "".join(text for field, text in pieces if field == name) for name in said}
    measured.chunks += min(known, load.tokens)
    measured.broken += not (done and {k: "".join(v) for k, v in said.items()} == whole)


def texts_of(event: bytes) -> Iterator[tuple[str, str]]:
    if event.startswith(b"{"):
        for choice in json.loads(event).get("choices") or ():
            for name in ("reasoning_content", "content"):
                if choice["delta"].get(name):
                    yield name, choice["delta"][name]


def events_of(received: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The data of every event, with when its last byte came. Chunks of HTTP are taken apart."""
    raw = b"".join(data for _, data in received)
    offsets = list(accumulate(len(data) for _, data in received))
    at = raw.find(b"\r\n\r\n") + 4
    text = b""
    while (head := _CHUNK.match(raw, at)) is not None and (size := int(head[1], 16)):
        at = head.end() + size + 2
        when = received[min(bisect_left(offsets, at), len(received) - 1)][0]
        *lines, text = (text + raw[head.end() : head.end() + size]).split(b"\n")
        yield from ((when, line[6:].rstrip()) for line in lines if line.startswith(b"data: "))


# The tables.


def percentiles(delays: list[float]) -> str:
    if len(delays) < 2:
        return "nothing came"
    cuts = quantiles(delays, n=1000)
    shown = {"p50": cuts[499], "p99": cuts[989], "p99.9": cuts[998], "most": max(delays)}
    return "  ".join(f"{name} {value * 1000:.1f} ms" for name, value in shown.items())


def load_average() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


@contextmanager
def started(load: Load) -> Iterator[tuple[Process, Any]]:
    """The engine, and when it sent each token."""
    size = 8 * load.streams * load.tokens
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(size)
        with engine(load, file.name) as process, open(file.name, "r+b") as shared:
            yield process, memoryview(mmap.mmap(shared.fileno(), size)).cast("d")


def hold(load: Load, flags: list[str]) -> None:
    """Many concurrent streams through one worker."""
    print(
        f"{load.streams} streams, {load.per_second:g} chunks a second each for {load.seconds:g} s, "
        f"{'all in one step' if load.steps == 1 else f'in {load.steps} steps'}; {load_average()}"
    )
    with started(load) as (upstream, sent):
        direct = measure(upstream, load, sent)
        print(f"  without a gateway     {percentiles([d.whole for d in direct.delays if d.full])}")
    with started(load) as (upstream, sent), gateway(upstream.url, *flags) as process:
        measured = measure(process, load, sent)
    full = [delay for delay in measured.delays if delay.full]
    waits = sum(n != settled for n, settled in enumerate(load.settling)) / load.tokens
    print(f"  through dsv4 serve    {percentiles([d.settled for d in full])}")
    print(f"  with what text waits  {percentiles([d.whole for d in full])}  ({waits:.1%} wait)")
    print(f"  opening, ending too   {percentiles([d.settled for d in measured.delays])}")
    print(f"  streams broken        {measured.broken}")
    print(f"  chunks                {measured.chunks:,}, {measured.rate:,.0f} per CPU-second")
    settled = measured.memory[int(load.ramp) + 2 :] or measured.memory
    print(
        f"  memory                {measured.memory[0]:.0f} MiB at the start, "
        f"{settled[0]:.0f} with all streams open, {settled[-1]:.0f} at the end"
    )
    print(f"  afterwards            {load_average()}")


def compare(load: Load, python: str | None, rounds: int) -> None:
    """Chunks for a second of CPU time, beside the others, in turns."""
    print(f"{load.streams} streams of {load.tokens} chunks, in turns; {load_average()}")
    best: dict[str, Measured] = {}
    for _ in range(rounds):
        with ExitStack() as stack:
            upstream, sent = stack.enter_context(started(load))
            servers = {
                "dsv4 serve, ids": gateway(upstream.url, "--backend", "vllm"),
                "FastAPI, httpx, deepseek-recipe": recipe_app(upstream.url),
                "dsv4 heal": gateway(upstream.url, "--backend", "chat"),
                "bare pipe": bare_pipe(upstream.url),
            }
            if python is not None:
                servers["litellm proxy"] = litellm_proxy(python, upstream.url)
            for name, server in servers.items():
                with server as process:
                    measure(process, Load(5, load.seconds, load.per_second, 1, 0), sent)
                    found = measure(process, load, sent)
                if name not in best or found.rate > best[name].rate:
                    best[name] = found
                print(f"  … {name}: {found.rate:,.0f}, {found.broken} broken", file=sys.stderr)
    for name, found in best.items():
        ratio = found.rate and best["dsv4 serve, ids"].rate / found.rate
        each = f"{1e6 / found.rate:7.0f} µs" if found.chunks else "nothing came"
        print(
            f"  {name:32} {found.rate:9,.0f} chunks per CPU-second {each}  "
            f"dsv4 serve is {ratio:5.2f} x; {found.broken} broken"
        )


KINDS = {"dsv4 serve": ["--backend", "vllm"], "dsv4 heal": ["--backend", "chat"]}


def compare_trees(load: Load, other: Path, rounds: int) -> None:
    """This working tree, another and the bare pipe, in turns: medians of all rounds, and what they
    are to each other."""
    print(f"{load.streams} streams of {load.tokens} chunks, {rounds} rounds; {load_average()}")
    trees = {"before": other, "now": HERE.parent}
    for kind, flags in KINDS.items():
        found: dict[str, list[Measured]] = {"bare pipe": [], **{name: [] for name in trees}}
        for n in range(rounds):
            for name in found if n % 2 else reversed(found):
                with started(load) as (upstream, sent):
                    tree = trees.get(name)
                    server = (
                        bare_pipe(upstream.url)
                        if tree is None
                        else gateway(upstream.url, *flags, tree=tree)
                    )
                    with server as process:
                        measured = measure(process, load, sent)
                if tree is not None and measured.broken:
                    sys.exit(f"{measured.broken} streams broken by {kind} of {tree}")
                found[name].append(measured)
                print(f"  … {kind}, {name}: {in_short(measured)}", file=sys.stderr)
        print_ratios(kind, found)
    print(f"  afterwards   {load_average()}")


def in_short(measured: Measured) -> str:
    alone = f"{measured.alone * 1e6:.1f} µs a chunk alone"
    return f"{measured.rate:,.0f} per CPU-second, {alone}, p99 {measured.late:.1f} ms"


def print_ratios(kind: str, found: dict[str, list[Measured]]) -> None:
    each = {name: 1e6 / median(m.rate for m in runs) for name, runs in found.items()}
    alone = {name: 1e6 * median(m.alone for m in runs) for name, runs in found.items()}
    late = {name: median(m.late for m in runs) for name, runs in found.items()}
    for what, costs in (("all told", each), ("a chunk alone", alone)):
        pipe, before, now = costs.values()
        print(
            f"  {kind}, {what:14} {pipe:5.1f} µs for the bare pipe, {before:5.1f} before, "
            f"{now:5.1f} now: {before / now:.2f} x the chunks, {now / pipe:.2f} x the pipe's cost"
        )
    print(f"  {kind}, p99            {late['before']:.1f} ms before, {late['now']:.1f} now")


class Cost(NamedTuple):
    """Something that can be switched on, and the flags without it and with it."""

    what: str
    most: float  # by which part the chunks for a second of CPU time may fall
    without: list[str]
    added: list[str]
    in_sessions: bool = False


def costs(folder: str) -> list[Cost]:
    sessions = ["--trajectories", f"{folder}/sessions.db"]
    chat = ["--backend", "chat", "--for"]
    return [
        Cost("recording sessions", 0.15, ["--backend", "vllm"], sessions, in_sessions=True),
        Cost("adapting requests in heal", 0.05, [*chat, "none"], [*chat, "deepseek-api"]),
    ]


def compare_costs(load: Load, rounds: int) -> None:
    """What is lost in chunks for a second of CPU time: without and with, then the other way round,
    so that a machine that gets slower or faster does not favour one of them. The median counts."""
    print(f"{load.streams} streams of {load.tokens} chunks, in turns; {load_average()}")
    with tempfile.TemporaryDirectory() as folder:
        for cost in costs(folder):
            rates: tuple[list[float], list[float]] = ([], [])
            for n in range(rounds):
                for switched_on in (n % 2 == 1, n % 2 == 0):
                    rates[switched_on].append(cost_of_one(cost, load, switched_on))
            lost = [1 - b / a for a, b in zip(*rates, strict=True)]
            print(
                f"  {cost.what:26} {median(rates[0]):9,.0f} chunks per CPU-second without, "
                f"{median(rates[1]):9,.0f} with: {median(lost):5.1%} fewer "
                f"({min(lost):.1%} to {max(lost):.1%} in {rounds} rounds), {cost.most:.0%} allowed"
            )
    print(f"  afterwards                 {load_average()}")


def cost_of_one(cost: Cost, load: Load, switched_on: bool) -> float:
    """Chunks for a second of CPU time."""
    flags = cost.without + cost.added * switched_on
    asked = replace(load, in_sessions=cost.in_sessions and switched_on)
    with started(asked) as (upstream, sent), gateway(upstream.url, *flags) as process:
        found = measure(process, asked, sent)
    print(f"  … {' '.join(flags)}: {found.rate:,.0f}; {load_average()}", file=sys.stderr)
    if found.broken:
        sys.exit(f"{found.broken} streams broken with {' '.join(flags)}")
    return found.rate


def main() -> None:
    parser = argparse.ArgumentParser(description="The gateway under load, and beside others.")
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--per-second", type=float, default=20)
    parser.add_argument("--ramp", type=float, default=5, help="seconds to open all streams in")
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[1, 10], help="groups of streams in a tick"
    )
    parser.add_argument("--litellm", metavar="PYTHON", help="the python that has litellm[proxy]")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the comparison")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="TREE",
        help="compare with another working tree, and no more",
    )
    parser.add_argument("--only", choices=["load", "compare", "costs"])
    parser.add_argument("flags", nargs="*", help="flags for dsv4 serve, after --")
    options = parser.parse_args()
    if options.against is not None:
        load = Load(options.streams, options.seconds, options.per_second, 1, options.ramp)
        compare_trees(load, options.against.resolve(), options.rounds)
        return
    if options.only in (None, "load"):
        for steps in options.steps:
            load = Load(options.streams, options.seconds, options.per_second, steps, options.ramp)
            hold(load, options.flags or ["--backend", "vllm"])
    if options.only in (None, "compare"):
        small = Load(max(options.streams // 10, 1), options.seconds / 3, options.per_second, 1, 1)
        compare(small, options.litellm, options.rounds)
    if options.only in (None, "costs"):
        all_at_once = Load(options.streams, options.seconds, options.per_second, 1, options.ramp)
        compare_costs(all_at_once, options.rounds)


if __name__ == "__main__":
    main()

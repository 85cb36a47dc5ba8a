"""The law of balance, of processes: what a client was told of a session is in its file, whatever
happens to the gateway, to its workers and to those who read the file meanwhile.

A seed makes an interleaving: calls alone, at once and going on, streams that are left, another
process that opens and closes the file, the route and the command that export, both killed, sessions
that are closed, and `kill -9` of the gateway or of a worker. The oracle is what clients were told.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from served_process import ServedProcess, served

from dsv4.errors import Error
from dsv4.trajectories import Client
from parts import ALL

pytestmark = [
    pytest.mark.usefixtures("small_vocabulary_of_processes"),
    pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for workers and open files"),
]

TOOLS = [
    {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}},
]
SESSIONS = ("a", "b", "c")
STEPS = 16 if ALL else 10
# Another program looks at a file: if it takes itself for the only one, SQLite deletes the log.
LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
if sys.argv[2] == "checkpoint":
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
db.close()
"""
LOST = (OSError, HTTPException, ValueError)  # a connection that broke, and half an answer
# What is asked in a session, and what is answered.
Conversation = list[dict[str, Any]]


class Interleaving:
    """A gateway in one interleaving of what can happen to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.files = [folder / "sessions.db", folder / "turns.db"]
        self.workers = 1 + seed % 2
        self.asked: Counter[tuple[str, str]] = Counter()
        # What clients were told of each command: how many tokens each answer had.
        self.told: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.closed: dict[str, dict[str, Any]] = {}
        self.histories: dict[str, list[Conversation]] = {name: [[]] for name in SESSIONS}
        self.problems: list[str] = []
        self.steps: list[str] = []
        self.running: set[Any] = set()
        self.gateway = ExitStack()
        self.server: ServedProcess

    # The gateway.

    def start(self) -> None:
        flags = ("--trajectories", str(self.files[0]), "--replay", f"sqlite:{self.files[1]}")
        paces = ("--pace", self.random.choice(["0", "500"]), "--workers", str(self.workers))
        self.server = self.gateway.enter_context(served(*flags, *paces))

    def kill_gateway(self) -> None:
        for pid in (self.server.process.pid, *self.server.children()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.gateway.close()
        self.start()

    def kill_worker(self) -> None:
        for pid in self.server.workers()[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    # Clients.

    def ask(self, pool: ThreadPoolExecutor) -> None:
        """One to three calls at once with one prompt, which goes on from an earlier answer."""
        session, number = self.random.choice(SESSIONS), len(self.asked)
        history = self.random.choice(self.histories[session])
        command = f"echo {number}"
        messages = [*history, {"role": "user", "content": f"RUN: {command}"}]
        for _ in range(self.random.choice([1, 1, 2, 3])):
            self.asked[session, command] += 1
            is_streamed = self.random.random() < 0.5
            call = (session, command, messages, is_streamed, self.url)
            self.running.add(pool.submit(self._call, *call))

    def _call(
        self, session: str, command: str, messages: Conversation, is_streamed: bool, url: str
    ) -> None:
        try:
            with self._opened(session, messages, is_streamed, url) as answer:
                data = answer.read()
            count, message = told_by(data) if is_streamed else told_whole(json.loads(data))
        except HTTPError as error:
            status = error.code
            error.close()
            if status != 409 or session not in self.closed:
                self.problems.append(f"{session}: {status}")
            return
        except LOST:
            return
        self.told[session, command].append(count)
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
        self.histories[session].append([*messages, message, result])

    def _opened(self, session: str, messages: Conversation, is_streamed: bool, url: str) -> Any:
        body: dict[str, Any] = {"messages": messages, "tools": TOOLS, "stream": is_streamed}
        if is_streamed:
            body["stream_options"] = {"include_usage": True}
        path = f"{url}/sessions/{session}/v1/chat/completions"
        return urlopen(Request(path, json.dumps(body).encode()), timeout=60)

    def leave(self) -> None:
        """A client that goes away in the middle of a stream."""
        session, command = self.random.choice(SESSIONS), f"left {len(self.asked)}"
        self.asked[session, command] += 1
        with suppress(*LOST):
            content = f"RUN: {command}"
            messages = [{"role": "user", "content": content}]
            with self._opened(session, messages, True, self.url) as answer:
                answer.read(10)

    def close(self) -> None:
        session = self.random.choice(SESSIONS)
        self.closed[session] = {}  # from now on it may refuse
        with suppress(*LOST):
            request = Request(f"{self.url}/sessions/{session}/close", b"{}")
            with urlopen(request, timeout=60) as answer:
                self.closed[session] = json.load(answer)["seal"]

    # Readers.

    def look(self) -> None:
        for file in self.files:
            how = self.random.choice(["read", "checkpoint"])
            subprocess.run([sys.executable, "-c", LOOK, str(file), how], check=True, timeout=60)

    def route(self) -> None:
        with suppress(Error):  # a session that was never begun, or a worker that was killed
            found = Client(self.url).trajectories(self.random.choice(SESSIONS))
            if not found["exact"]:
                self.problems.append(f"not exact: {found['notes']}")

    def exporting(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "dsv4", "trajectories", str(self.files[0])]
        output = ["-o", str(self.folder / "out.jsonl"), "--overwrite"]
        return subprocess.Popen([*command, *output], stderr=subprocess.PIPE, text=True)

    def export(self) -> None:
        with self.exporting() as process:
            _, words = process.communicate(timeout=120)
            if process.returncode:
                self.problems.append(words)

    def kill_export(self) -> None:
        with self.exporting() as process:
            time.sleep(self.random.random() / 2)
            process.kill()

    # What has to hold.

    def deleted_files(self) -> list[str]:
        """Files of ours that a process of the gateway has open, and that nobody else finds."""
        found = []
        for pid in (self.server.process.pid, *self.server.workers()):
            with suppress(OSError):  # the process has ended
                for link in Path(f"/proc/{pid}/fd").iterdir():
                    with suppress(OSError):
                        name = os.readlink(link)
                        if "(deleted)" in name and str(self.folder) in name:
                            found.append(name)
        return found

    def run(self) -> None:
        steps: list[Callable[[], None]] = [self.leave, self.look, self.route, self.close]
        steps += [self.export, self.kill_export, self.kill_gateway, self.kill_worker]
        weights = [1, 4, 3, 0.5, 1.5, 1, 1, 0.5]
        with ThreadPoolExecutor(8) as pool, self.gateway:
            self.start()
            for _ in range(STEPS):
                self.ask(pool)
                if self.random.random() < 0.5:
                    wait(self.running)
                (step,) = self.random.choices(steps, weights)
                self.steps.append(step.__name__)
                step()
                self.problems += self.deleted_files()
            wait(self.running)
            for call in self.running:
                call.result()
            if self.random.random() < 0.5:
                self.look()
        self.export()
        self._compare()

    def _compare(self) -> None:
        lines = (self.folder / "out.jsonl").read_text("utf-8").splitlines()
        kept: dict[tuple[str, str], list[int]] = defaultdict(list)
        every: Counter[tuple[str, str]] = Counter()
        trained: Counter[str] = Counter()
        seen = set()
        for row in map(json.loads, lines):
            trained[row["session"]] += sum(row["loss_mask"])
            for turn in row["turns"]:
                if turn["call"] in seen:
                    continue
                seen.add(turn["call"])
                key = row["session"], command_of(turn["message"])
                every[key] += 1
                if turn["state"] == "finished" and turn["delivered"]:
                    kept[key].append(sum(end - start for start, end in turn["sampled"]))
        for key, counts in self.told.items():
            missing = Counter(counts) - Counter(kept[key])
            if missing:
                self.problems.append(f"{key}: told {counts}, kept {kept[key]}")
        for key, count in (every - self.asked).items():
            if key[1]:  # of an answer that broke off, the command may not be known
                self.problems.append(f"{key}: {count} more than were asked")
        for session in SESSIONS:
            told = sum(sum(counts) for key, counts in self.told.items() if key[0] == session)
            if trained[session] < told:
                self.problems.append(f"{session}: told {told}, trained {trained[session]}")


def told_whole(answer: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return answer["usage"]["completion_tokens"], answer["choices"][0]["message"]


def told_by(stream: bytes) -> tuple[int, dict[str, Any]]:
    """The count and the message of a stream; a `ValueError` where it broke off."""
    *events, end = [line[6:] for line in stream.decode().splitlines() if line.startswith("data: ")]
    if end != "[DONE]":
        raise ValueError("it broke off")
    call: dict[str, Any] = {"type": "function", "function": {"name": "bash", "arguments": ""}}
    reasoning, count = "", 0
    for event in map(json.loads, events):
        count = (event.get("usage") or {}).get("completion_tokens", count)
        for choice in event["choices"]:
            reasoning += choice["delta"].get("reasoning_content") or ""
            for piece in choice["delta"].get("tool_calls") or ():
                call["id"] = piece.get("id") or call["id"]
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return count, {**message, "reasoning_content": reasoning}


def command_of(message: dict[str, Any]) -> str:
    """The command that a recorded answer runs; empty where it broke off before that."""
    try:
        (call,) = message["tool_calls"]
        return str(json.loads(call["function"]["arguments"])["command"])
    except (KeyError, ValueError):
        return ""


@pytest.mark.parametrize("seed", range(100 if ALL else 1))
def test_what_clients_were_told_is_kept(seed: int, tmp_path: Path) -> None:
    interleaving = Interleaving(tmp_path, seed)
    interleaving.run()
    assert not interleaving.problems, interleaving.steps
    assert interleaving.told

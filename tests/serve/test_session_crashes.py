"""Sessions of a gateway that is killed, and of one with several workers: as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from standins import free_port, redis_server

from dsv4.trajectories import Client, read_sessions

pytestmark = pytest.mark.usefixtures("small_vocabulary_of_processes")


@contextmanager
def served(store: str, *flags: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`dsv4 serve` as a process, in a group of its own."""
    port = free_port()
    command = [sys.executable, "-m", "dsv4", "serve", "--port", str(port), "--trajectories", store]
    process = subprocess.Popen(
        [*command, *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url, process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask(url: str, session: str, text: str, **rest: Any) -> Any:
    body = {"messages": [{"role": "user", "content": text}], **rest}
    request = urllib.request.Request(
        f"{url}/sessions/{session}/v1/chat/completions", json.dumps(body).encode()
    )
    return urllib.request.urlopen(request, timeout=60)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("redis", marks=pytest.mark.large)])
def test_a_killed_gateway_loses_no_finished_call_and_marks_the_others(
    kind: str, tmp_path: Path
) -> None:
    if kind == "sqlite":
        _kill_and_look(str(tmp_path / "s.db"))
    else:
        with redis_server(tmp_path) as url:
            _kill_and_look(url)


def _kill_and_look(store: str) -> None:
    with served(store, "--pace", "40") as (url, process):
        answered = json.load(ask(url, "killed", "Hello"))["choices"][0]["message"]["content"]
        running = ask(url, "killed", "Hello again", stream=True)
        running.read(10)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        running.close()
    with served(store, "--pace", "0") as (url, _):
        found = Client(url).trajectories("killed")
        assert (found["calls"], found["complete"], found["exact"]) == (2, False, True)
        assert [note["kind"] for note in found["notes"]] == ["unfinished"]
        (one,) = found["trajectories"]
        assert one["turns"][0]["message"]["content"] == answered
        # And it goes on.
        ask(url, "killed", "Hello once more").close()
        assert Client(url).trajectories("killed")["calls"] == 3


def test_workers_share_the_sessions(tmp_path: Path) -> None:
    store = str(tmp_path / "s.db")
    with served(store, "--pace", "0", "--workers", "2") as (url, _):
        asked = [(f"s{n % 3}", f"Hello {n}") for n in range(24)]
        with ThreadPoolExecutor(6) as pool:
            for answer in pool.map(lambda each: ask(url, *each), asked):
                answer.close()
        found = {each["id"]: each for each in read_sessions(store)}
        assert {id: each["calls"] for id, each in found.items()} == {"s0": 8, "s1": 8, "s2": 8}
        for each in found.values():
            assert each["complete"]
            trained = sum(sum(one["loss_mask"]) for one in each["trajectories"])
            assert trained == each["sampled_tokens"] > 0
        # What one worker closes is closed for all.
        Client(url).close("s0")
        statuses = set()
        for _ in range(8):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(url, "s0", "More?")
            statuses.add(refused.value.code)
            refused.value.close()
        assert statuses == {409}


@pytest.mark.parametrize("workers", [1, 2])
def test_readers_of_the_file_between_calls_lose_nothing(workers: int, tmp_path: Path) -> None:
    """Exports, routes and kills in any order: each finished call is in the file afterwards."""
    store = tmp_path / "s.db"
    asked = 0
    for _ in range(2):  # the gateway is killed, and starts again
        with served(str(store), "--pace", "0", "--workers", str(workers)) as (url, process):
            for _ in range(4):
                ask(url, "read", f"Hello {asked}").close()
                asked += 1
                assert Client(url).trajectories("read")["calls"] == asked
                assert _calls_seen_elsewhere(store) == asked
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert _calls_seen_elsewhere(store) == asked
    (session,) = read_sessions(store)
    trained = sum(sum(one["loss_mask"]) for one in session["trajectories"])
    assert (session["complete"], trained) == (True, session["sampled_tokens"])


READ = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
finished = "json_extract(head, '$.state') = 'finished'"
print(db.execute(f"SELECT COUNT(*) FROM calls WHERE {finished}").fetchone()[0])
db.close()
"""


def _calls_seen_elsewhere(store: Path) -> int:
    """What another process sees that opens the file and closes it again."""
    read = [sys.executable, "-c", READ, str(store)]
    return int(subprocess.run(read, capture_output=True, text=True, check=True).stdout)

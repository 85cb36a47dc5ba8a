"""`dsv4 serve` as its users start it: a process, its signals, its workers, its ports."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from small_vocabulary import write_small_vocabulary

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(autouse=True, scope="module")
def small_vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The real one takes a second or two in every process, and other tests have it."""
    path = write_small_vocabulary(tmp_path_factory.mktemp("vocabulary") / "tokenizer.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSV4_TOKENIZER", str(path))
        yield


@contextmanager
def served(*flags: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A running server, and its port."""
    command = [sys.executable, "-m", "dsv4", "serve", "--port", "0", *flags]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r":(\d+)$", line.strip())
        assert found, line + process.stderr.read()
        yield process, int(found[1])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def asked(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    data = response.read()
    connection.close()
    is_json = "json" in (response.getheader("content-type") or "")
    return response.status, json.loads(data) if is_json else data.decode()


@contextmanager
def opened(port: int) -> Iterator[http.client.HTTPResponse]:
    """A stream, of which the first bytes are here."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps({**CHAT, "stream": True}))
    with connection.getresponse() as response:
        assert response.read(5) == b"data:"
        yield response
    connection.close()


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def children_of(process: subprocess.Popen[str]) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children_of(process)}
    return [int(pid) for pid, command in commands.items() if b"spawn_main" in command]


def test_workers_share_what_they_store_and_count_together(tmp_path: Path) -> None:
    metrics = free_port()
    flags = ["--workers", "2", "--replay", f"sqlite:{tmp_path / 'turns'}", "--pace", "0"]
    flags += ["--host", "0.0.0.0", "--no-auth"]
    with served(*flags, "--metrics-port", str(metrics)) as (process, port):
        stored = []
        for n in range(10):
            status, answer = asked(port, "POST", "/v1/responses", {"input": f"Number {n}"})
            assert status == 200
            stored.append(answer["id"])
        if Path("/proc/self/task").exists():
            assert len(children_of(process)) >= 2
        # Whoever is asked knows what the others stored.
        for id in stored * 3:
            assert asked(port, "GET", f"/v1/responses/{id}")[0] == 200
        counted = {
            'dsv4_requests_total{protocol="responses",status="200"} 10.0',
            "dsv4_streams_running 0.0",
        }
        for _ in range(100):  # a worker counts when it has answered
            _, text = asked(metrics, "GET", "/metrics")
            if counted <= set(text.splitlines()):
                break
            time.sleep(0.05)
        assert counted <= set(text.splitlines())
        assert asked(port, "GET", "/metrics")[0] == 404
        if Path("/proc/net/tcp").exists():  # on loopback, wherever the server listens
            assert f" 0100007F:{metrics:04X} " in Path("/proc/net/tcp").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="files of open descriptors")
def test_a_worker_that_cannot_start_ends_the_server_with_the_reason() -> None:
    # A descriptor that the first process has, but not its workers, which have none as high.
    keys = 200
    low, end = os.pipe()
    os.write(end, b"ann:secret\n")
    os.dup2(low, keys)
    os.close(low)
    os.close(end)
    command = [sys.executable, "-m", "dsv4", "serve", "--port", "0", "--workers", "2"]
    command += ["--api-key-file", f"/dev/fd/{keys}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=(keys,)) as process:
        os.close(keys)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "a worker cannot start: api_key_file: /dev/fd/" in said
    assert said.splitlines()[-1].endswith("found one that cannot start, for the reason above")
    assert "Traceback" not in said


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children of a process")
def test_a_worker_that_ends_is_replaced_and_that_is_said() -> None:
    with served("--workers", "2") as (process, port):
        while len(workers := workers_of(process)) < 2:
            time.sleep(0.05)
        os.kill(workers[0], signal.SIGKILL)
        assert process.stderr is not None
        said = next(line for line in process.stderr if "takes its place" in line)
        assert f"worker {workers[0]} ended with status -9; worker " in said
        assert asked(port, "GET", "/health")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_signal_lets_running_streams_end_and_sends_new_ones_away(workers: str) -> None:
    flags = ("--pace", "40", "--workers", workers)
    with served(*flags) as (process, port), opened(port) as response:
        assert asked(port, "GET", "/ready")[0] == 200
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1 if workers == "1" else 0.4)  # workers are told by their supervisor
        assert asked(port, "GET", "/ready")[0] == 503
        for path in ("/v1/chat/completions", "/v1/messages"):
            status, headers, answer = refused(port, path)
            assert (status, headers["retry-after"]) == (503, "1")
            assert answer["error"]["type"] == "overloaded_error"
        assert asked(port, "GET", "/health")[0] == 200
        assert response.read().endswith(b"data: [DONE]\n\n")
        assert process.wait(30) in (0, -signal.SIGTERM)


def refused(port: int, path: str) -> tuple[int, dict[str, str], Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(CHAT))
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(data)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children of a process")
def test_a_worker_that_gives_no_answer_is_killed_and_that_is_said() -> None:
    with served("--workers", "2", "--worker-timeout", "3") as (process, port):
        heard(process, "serves", 2)
        workers = workers_of(process)
        os.kill(workers[0], signal.SIGSTOP)
        assert process.stderr is not None
        said = next(line for line in process.stderr if "takes its place" in line)
        assert re.search(f"worker {workers[0]} is killed: it gave no answer for [34] s", said)
        assert asked(port, "GET", "/health")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def heard(process: subprocess.Popen[str], words: str, times: int = 1) -> None:
    """Waits until a process has said so many lines with these words."""
    assert process.stderr is not None
    patience = threading.Timer(120, process.kill)  # which ends what is read
    patience.start()
    for _ in range(times):
        assert any(words in line for line in process.stderr), words
    patience.cancel()


def ended(workers: list[int]) -> None:
    """Waits until these processes are gone: they finish what they do."""
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until, workers
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children of a process")
def test_each_signal_has_its_meaning(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("ann:old\n")
    flags = ("--workers", "2", "--pace", "40", "--api-key-file", str(keys))
    with served(*flags) as (process, port):
        heard(process, "serves", 2)

        def models(key: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/v1/models", headers={"x-api-key": key})
            status = connection.getresponse().status
            connection.close()
            return status

        keys.write_text("ann:new\n")
        process.send_signal(signal.SIGHUP)
        heard(process, "read anew", 2)
        assert {models("new") for _ in range(8)} == {200}
        assert {models("old") for _ in range(8)} == {401}
        keys.write_text("ann:newer\nann:twice\n")
        process.send_signal(signal.SIGHUP)
        heard(process, "the name 'ann' twice", 2)
        assert {models("new") for _ in range(8)} == {200}

        process.send_signal(signal.SIGUSR1)
        heard(process, "INFO summary ", 1)

        process.send_signal(signal.SIGUSR2)
        heard(process, "could not start: the workers stay as they are")
        keys.write_text("ann:new\n")
        before = workers_of(process)
        process.send_signal(signal.SIGUSR2)
        heard(process, "takes the place of", 2)
        ended(before)
        assert models("new") == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_stops_at_once(workers: str) -> None:
    flags = ("--pace", "1", "--workers", workers)
    with served(*flags) as (process, port), opened(port) as response:
        process.send_signal(signal.SIGTERM)
        time.sleep(1.0)  # workers are looked after every half second
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.wait(15)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()


def test_settings_come_from_flags_then_variables_then_the_file(tmp_path: Path) -> None:
    file = tmp_path / "dsv4.toml"
    file.write_text('queue = 7\nstreams = 9\nmodel = "from-file"\ncors-origins = ["http://a"]\n')
    command = [sys.executable, "-m", "dsv4", "serve", "--config", str(file), "--streams", "11"]
    environ = {**os.environ, "DSV4_MODEL": "from-environ", "DSV4_STREAMS": "10"}
    done = subprocess.run(
        [*command, "--print-config"], capture_output=True, text=True, env=environ, check=True
    )
    for line in (
        "queue = 7",
        "streams = 11",
        'model = "from-environ"',
        'cors_origins = ["http://a"]',
    ):
        assert line in done.stdout.splitlines()
    # What is printed can be read again, and says the same.
    file.write_text(done.stdout)
    command = [sys.executable, "-m", "dsv4", "serve", "--config", str(file), "--print-config"]
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout == done.stdout


def test_beyond_loopback_keys_or_an_open_word_are_needed() -> None:
    command = [sys.executable, "-m", "dsv4", "serve", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--no-auth" in done.stderr
    assert "Traceback" not in done.stderr
    with served("--host", "0.0.0.0", "--no-auth") as (process, port):
        assert asked(port, "GET", "/health")[0] == 200
        process.send_signal(signal.SIGTERM)
        process.wait(30)

"""`dsv4 serve` as a process: its signals, its workers, its ports.

Every start of a process takes a second or two of a core, so most tests share one server, and leave
it as they found it.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from served_process import CHAT, ServedProcess, served, until
from standins import free_port

from dsv4.serve import Settings, app
from dsv4.serve.settings import SettingError

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.usefixtures("small_vocabulary_of_processes"),
]
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="the children of a process"
)
ADMIN = "key-of-the-operator"


class SlowEngine(BaseHTTPRequestHandler):
    """An engine whose answers take a second and a half, and as long as they are held."""

    may_end = threading.Event()
    may_end.set()

    def log_message(self, *said: object) -> None:
        pass

    def do_GET(self) -> None:
        self._begin("application/json")
        self.wfile.write(json.dumps({"data": [{"id": "deepseek-v4"}]}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._begin("text/event-stream")
        try:
            for n in range(30):
                self._event(f"word {n} ", None)
                time.sleep(0.05)
            while not self.may_end.wait(0.05):
                self._event("and ", None)
            self._event("", "stop")
            self.wfile.write(b"data: [DONE]\n\n")
        except ConnectionError:  # nobody reads on
            pass

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()

    def _event(self, text: str, finish: str | None) -> None:
        choice = {"index": 0, "text": text, "finish_reason": finish}
        self.wfile.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowEngine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Operated:
    """A server of two workers, and the files that its operator changes."""

    def __init__(self, server: ServedProcess, folder: Path, engine: str, metrics: int) -> None:
        self.server = server
        self.metrics = metrics
        self._keys, self._config = folder / "keys", folder / "serve.toml"
        self._engine = engine

    @property
    def both(self) -> list[str]:
        return [self._engine, self.other]

    @property
    def other(self) -> str:
        """The same engine under another name: one that does not answer would not be taken in."""
        return self._engine.replace("127.0.0.1", "localhost")

    def write_keys(self, *lines: str) -> None:
        self._keys.write_text("\n".join([f"admin ops:{ADMIN}", *lines]) + "\n")

    def write_engines(self, *urls: str) -> None:
        self._config.write_text(f"upstream = {json.dumps([self._engine, *urls])}\n")

    def reload(self) -> int:
        return self.server.signal("SIGHUP")

    def all_workers_say(self, key: str, status: int) -> bool:
        """Whether a key is answered so by whoever is asked."""
        asked = [self.server.asked("GET", "/v1/models", key=key).status for _ in range(8)]
        return set(asked) == {status}

    def all_workers_have(self, urls: list[str], draining: str | None = None) -> bool:
        """Whether all workers have these engines, one of them draining."""
        shown = [self.server.asked("GET", "/admin/upstreams").body["engines"] for _ in range(8)]
        expected = [(url, url == draining) for url in urls]
        return all([(e["url"], e["draining"]) for e in engines] == expected for engines in shown)

    def drain(self, url: str, is_draining: bool) -> None:
        body = {"url": url, "draining": is_draining}
        assert self.server.asked("POST", "/admin/upstreams", body).status == 200


@pytest.fixture(scope="module")
def operated(
    engine: str, small_vocabulary_of_processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operated]:
    folder, metrics = tmp_path_factory.mktemp("operated"), free_port()
    (folder / "keys").write_text(f"admin ops:{ADMIN}\n")
    (folder / "serve.toml").write_text(f'upstream = ["{engine}"]\n')
    flags = ["--workers", "2", "--worker-timeout", "4", "--host", "0.0.0.0"]
    flags += ["--backend", "completions", "--dialect", "v4", "--config", str(folder / "serve.toml")]
    flags += ["--replay", f"sqlite:{folder / 'turns'}", "--api-key-file", str(folder / "keys")]
    with served(*flags, "--metrics-port", str(metrics), key=ADMIN) as server:
        server.heard("serves", 2)
        yield Operated(server, folder, engine, metrics)
        server.signal("SIGTERM")
        assert server.process.wait(30) == 0


def test_workers_share_what_they_store_and_count_together(operated: Operated) -> None:
    server = operated.server
    stored = []
    for _ in range(3):
        status, _, answer = server.asked("POST", "/v1/responses", {"input": "Hi"})
        assert status == 200
        stored.append(answer["id"])
    # Whoever is asked knows what the others stored.
    for id in stored * 4:
        assert server.asked("GET", f"/v1/responses/{id}").status == 200

    def counted() -> set[str]:
        connection = http.client.HTTPConnection("127.0.0.1", operated.metrics, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return set(text.splitlines())

    expected = {
        'dsv4_requests_total{protocol="responses",status="200"} 3.0',
        "dsv4_streams_running 0.0",
    }
    until(lambda: expected <= counted())  # a worker counts when it has answered
    assert server.asked("GET", "/metrics").status == 404
    if Path("/proc/net/tcp").exists():  # on loopback, wherever the server listens
        assert f" 0100007F:{operated.metrics:04X} " in Path("/proc/net/tcp").read_text()


def test_a_hangup_reloads_keys_and_engines(operated: Operated) -> None:
    server = operated.server
    operated.write_keys("ann:old")
    server.heard("reloaded keys=2", 2, operated.reload())
    assert operated.all_workers_say("old", 200)
    operated.write_keys("ann:new")
    operated.write_engines(operated.other)
    server.heard("reloaded engines=2", 2, operated.reload())
    assert operated.all_workers_say("new", 200)
    assert operated.all_workers_say("old", 401)
    assert operated.all_workers_have(operated.both)
    # What cannot be used leaves everything as it was, and is said.
    operated.write_keys("ann:newer", "ann:twice")
    operated.write_engines("nonsense")
    said = operated.reload()
    server.heard("the keys stay as they were: api_key_file: ", 2, said)
    assert "found the name 'ann' again, expected every name once" in server.heard(
        "the keys stay", 2, said
    )
    server.heard("the engines stay as they were: upstream: found 'nonsense'", 2, said)
    assert operated.all_workers_say("new", 200)
    assert operated.all_workers_have(operated.both)
    operated.write_keys()
    operated.write_engines()
    server.heard("reloaded engines=1", 2, operated.reload())


def test_a_hundred_hangups_under_load_lose_nothing(operated: Operated) -> None:
    server = operated.server
    with server.opened() as one, server.opened() as other:
        for n in range(100):
            operated.write_engines(*[operated.other][: n % 2])
            operated.reload()
            if n % 10 == 0:
                assert server.asked("GET", "/v1/models").status == 200
        assert one.read().endswith(b"data: [DONE]\n\n")
        assert other.read().endswith(b"data: [DONE]\n\n")
    operated.write_engines()
    operated.reload()
    until(lambda: operated.all_workers_have(operated.both[:1]))


def test_a_summary_is_logged_on_demand(operated: Operated) -> None:
    said = operated.server.signal("SIGUSR1")
    for pid in operated.server.workers():
        operated.server.heard(f"process {pid} running=0 waiting=0", 1, said)
    operated.server.heard("INFO summary ", 1, said)


@needs_proc
def test_workers_are_restarted_one_after_the_other_and_their_streams_end(
    operated: Operated,
) -> None:
    server = operated.server
    operated.write_engines(operated.other)
    operated.reload()  # a worker that still had both, from signals before, has nothing to say
    until(lambda: operated.all_workers_have(operated.both))
    operated.drain(operated.other, True)
    until(lambda: operated.all_workers_have(operated.both, draining=operated.other))
    # Where the first of them could not start, the others are left alone.
    operated.write_keys("ann:one", "ann:two")
    server.heard("could not start: the workers stay as they are", 1, server.signal("SIGUSR2"))
    operated.write_keys()
    before, said = server.workers(), len(server.lines)
    with server.opened() as one, server.opened() as other:
        assert server.asked("POST", "/admin/restart").body == {"status": "restarting"}

        def all_are_replaced() -> bool:
            """Meanwhile no request is refused: the other workers take the new ones."""
            assert server.asked("GET", "/v1/models").status == 200
            return not {*before} & {*server.workers()}

        until(all_are_replaced)
        server.heard("takes the place of", 2, said)
        for response in (one, other):
            assert response.read().endswith(b"data: [DONE]\n\n")
    # The new ones have the engines of the old, and go on following the file.
    assert operated.all_workers_have(operated.both, draining=operated.other)
    operated.drain(operated.other, False)
    until(lambda: operated.all_workers_have(operated.both))
    operated.write_engines()
    server.heard("reloaded engines=1", 2, operated.reload())


@needs_proc
def test_workers_that_end_or_hang_are_replaced_and_that_is_said(operated: Operated) -> None:
    server = operated.server
    ended, hung = server.workers()
    said = len(server.lines)
    os.kill(ended, signal.SIGKILL)
    assert re.search(
        rf"worker {ended} ended with status -9; worker \d+ takes its place",
        server.heard("takes its place", 1, said),
    )
    server.heard("serves", 1, said)
    said = len(server.lines)
    os.kill(hung, signal.SIGSTOP)
    line = server.heard("takes its place", 1, said)
    assert re.search(rf"worker {hung} is killed: it gave no answer for \d+ s; worker ", line)
    server.heard("serves", 1, said)
    assert server.asked("GET", "/health").status == 200


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_signal_drains_and_a_second_one_stops_at_once(workers: str) -> None:
    flags = ("--pace", "4", "--workers", workers)
    with served(*flags) as server, server.opened(max_tokens=6) as short, server.opened() as long:
        assert server.asked("GET", "/ready").status == 200
        server.signal("SIGTERM")
        until(lambda: server.asked("GET", "/ready").status == 503)
        for path in ("/v1/chat/completions", "/v1/messages"):
            status, headers, answer = server.asked("POST", path, CHAT)
            assert (status, headers["retry-after"]) == (503, "1")
            assert answer["error"]["type"] == "overloaded_error"
        assert server.asked("GET", "/health").status == 200
        assert short.read().endswith(b"data: [DONE]\n\n")
        assert server.process.poll() is None
        server.signal("SIGTERM")
        server.process.wait(15)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            long.read()


def test_a_worker_that_retires_finishes_its_streams_when_all_stop(engine: str) -> None:
    flags = ("--backend", "completions", "--dialect", "v4", "--upstream", engine)
    with served(*flags, "--workers", "2") as server, ExitStack() as stack:
        server.heard("serves", 2)
        SlowEngine.may_end.clear()
        stack.callback(SlowEngine.may_end.set)
        # So many that each worker has some.
        streams = [stack.enter_context(server.opened()) for _ in range(8)]
        server.heard("takes the place of", 1, server.signal("SIGUSR2"))
        server.signal("SIGTERM")
        until(lambda: server.asked("GET", "/ready").status == 503)
        SlowEngine.may_end.set()
        for response in streams:
            assert response.read().endswith(b"data: [DONE]\n\n")
        assert server.process.wait(30) == 0


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


def test_beyond_loopback_keys_or_an_open_word_are_needed() -> None:
    with pytest.raises(SettingError, match=r"listening on 0\.0\.0\.0: .* or --no-auth"):
        app(Settings(host="0.0.0.0"))

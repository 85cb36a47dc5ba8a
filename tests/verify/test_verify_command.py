"""dsv4 verify, as a process, with servers over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from http_servers import behaving, served
from odd_habits import HABITS, Habitual
from running import dsv4, printed, refused
from stand_ins import VLLM, StandIn, server

from dsv4 import profiles
from dsv4.profiles.text_shields import TEXT_PLACES
from dsv4.verify import Reply
from dsv4.verify.own_word import OWN_WORD_REQUESTS
from dsv4.verify.runner import planned
from parts import part

KEY = "sk-secret-1234"
CLEAN = server("dsv4", "v4-0731")
HI = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def clean() -> Iterator[str]:
    with served(StandIn(CLEAN)) as url:
        yield url


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    return path


class TestReports:
    def test_a_clean_server_in_every_view(self, clean: str, tmp_path: Path) -> None:
        out = {name: tmp_path / f"r.{name}" for name in ("html", "json", "junit")}
        views = [word for name, path in out.items() for word in (f"--{name}", path)]
        saved = tmp_path / "server.json"
        with_key = {"DSV4_VERIFY_KEY": KEY}
        done = dsv4("verify", clean, "--yes", *views, "--save", saved, variables=with_key)
        assert done.returncode == 0, done.stderr
        text = done.stdout.decode()
        assert "dsv4 serve with DeepSeek-V4 (texts of 31 July)" in text
        assert "FAULT" not in text
        report = json.loads(out["json"].read_text("utf-8"))
        assert (report["url"], report["prompt"]["faults"]) == (clean, [])
        assert "dsv4 serve" in out["html"].read_text("utf-8")
        suite = ElementTree.fromstring(out["junit"].read_text("utf-8"))
        assert suite.get("failures") == "0"
        written = [text, *(path.read_text("utf-8") for path in (*out.values(), saved))]
        assert not [view for view in written if KEY in view]
        assert profiles.load(saved).base_name == "dsv4"

    def test_a_faulty_server_has_status_1_and_can_be_saved(self, tmp_path: Path) -> None:
        saved = tmp_path / "server.json"
        with served(StandIn(server("dsv4", "v4-0731", "effort-max-as-high"))) as url:
            options = ("--only", "effort", "--json", "-", "--save", saved)
            done = dsv4("verify", url, "--yes", *options)
        assert done.returncode == 1
        report = json.loads(done.stdout)
        assert report["prompt"]["faults"] == ["effort-max-as-high"]
        assert report["groups"]["effort"] == "fault"
        requests, tokens = planned(only=["effort"])
        budget = f"{requests} requests and {tokens:,} prompt tokens at most.\n"
        assert done.stderr.decode() == budget
        assert report["requests"] <= requests
        # The saved server is one for the other commands.
        asked = json.dumps({**HI, "reasoning_effort": "max"})
        counted = json.loads(printed("count", "--json", "--profile", saved, stdin=asked))
        assert counted["tokens"] == 84  # as with high effort; max has 97
        fault = "`max` arrives as `high`"
        assert fault in dsv4("check", "--profile", saved, "-", stdin=asked).stdout.decode()
        shown = dsv4("show", "--profile", saved, "-", stdin=asked).stdout.decode()
        assert "Absolute maximum with no shortcuts permitted." in shown
        both = ("--profile", saved, "--profile", "vllm-0.32")
        assert fault in dsv4("diff", *both, "-", stdin=asked).stdout.decode()

    @pytest.mark.large  # in one process this is a part of test_runner.py
    def test_few_requests_suffice(self) -> None:
        stand_in = StandIn(VLLM)
        with served(stand_in) as url:
            done = dsv4("verify", url, "--yes", "--quick", "--json", "-")
        report = json.loads(done.stdout)
        named = report["prompt"]
        assert (named["profile"], named["dialect"], named["faults"]) == ("vllm-0.32", "v4-0731", [])
        assert named["alternatives"] == []
        assert report["requests"] - OWN_WORD_REQUESTS == stand_in.requests <= 25

    @pytest.mark.large
    def test_a_request_of_ones_own(self, clean: str, tmp_path: Path) -> None:
        own = tmp_path / "own.json"
        own.write_text(json.dumps({"messages": [{"role": "user", "content": "Is this me?"}]}))
        options = ("--yes", "--only", "content", "--request", own, "--json", "-")
        report = json.loads(printed_report(clean, *options))
        assert report["prompt"]["unexplained"] == []
        assert report["prompt"]["of"] == report["requests"] - OWN_WORD_REQUESTS


# What is odd about a server, the server, and the findings that may come of it, of which a default
# run has one. Nothing else is a fault, and the server is named.
ODD_SERVERS = (
    # Fields that are refused make no other server of it, whatever they are.
    ("refuses extra fields", "vllm-0.32", "v4", ""),
    ("refuses extra fields and efforts", "sglang-0.5.23", "v4", ""),
    ("refuses with 422", "recipe-0.2.0", "v4", ""),
    ("answers as nobody", "dynamo-1.6", "v4", ""),
    ("answers as nobody", "dynamo-1.6", "v4.1", ""),
    ("refuses streams", "vllm-0.32", "v4", ""),
    ("refuses usage in streams", "sglang-0.5.23", "v4.1", ""),
    # Two known servers behind one address.
    ("is two servers by a hash", "vllm-0.32", "v4", "two-servers counts-vary"),
    ("is two servers by tools", "recipe-0.2.0", "v4", "two-servers counts-vary"),
    ("is two servers by length", "dsv4", "v4-0731", "two-servers counts-vary"),
    # What is billed.
    ("counts answers five times", "vllm-0.32", "v4", "billing-completion"),
    ("counts answers as nothing", "dsv4", "v4-0731", "billing-completion"),
    ("counts 2 times, exactly", "vllm-0.32", "v4", "billing-factor"),
    ("counts 1.1 times, up", "sglang-0.5.23", "v4", "billing-factor"),
    ("counts 15 more with a system text", "vllm-0.32", "v4.1", "billing-offset not-explained"),
    ("always stops", "llama.cpp", "v4", "billing-finish"),
    ("answers as gpt-4o-mini", "vllm-0.32", "v4", "billing-model"),
    ("jitters by 2", "sglang-0.5.23", "v4", "counts-vary"),
    ("filters some requests", "vllm-0.32", "v4", ""),
    # What is asked for once more.
    ("less than 16 without a word", "vllm-0.32", "v4", ""),
    ("max_tokens without a word", "sglang-0.5.23", "v4", ""),
    ("temperature 0", "recipe-0.2.0", "v4", ""),
    ("counts as decimals", "vllm-0.32", "v4", ""),
    ("names counts as Messages does", "dsv4", "v4-0731", ""),
)


@pytest.mark.parametrize("mode", [(), ("--quick",)], ids=["default", "quick"])
@pytest.mark.parametrize("row", part(ODD_SERVERS, 6), ids=lambda row: " ".join(row[:2]))
def test_what_is_odd_is_said_and_nothing_else(row: tuple[str, ...], mode: tuple[str, ...]) -> None:
    name, profile, dialect, ids = row
    habit = HABITS[name] if name in HABITS else HABITS[f"refuses {name}"]
    with served(Habitual(server(profile, dialect), habit)) as url:
        done = dsv4("verify", url, "--yes", *mode, "--json", "-")
    report = json.loads(done.stdout)
    faults = {f["id"] for f in report["findings"] if f["verdict"] == "fault"}
    faults -= {"images-unseen", *(f"inject-{place}" for place in TEXT_PLACES)}
    few = ("not-explained",) if mode and ids else ()  # requests, which leave odd counts open
    assert faults <= {*ids.split(), *few}
    said = {f["id"] for f in report["findings"] if f["verdict"] in ("fault", "differs")}
    assert mode or not ids or said & {*ids.split()}
    named = [report["prompt"], *report["prompt"]["alternatives"]]
    if not mode and "counts-vary" not in faults:
        assert profile in [each["profile"] for each in named]
    assert report["prompt_tokens"] <= planned("quick" if mode else "default")[1]


class TestHowARunEnds:
    def test_a_signal_ends_it_with_a_report(self) -> None:
        started = threading.Event()

        class Slow(StandIn):
            def post(self, path: str, body: Any) -> Reply:
                if self.requests > 20:
                    started.set()
                    time.sleep(0.3)
                return super().post(path, body)

        with served(Slow(CLEAN)) as url:
            command = [sys.executable, "-m", "dsv4", "verify", url, "--yes", "--json", "-"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert started.wait(60)
            process.terminate()
            out, _ = process.communicate(timeout=60)
        report = json.loads(out)
        assert any("interrupted" in note for note in report["notes"])
        assert report["prompt"]["of"] > 10

    def test_too_little_is_status_2_and_what_came_is_reported(self) -> None:
        class Limiting(StandIn):
            def post(self, path: str, body: Any) -> Reply:
                reply = super().post(path, body)
                return Reply(404, body={}) if self.requests > 10 else reply

        with served(Limiting(CLEAN)) as url:
            done = dsv4("verify", url, "--yes", "--json", "-", "--parallel", 1)
        assert done.returncode == 2
        assert b"too little was measured" in done.stderr
        assert json.loads(done.stdout)["too_little"] is True


def printed_report(*arguments: Any) -> str:
    done = dsv4("verify", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


class TestWithoutAServer:
    def test_a_log_is_explained(self, tmp_path: Path) -> None:
        log = tmp_path / "log.jsonl"
        stand_in = StandIn(VLLM)
        tools = [{"type": "function", "function": {"name": "f", "description": "d"}}]
        bodies = [HI, {**HI, "tools": tools}, {**HI, "reasoning_effort": "max"}]
        pairs = [(body, stand_in.post("/chat/completions", body).body) for body in bodies]
        lines = [json.dumps({"request": body, "response": reply}) for body, reply in pairs]
        log.write_text("\n".join(lines))
        report = json.loads(printed_report("--recorded", log, "--json", "-"))
        assert report["prompt"]["profile"] == "vllm-0.32"
        assert (report["requests"], report["url"]) == (3, "")

    def test_two_reports_are_compared(self, tmp_path: Path) -> None:
        before, after = tmp_path / "a.json", tmp_path / "b.json"
        before.write_text(json.dumps({"prompt": {"profile": "dsv4", "faults": []}}))
        after.write_text(json.dumps({"prompt": {"profile": "dsv4", "faults": ["bos-twice"]}}))
        assert printed("verify", "--compare", before, before) == "nothing has changed\n"
        junit = tmp_path / "changes.xml"
        done = dsv4("verify", "--compare", before, after, "--junit", junit)
        assert (done.returncode, done.stdout) == (1, b"faults: was none, is bos-twice\n")
        assert dsv4("verify", "--compare", before, after, "--exit-zero").returncode == 0
        assert ElementTree.parse(junit).getroot().get("failures") == "1"


class TestOneLine:
    """Whatever cannot be done is said in one line, with status 2."""

    def test_nobody_can_be_asked(self) -> None:
        done = dsv4("verify", "http://127.0.0.1:1/v1")
        assert done.returncode == 2
        budget, complaint = done.stderr.decode().splitlines()
        assert budget == "{} requests and {:,} prompt tokens at most.".format(*planned())
        assert complaint == "dsv4: there is no terminal to ask whether to go on: expected --yes"

    def test_no_server(self) -> None:
        done = dsv4("verify", "http://127.0.0.1:1/v1", "--yes")
        assert done.returncode == 2
        assert done.stderr.decode().splitlines()[1:] == [
            "dsv4: http://127.0.0.1:1/v1: no server answers at this address"
        ]

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (b"HTTP/1.1 200 OK\r\n\r\n<html>\x1b[31m", "HTML in place of JSON (status 200)"),
            (b'HTTP/1.1 401 No\r\n\r\n{"error": "' + KEY.encode() + b'"}', "not accept the key"),
            (b"HTTP/1.1 302 Moved\r\nlocation: http://example.com\r\n\r\n", "a redirect"),
            (b"HTTP/1.1 404 No\r\n\r\n{}", "no chat route at http://127.0.0.1"),
            (b"HTTP/1.1 200 OK\r\n\r\n{}", "does not say how many tokens the prompt had"),
        ],
    )
    def test_a_server_that_cannot_be_measured(
        self, answer: bytes, words: str, key_file: Path
    ) -> None:
        with behaving(lambda send: send(answer)) as there:
            options = ("--yes", "--timeout", 5, "--key-file", key_file)
            done = dsv4("verify", there.url, *options)
        assert (done.returncode, done.stdout) == (2, b"")
        _, complaint = done.stderr.decode().splitlines()
        assert words in complaint
        assert KEY not in complaint
        assert "\x1b" not in complaint

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["http://127.0.0.1:1", "--matrix"], "expected one of a URL, --recorded, --compare or"),
            (["http://127.0.0.1:1", "--only", "x"], '--only: found "x", expected one of prompt'),
            (["https://u:p@example.com", "--yes"], "found a password in the URL"),
            (
                ["http://127.0.0.1:1/v1/chat/completions", "--yes"],
                "found the chat route in the URL",
            ),
            (["http://127.0.0.1:1", "--yes", "--baseline", "README.md"], "README.md: not JSON"),
            (["--recorded", "README.md"], "no request with its prompt_tokens in it"),
            (["--compare", "README.md", "README.md"], "--compare: README.md: not JSON"),
        ],
    )
    def test_wrong_arguments(self, arguments: list[str], words: str) -> None:
        assert words in refused("verify", *arguments)

    def test_an_address_without_a_version(self) -> None:
        with behaving(lambda send: send(b"HTTP/1.1 404 No\r\n\r\n{}")) as there:
            bare = there.url.removesuffix("/v1")
            for url, hinted in ((bare, True), (there.url, False)):
                done = dsv4("verify", url, "--yes")
                assert (done.returncode, b"most addresses end in /v1" in done.stderr) == (2, hinted)

    @pytest.mark.parametrize("text", ['{"findings": 7}', "{}", "[]", "{broken"])
    def test_a_baseline_that_is_none_costs_no_request(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "report.json"
        path.write_text(text)
        with behaving(lambda send: None) as there:
            assert "--baseline: " in refused("verify", there.url, "--yes", "--baseline", path)
            assert there.received == []

    def test_a_key_does_not_go_to_another_machine_unencrypted(self, key_file: Path) -> None:
        complaint = refused("verify", "http://192.0.2.1/v1", "--yes", "--key-file", key_file)
        assert "use https, or allow it with --insecure-http" in complaint

    def test_a_key_file_that_holds_no_key(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("one\ntwo")
        complaint = refused("verify", "https://192.0.2.1/v1", "--yes", "--key-file", path)
        assert "expected one line" in complaint
        assert "--key-file: " in refused("verify", "https://192.0.2.1/v1", "--key-file", tmp_path)

    def test_what_is_not_explained_is_not_saved(self, tmp_path: Path) -> None:
        out = tmp_path / "server.json"
        estimates = StandIn(VLLM, counts=lambda prompt: len(prompt) // 4)
        with served(estimates) as url:
            done = dsv4("verify", url, "--yes", "--only", "counting", "--save", out)
        assert done.returncode == 2
        assert b"--save: the server is not explained" in done.stderr
        assert not out.exists()

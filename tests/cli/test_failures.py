"""What goes wrong around a command: one line says it, and so does the exit status."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import (
    CONVERSATION,
    ENVIRONMENT,
    ROOT,
    as_json,
    command,
    dsv4,
    interruptible,
    printed,
    refused,
)

from builders import user
from dsv4._cli.main import COMMANDS
from dsv4.version import how_to_install

on_linux = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


class TestFiles:
    def test_missing(self) -> None:
        complaint = refused("encode", "missing.json")
        assert complaint == "dsv4: missing.json: no such file or directory"

    def test_a_folder(self, tmp_path: Path) -> None:
        assert refused("encode", tmp_path) == f"dsv4: {tmp_path}: is a directory"

    def test_empty(self) -> None:
        assert refused("encode", stdin="") == "dsv4: stdin: found nothing, expected JSON"

    def test_not_utf8(self) -> None:
        complaint = refused("encode", stdin=b'[\n  "\xff"]')
        assert complaint == "dsv4: stdin:2:4: not UTF-8: invalid start byte"

    def test_a_byte_order_mark(self) -> None:
        assert printed("encode", "--no-bos", stdin="\ufeff" + as_json(user("Hi")))

    @pytest.mark.parametrize("flags", [[], ["--jsonl"]])
    def test_not_json(self, flags: list[str]) -> None:
        complaint = refused("encode", *flags, stdin='[{"role": user}]')
        assert complaint == "dsv4: stdin:1:11: not JSON: expecting value"

    def test_not_json_in_a_later_line(self) -> None:
        good = as_json(user())
        complaint = refused("encode", stdin=f"{good}\n\n{good}\n[1, }}\n")
        assert complaint == "dsv4: stdin:4:5: not JSON: a comma before }"

    def test_not_json_over_several_lines(self) -> None:
        complaint = refused("encode", stdin='[\n  {"role": "user",}\n]')
        assert complaint.startswith("dsv4: stdin:2:")

    def test_nested_too_deep(self) -> None:
        assert "nested too deep" in refused("encode", stdin="[" * 200_000)

    def test_a_number_of_too_many_digits(self) -> None:
        complaint = refused("encode", stdin="9" * 5000)
        assert complaint == "dsv4: stdin:1: the JSON has a number of too many digits"

    @pytest.mark.parametrize(
        ("data", "found"),
        [
            (as_json(user()).encode("utf-16"), "UTF-16"),
            (gzip.compress(as_json(user()).encode(), mtime=0), "gzip"),
        ],
        ids=["UTF-16", "gzip"],
    )
    def test_another_form(self, data: bytes, found: str) -> None:
        complaint = refused("encode", stdin=data)
        assert complaint == f"dsv4: stdin:1: found {found}, expected UTF-8"

    def test_json_over_several_lines_is_not_json_lines(self, tmp_path: Path) -> None:
        pretty = tmp_path / "pretty.jsonl"
        pretty.write_text(json.dumps([user()], indent=1))
        assert refused("show", pretty) == f"dsv4: {pretty}:1:2: not JSON: expecting value"

    @pytest.mark.parametrize("content", ["", "\n \n"])
    @pytest.mark.parametrize("name", ["check", "count", "show", "encode", "cache", "dataset"])
    def test_nothing_in_a_file(self, name: str, content: str, tmp_path: Path) -> None:
        empty, out = tmp_path / "empty.jsonl", tmp_path / "out.jsonl"
        empty.write_text(content)
        more = ("-o", out) if name == "dataset" else ()
        found = {"dataset": "found no conversation, expected one"}
        problem = found.get(name, "found nothing, expected JSON lines")
        assert refused(name, empty, *more) == f"dsv4: {empty}: {problem}"
        assert not out.exists()

    @pytest.mark.parametrize("content", ["[]", "{}"])
    @pytest.mark.parametrize("name", ["check", "count", "show", "encode", "cache", "dataset"])
    def test_nothing_in_a_value(self, name: str, content: str, tmp_path: Path) -> None:
        empty = tmp_path / "empty.json"
        empty.write_text(content)
        done = dsv4(name, empty, *(("-o", tmp_path / "out.jsonl") if name == "dataset" else ()))
        assert done.returncode in (1, 2)
        said = (done.stdout if name == "check" else done.stderr).decode()
        assert f"{empty}: " in said
        assert "found " in said
        assert not done.stdout or name == "check"

    def test_stdin_is_closed(self) -> None:
        shell = f"{' '.join(command('encode'))} <&-"
        done = subprocess.run(shell, shell=True, capture_output=True, env=ENVIRONMENT, check=False)
        assert (done.returncode, done.stderr) == (2, b"dsv4: stdin is closed: give a file\n")


def test_a_complaint_is_harmless_to_the_terminal() -> None:
    call = {"function": {"name": "f", "arguments": {"\x1b[31m": {"a": "\ud800"}, "b\n": 5}}}
    wrong = as_json({"role": "assistant", "tool_calls": [call, 5]}, model="\x1b")
    assert "\x1b" not in refused("encode", stdin=wrong, status=1)
    assert "\x1b" not in refused("encode", "\x1b[31m.json")
    assert "\x1b" not in refused("show", "a.json", "\x1b[31m.json")
    assert "\x1b" not in refused("encode", "--mode", "\x1b[31m")


class TestOptions:
    def test_no_command(self) -> None:
        done = dsv4()
        assert done.returncode == 2
        assert done.stderr.startswith(b"usage: dsv4 COMMAND")

    def test_an_unknown_command(self) -> None:
        assert "invalid choice: 'encoed'" in refused("encoed")

    def test_an_unknown_option(self) -> None:
        complaint = refused("encode", "--loud")
        assert complaint == "dsv4: unrecognized arguments: --loud (see dsv4 encode --help)"

    def test_an_unknown_choice(self) -> None:
        assert refused("encode", "--mode", "x").endswith("(see dsv4 encode --help)")

    def test_options_that_exclude_each_other(self) -> None:
        assert "not allowed with" in refused("encode", "--dialect", "v4", "--model", "x")


@pytest.mark.parametrize(
    ("asked", "extra"),
    [
        (["count", CONVERSATION], "tokens"),
        (["dataset", CONVERSATION, "-o", "-"], "tokens"),
        (["serve"], "serve"),
        (["heal", "--upstream", "http://chat:8000"], "serve"),
        (["playground", "--no-browser"], "serve"),
    ],
)
def test_a_part_that_is_not_installed(asked: list[object], extra: str) -> None:
    complaint = refused(*asked, bare=True)
    assert re.search(r" needs? the package [\w-]+: ", complaint)
    assert complaint.endswith(how_to_install(extra))


class TestOutput:
    @on_linux
    @pytest.mark.parametrize("asked", [["encode", CONVERSATION], ["special"], ["--help"]])
    def test_a_full_disk(self, asked: list[object]) -> None:
        with open("/dev/full", "wb") as full:
            complaint = refused(*asked, stdout=full.fileno())
        assert complaint == "dsv4: cannot write stdout: no space left on device"

    @on_linux
    def test_a_device(self) -> None:
        complaint = refused("show", CONVERSATION, "--html", "/dev/full", bare=True)
        assert complaint == "dsv4: cannot write /dev/full: no space left on device"
        assert printed("encode", CONVERSATION, "--output", "/dev/null") == ""

    def test_a_disk_that_fills_up_leaves_the_old_file(self, tmp_path: Path) -> None:
        out = tmp_path / "prompt.txt"
        out.write_text("old")
        complaint = refused("encode", CONVERSATION, "--output", out, preexec_fn=_little_room)
        assert complaint == f"dsv4: cannot write {out}: file too large"
        assert out.read_text() == "old"
        assert os.listdir(tmp_path) == ["prompt.txt"]

    def test_an_error_halfway_leaves_no_file(self, tmp_path: Path) -> None:
        lines = f"{as_json(user())}\n{as_json(user(5))}\n"
        refused("encode", "--output", tmp_path / "out.jsonl", stdin=lines, status=1)
        assert not os.listdir(tmp_path)

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        out = tmp_path / "missing" / "prompt.txt"
        complaint = refused("encode", CONVERSATION, "--output", out)
        assert complaint == f"dsv4: cannot write {out}: no such file or directory"

    def test_an_old_file_keeps_its_mode_and_a_link_stays_a_link(self, tmp_path: Path) -> None:
        old, link = tmp_path / "old", tmp_path / "link"
        old.write_text("old")
        old.chmod(0o640)
        link.symlink_to(old)
        printed("encode", CONVERSATION, "--output", link)
        assert link.is_symlink()
        assert old.stat().st_mode & 0o777 == 0o640
        assert old.read_text("utf-8") != "old"

    def test_half_a_character(self) -> None:
        complaint = refused("encode", stdin=as_json(user("\ud800")), status=1)
        assert complaint.startswith("dsv4: cannot write stdout: the text holds U+D800, half a")

    def test_utf8_whatever_the_locale(self) -> None:
        plain = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
        assert "ü" in printed("encode", stdin=as_json(user("ü")), env=plain)

    @pytest.mark.parametrize("asked", [["special"], ["serve", "--print-config"]])
    def test_stdout_is_closed(self, asked: list[str]) -> None:
        shell = f"{' '.join(command(*asked))} >&-"
        done = subprocess.run(shell, shell=True, capture_output=True, env=ENVIRONMENT, check=False)
        assert (done.returncode, done.stderr) == (2, b"dsv4: stdout is closed\n")

    def test_a_reader_that_has_seen_enough(self, tmp_path: Path) -> None:
        many = tmp_path / "many.jsonl"
        many.write_text(f"{as_json(user('word ' * 1000))}\n" * 1000)
        with _started("encode", many) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 141


def _little_room() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def _started(*arguments: object) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*arguments),
        **{"stdin": pipe, "stdout": pipe, "stderr": pipe, "env": ENVIRONMENT, "cwd": ROOT},
        preexec_fn=interruptible,
    )


def test_an_interrupt() -> None:
    process = _started("parse", "--stream", "--mode", "chat")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"Hello")
    process.stdin.flush()
    process.stdout.readline()  # it is running
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate()
    assert (process.returncode, complaint) == (130, b"dsv4: interrupted\n")


def test_help_loads_little() -> None:
    code = (
        "import sys; from dsv4._cli.main import COMMANDS, main\n"
        "for name in COMMANDS:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit: print('LOADED', name, *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, env=ENVIRONMENT, check=True
    )
    loaded = [
        line.split()[1:] for line in done.stdout.decode().splitlines() if line[:6] == "LOADED"
    ]
    assert [name for name, *_ in loaded] == list(COMMANDS)
    heavy = {"dsv4.tokens", "importlib.metadata", "asyncio", "tokenizers", "numpy"}
    assert [name for name, *modules in loaded if heavy & set(modules)] == []

"""Every command, with everything that a file can be: a status and a line, and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fork_server import AVAILABLE, CLOSED
from running import CONVERSATION, dsv4

from dsv4._cli.main import main
from parts import part
from rows import run_rows
from small_vocabulary import write_small_vocabulary

CALL = {"function": {"name": "f", "arguments": "{}"}}
BAD: dict[str, bytes] = {
    "empty": b"",
    "spaces": b" \n\n ",
    "binary": bytes(range(256)),
    "not utf-8": b'[{"role": "user", "content": "\xff"}]',
    "utf-16": '[{"role": "user", "content": "Hi"}]'.encode("utf-16"),
    "cut": b'[{"role": "us',
    "two values": b"{} {}",
    "deep": b"[" * 100_000,
    "deep and closed": b'[{"role": "user", "content": ' + b"[" * 5000 + b"]" * 5000 + b"}]",
    "a number of many digits": b"9" * 10_000,
    "not a number": b"[NaN, Infinity]",
    "controls": "\x1b]0;title\x07\u202e\x9b[31m".encode(),
    **{
        f"JSON {n}": json.dumps(value).encode()
        for n, value in enumerate(
            [
                *(None, True, 5, "text", [], {}, [None], [[]], [5], {"messages": None}),
                *({"messages": {}}, {"messages": "text"}, {"messages": [], "tools": 5}),
                {"messages": [{"role": "user"}], "tools": [5], "thinking": {}, "model": []},
                {"messages": [{"role": "user"}], "tools": [[]], "reasoning_effort": {}},
                {"messages": [{"role": "user"}], "response_format": 5, "stop": 5},
                {"messages": [{"role": "user"}], "tool_choice": 5},
                [{"role": []}],
                [{"role": "user", "content": "\ud800"}],
                [{"role": "user", "content": [{}]}],
                [{"role": "user", "content": 1e400}],
                [{"role": "assistant", "tool_calls": 5}],
                [{"role": "assistant", "tool_calls": [5, {}, {"function": 5}, CALL]}],
                [{"role": "assistant", "tool_calls": [{**CALL, "id": {}}]}],
                [{"role": "tool", "tool_call_id": {}, "content": {}}],
                [{"role": "user", "task": 5}, {"role": "user", "task": "query"}],
                [{"role": "\x1b[31m\u202e"}],
                {"conversations": [{"from": "human", "value": "Hi"}]},
            ]
        )
    },
}
COMMANDS: dict[str, list[str]] = {
    "encode": ["encode", "FILE"],
    "encode lines": ["encode", "--jsonl", "FILE"],
    "encode ids": ["encode", "--json", "--tokenizer", "VOCABULARY", "FILE"],
    "encode with tools": ["encode", "--tools", "FILE", "GOOD"],
    "encode with a tokenizer": ["encode", "--ids", "--tokenizer", "FILE", "GOOD"],
    "show": ["show", "--tokenizer", "VOCABULARY", "FILE"],
    "show a mask": [
        *("show", "--mask", "calls", "--html", "OUT", "--tokenizer", "VOCABULARY", "FILE"),
    ],
    "parse": ["parse", "FILE"],
    "parse events": ["parse", "--stream", "FILE"],
    "parse explained": ["parse", "--explain", "--tools", "GOOD", "FILE"],
    "parse strictly": ["parse", "--strict", "--full", "FILE"],
    "parse with tools": ["parse", "--tools", "FILE", "GOOD"],
    "check": ["check", "FILE"],
    "check a server": ["check", "--json", "--profile", "vllm-0.32", "--for", "inference", "FILE"],
    "check and fix": ["check", "--fix", "FILE"],
    "count": ["count", "--tokenizer", "VOCABULARY", "FILE"],
    "diff": ["diff", "--tokenizer", "VOCABULARY", "GOOD", "FILE"],
    "diff of servers": ["diff", "--profile", "vllm-0.32", "--profile", "llama.cpp", "FILE"],
    "dataset": ["dataset", "--jobs", "1", "--tokenizer", "VOCABULARY", "FILE", "-o", "OUT"],
    "dataset resumed": [
        *("dataset", "--jobs", "1", "--tokenizer", "VOCABULARY", "GOOD LINES", "-o", "JOURNALED"),
        "--resume",
    ],
}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_vocabulary(tmp_path_factory.mktemp("vocabulary") / "tokenizer.json")


CASES = part([(name, kind) for name in COMMANDS for kind in BAD], 3)


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_files(
    name: str, vocabulary: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kinds = [pytest.param(kind, id=kind) for command, kind in CASES if command == name]

    def check(values: Sequence[str]) -> None:
        folder = tmp_path / values[0]
        folder.mkdir()
        check_bad_file(name, values[0], vocabulary, folder, capfd)

    run_rows(kinds, check)


def check_bad_file(
    name: str, kind: str, vocabulary: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = folder / "file.json"
    file.write_bytes(BAD[kind])
    lines = folder / "good.jsonl"
    lines.write_text(json.dumps(json.loads(CONVERSATION.read_text("utf-8"))) + "\n")
    (folder / "out.jsonl.journal").write_bytes(BAD[kind])
    (folder / "out.jsonl.partial").write_bytes(b"")
    places: dict[str, Any] = {
        "FILE": file,
        "GOOD": CONVERSATION,
        "GOOD LINES": lines,
        "OUT": folder / "new.jsonl",
        "JOURNALED": folder / "out.jsonl",
        "VOCABULARY": vocabulary,
    }
    status = main([str(places.get(argument, argument)) for argument in COMMANDS[name]])
    said = capfd.readouterr()
    assert status in (0, 1, 2)
    for line in said.err.splitlines():
        assert line.startswith("dsv4: ")
        assert len(line) < 1000
    if status == 2:
        assert len(said.err.splitlines()) == 1
    assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(said.out + said.err)
    assert "Traceback" not in said.err


@pytest.mark.skipif(not AVAILABLE, reason="files of a process that can be closed")
@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "--tokenizer", "VOCABULARY", CONVERSATION],
        ["check", CONVERSATION],
        ["count", "--tokenizer", "VOCABULARY", CONVERSATION],
        ["diff", "--tokenizer", "VOCABULARY", CONVERSATION, CONVERSATION],
        ["encode", CONVERSATION],
        ["parse", CONVERSATION],
        ["parse", "--stream", CONVERSATION],
        ["special"],
        ["version"],
        ["--help"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:1])),
)
def test_stdout_is_closed(arguments: list[object], vocabulary: Path) -> None:
    given = [vocabulary if argument == "VOCABULARY" else argument for argument in arguments]
    done = dsv4(*given, stdout=CLOSED)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert done.returncode in (0, 1, 2)

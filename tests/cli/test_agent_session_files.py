"""Agents' session files as the input of commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import dsv4

FOLDER = Path(__file__).parents[1] / "agent_sessions"
NOTE = "a session file of pi: what the model wrote is the client's copy of it"


@pytest.mark.parametrize("command", ["show", "count", "check", "encode"])
def test_a_command_reads_a_session_file_and_says_what_it_is(command: str) -> None:
    done = dsv4(command, FOLDER / "pi-1.jsonl")
    assert NOTE in done.stderr.decode()
    assert "RUN: echo two" in done.stdout.decode() or command in ("check", "count")
    assert done.stdout


def test_conversations_are_chosen_by_their_number() -> None:
    shown = dsv4(
        "show", FOLDER / "claude-1.jsonl", "--line", "2", "--color", "never"
    ).stdout.decode()
    assert "echo after" in shown
    assert "echo forked" not in shown


def test_the_cache_goes_through_the_turns_of_a_session() -> None:
    done = dsv4("cache", FOLDER / "pi-1.jsonl", "--json")
    turns = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [turn["place"].rpartition(":")[2] for turn in turns[:-1]] == ["1", "2", "3", "4"]
    assert turns[1]["reusable"] > 0


def test_a_data_set_of_session_files(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    files = [FOLDER / "claude-parallel-1.jsonl", FOLDER / "codex-compacted-1.jsonl"]
    done = dsv4("dataset", *files, "-o", out)
    assert done.returncode == 0, done.stderr
    assert (
        "not the ids that were sampled; conversations: 1 compacted, 2 compacted, 3 main"
        in done.stderr.decode()
    )
    assert len(out.read_text("utf-8").splitlines()) == 4

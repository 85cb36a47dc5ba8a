"""Session files of agents, as `dsv4 why` recognises them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsv4._why.judge import why

FOLDER = Path(__file__).parents[1] / "agent_sessions"
AGENTS = {
    "claude-1.jsonl": "a session file of Claude Code with",
    "codex-compacted-1.jsonl": "a session file of Codex with",
    "opencode-1.db": "a session file of opencode with",
    "pi-1.jsonl": "a session file of pi with 8 messages",
    "qwen-1.jsonl": "a session file of Qwen Code with",
}


@pytest.mark.parametrize("name", AGENTS)
def test_the_agent_is_named(name: str) -> None:
    verdict = why((FOLDER / name).read_bytes(), name)
    assert verdict.kind == "session"
    assert verdict.what.startswith(AGENTS[name])


def test_a_database_of_another_program_is_no_session(tmp_path: Path) -> None:
    assert why(b"SQLite format 3\0" + bytes(100)).kind == "unknown"


@pytest.mark.parametrize("name", [name for name in AGENTS if name.endswith(".jsonl")])
def test_what_could_not_be_read_is_said(name: str) -> None:
    first, *others = (FOLDER / name).read_bytes().splitlines(keepends=True)
    verdict = why(b"".join([first, b'{"type": "mess\n', *others]))
    assert verdict.what.startswith(AGENTS[name])
    assert verdict.what.endswith("1 line could not be read, so that turns may be missing")


def test_a_separator_in_a_text_ends_no_line() -> None:
    data = (FOLDER / "pi-1.jsonl").read_text("utf-8").replace("RUN: ", "RUN: \u2028", 1)
    assert why(data).what == "a session file of pi with 8 messages"

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
    "pi-1.jsonl": "a session file of pi with 8 turns",
    "qwen-1.jsonl": "a session file of Qwen Code with",
}


@pytest.mark.parametrize("name", AGENTS)
def test_the_agent_is_named(name: str) -> None:
    verdict = why((FOLDER / name).read_bytes(), name)
    assert verdict.kind == "session"
    assert verdict.what.startswith(AGENTS[name])


def test_a_database_of_another_program_is_no_session(tmp_path: Path) -> None:
    assert why(b"SQLite format 3\0" + bytes(100)).kind == "unknown"

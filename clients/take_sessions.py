"""Copies the session files that agents have left in their homes, for the tests that read them.

    python clients/take_sessions.py WORK OUTPUT

WORK is the folder of a run, with a home for each agent, as `run.py` and `loops.py` leave it. What
names a machine or a person is replaced, and long texts (system prompts, descriptions of tools) are
cut, so that the structure stays as the agent wrote it.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

LONGEST = 160
FILES = {
    "claude": ".claude/projects/*/**/*.jsonl",
    "codex": ".codex/sessions/**/*.jsonl",
    "opencode": ".local/share/opencode/opencode.db",
    "pi": ".pi/agent/sessions/**/*.jsonl",
    "qwen": ".qwen/projects/**/*.jsonl",
}
# Fields of events that tell of the machine and are no part of the conversation.
LEFT_OUT = ("attachment", "world_state", "git", "toolUseResult", "osVersion", "uiEvent")


def main(work: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for agent, pattern in FILES.items():
        for home in sorted(work.glob(f"{agent}*/home")):
            for n, path in enumerate(sorted(home.glob(pattern)), 1):
                target = output / f"{home.parent.name}-{n}{path.suffix}"
                if path.suffix == ".db":
                    copy_database(path, target, str(home.parent))
                else:
                    lines = path.read_text("utf-8").splitlines()
                    kept = (clean(json.loads(line), str(home.parent)) for line in lines)
                    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept)
                    target.write_text(text, "utf-8")


def clean(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {
            name: {} if name in LEFT_OUT else clean(item, folder) for name, item in value.items()
        }
    if isinstance(value, list):
        return [clean(item, folder) for item in value]
    if not isinstance(value, str):
        return value
    text = value.replace(folder, "/home/agent")
    if text.startswith("data:") or re.fullmatch(r"[A-Za-z0-9+/=]{80,}", text):
        return text  # pictures
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def copy_database(path: Path, target: Path, folder: str) -> None:
    """The tables of conversations alone."""
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        for table in ("session", "message", "part"):
            (sql,) = source.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()
            copy.execute(sql)
            for row in source.execute(f"SELECT * FROM {table}"):
                marks = ", ".join("?" * len(row))
                copy.execute(
                    f"INSERT INTO {table} VALUES ({marks})", [_cell(v, folder) for v in row]
                )
        copy.commit()
        copy.execute("VACUUM")


def _cell(value: Any, folder: str) -> Any:
    if isinstance(value, str) and value.startswith(("{", "[")):
        return json.dumps(clean(json.loads(value), folder), ensure_ascii=False)
    return clean(value, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

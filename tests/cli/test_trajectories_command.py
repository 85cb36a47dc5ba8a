"""dsv4 trajectories, as a process."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from running import dsv4, printed, refused

from dsv4.tokens import Tokenizer
from dsv4.trajectories import RecordedCall, TokenRun
from dsv4.trajectories.session_file import Retention, SessionFile, SessionRecord

TOKENIZER = Tokenizer.load()
KEEP = Retention(2**40, 2**40, 2**40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a session of two turns, the second of which rewrites the first."""
    file = SessionFile(tmp_path / "s.db")
    file.create(SessionRecord("s1", "-", group="g"))
    for n, said in enumerate(("Hello", "Good bye \x1b[31m")):
        file.enter("s1", "-", [f"c{n}"], KEEP)
        prompt = TOKENIZER.encode_text(f"Question {said}")
        sampled = TOKENIZER.encode_text("Answer")
        runs = (TokenRun(sampled, True, [-3.0] * len(sampled)),)
        file.finish("s1", RecordedCall(f"c{n}", 0, prompt, runs))
    file.close()
    return tmp_path / "s.db"


def test_an_export_says_what_it_wrote(path: Path, tmp_path: Path) -> None:
    done = dsv4("trajectories", path, "-o", tmp_path / "out.jsonl", "--format", "trl")
    assert done.returncode == 0
    assert done.stderr.decode().splitlines() == [
        "dsv4: 2 rows of 1 session",
        "dsv4: sampled 2 tokens, written 2, left out 0",
    ]
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["session"], row["sequence"]) for row in rows] == [("s1", 0), ("s1", 1)]
    done = dsv4("trajectories", path, "-o", tmp_path / "sky.jsonl", "--format", "skyrl")
    said = done.stderr.decode().splitlines()
    assert "dsv4: left out: 2 trajectories: no reward" in said
    assert said[-1] == "dsv4: sampled 2 tokens, written 0, left out 2: 2 no reward"


def test_an_export_of_damaged_tokens_fails(path: Path, tmp_path: Path) -> None:
    with closing(SessionFile(path)) as file:
        file.close_session("s1")
    with closing(sqlite3.connect(path)) as database:
        for number, ids in database.execute("SELECT number, ids FROM calls").fetchall():
            other = ids[:-4] + bytes([1, 0, 0, 0])
            database.execute("UPDATE calls SET ids = ? WHERE number = ?", (other, number))
        database.commit()
    said = refused("trajectories", path, "-o", tmp_path / "out.jsonl", status=1)
    assert "session s1: found 2 sampled tokens that are not those of its seal, which has 2" in said
    assert not (tmp_path / "out.jsonl").exists()


def test_a_session_is_shown_turn_by_turn(path: Path) -> None:
    shown = printed("trajectories", "show", "s1", "--from", path, "--color", "never")
    assert re.search(r"session s1: 2 calls, 2 trajectories, \d+ tokens sampled, exact, open", shown)
    assert "new_conversation: its prompt leaves the ids of c0 after" in shown
    assert "Question Hello▸Answer" in shown
    assert "\x1b" not in shown
    colored = printed("trajectories", "show", "s1", "--from", path, "--color", "always")
    assert "\x1b[33mAnswer\x1b[0m" in colored
    assert "bye \x1b[31m" not in colored


def test_a_session_as_a_page(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.html"
    printed("trajectories", "show", "s1", "--from", path, "--html", out)
    page = out.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert '<span class="s3">Answer</span>' in page


def test_what_cannot_be_done_is_said_in_one_line(path: Path, tmp_path: Path) -> None:
    assert "-o is missing" in refused("trajectories", path)
    assert "expected its id" in refused("trajectories", "show")
    assert 'found no session "x"' in refused("trajectories", "show", "x", "--from", path, status=1)
    gone = refused("trajectories", "http://127.0.0.1:1", "-o", tmp_path / "o.jsonl", status=1)
    assert "GET http://127.0.0.1:1/sessions?after=0: " in gone

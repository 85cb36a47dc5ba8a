"""`dsv4 why`: a file, stdin or the text itself; lines or JSON; and what it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import dsv4

from loading import ROOT

ANSWER = ROOT / "examples" / "answer.txt"


def test_a_file_stdin_and_a_text_are_the_same() -> None:
    text = ANSWER.read_text("utf-8")
    said = [dsv4("why", ANSWER), dsv4("why", stdin=text), dsv4("why", "-", stdin=text)]
    said.append(dsv4("why", text))
    assert {done.returncode for done in said} == {1}
    assert len({done.stdout for done in said}) == 1
    assert said[0].stdout.decode().splitlines()[0] == "what   the text of an answer"


def test_words_need_no_quotation_marks() -> None:
    done = dsv4("why", "Thinking", "mode", "does", "not", "support", "this", "tool_choice")
    assert b"dsv4 heal" in done.stdout


def test_json_has_the_same() -> None:
    done = dsv4("why", "--json", ANSWER)
    verdict = json.loads(done.stdout)
    assert (verdict["kind"], verdict["who"], verdict["sure"]) == ("answer", "server", "sure")
    assert verdict["status"] == done.returncode == 1


@pytest.mark.parametrize(("text", "status"), [("Hello there", 0), ("", 2)])
def test_the_exit_status(text: str, status: int) -> None:
    assert dsv4("why", "-", stdin=text).returncode == status


def test_a_file_that_is_not_there_is_no_text(tmp_path: Path) -> None:
    done = dsv4("why", "answer.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"dsv4: answer.json: there is no such file\n"


def test_the_first_command_of_all() -> None:
    commands = dsv4().stderr.decode().partition("commands:")[2].split("\n    ")
    assert commands[1].startswith("why ")

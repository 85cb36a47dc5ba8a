"""Conversations that are wrong, and some that are not: exit status and kinds of findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import dsv4 as run_command
from running import refused

import dsv4
from dsv4._cli.main import main
from rows import each_row

FOLDER = Path(__file__).parent.parent / "conversations"


def cases(name: str) -> list[Any]:
    lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, lines)]


@each_row("case", [*cases("wrong"), *cases("good")])
def test_conversation(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "conversation.json"
    file.write_text(json.dumps(case["body"]))
    status = main(["check", "--json", *case.get("options", ()), str(file)])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(finding["kind"] for finding in found) == case["kinds"], found
    assert status == case["status"]
    assert all(finding["message"] for finding in found)


def test_every_kind_is_found_in_one() -> None:
    listed = [case.values[0] for name in ("wrong", "good") for case in cases(name)]
    found = {kind for case in listed for kind in case["kinds"]}
    assert set(dsv4.FINDING_KINDS) - found == {"not_json"}


class TestKeysThatStandTwice:
    """Some readers take the first value, most the last."""

    @each_row(
        "text, path",
        [
            ('{"messages": [], "messages": [{"role": "user", "content": "a"}]}', "messages"),
            (
                '[{"role": "system", "content": ""}, {"role": "user", "content": 1, "content": 2}]',
                "[1].content",
            ),
            ('{"messages": [{"role": "user", "a.b": {"": 1, "": 1}}]}', "messages[0].a.b."),
            ('{"a": {"b": 1, "b": 2}, "a": 3}', "a"),
            ('[[[{"x": {}, "y": [], "x": {}}]]]', "[0][0][0].x"),
        ],
    )
    def test_they_are_refused_with_their_place(self, text: str, path: str) -> None:
        problem = f"{path}: found this key twice in one object, expected it once"
        for command in ("encode", "show", "count"):
            assert problem in refused(command, stdin=f"\n{text}\n")

    def test_check_names_them(self, tmp_path: Path) -> None:
        good = '{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}]}'
        (tmp_path / "a.jsonl").write_text(f"{good}\n{good.replace('role', 'content', 1)}\n")
        done = run_command("check", tmp_path / "a.jsonl")
        assert b"a.jsonl:2: error: messages[0].content: found this key twice" in done.stdout
        assert b"a.jsonl:1: error" not in done.stdout
        assert done.returncode == 1

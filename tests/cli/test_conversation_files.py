"""Conversations that are wrong, and some that are not: exit status and kinds of findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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

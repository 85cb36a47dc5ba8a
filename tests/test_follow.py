"""What is followed of other packages: the workflow has all of it, and what is held against them
exists."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest

from dsv4 import profiles
from loading import ROOT


@pytest.fixture(scope="module")
def follow() -> Any:
    spec = importlib.util.spec_from_file_location("follow", ROOT / "scripts" / "follow.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["follow"] = module  # which dataclasses look into
    spec.loader.exec_module(module)
    return module


def test_the_workflow_follows_every_package(follow: Any) -> None:
    workflow = (ROOT / ".github" / "workflows" / "follow.yml").read_text("utf-8")
    named = re.findall(r"^ +- ([a-z-]+)$", workflow, re.MULTILINE)
    assert sorted(named) == sorted([*follow.PACKAGES, *follow.LIBRARIES])


def test_a_server_has_a_profile_and_a_script(follow: Any) -> None:
    families = {profile.family for profile in profiles.PROFILES.values()}
    for package in follow.PACKAGES.values():
        assert package.family in families
        assert (follow.ENGINES / package.script).exists()


def test_a_library_has_tests(follow: Any) -> None:
    for library in follow.LIBRARIES.values():
        assert library.tests
        assert all((ROOT / path).exists() for path in library.tests)


def test_every_server_has_readings_of_its_parsers(follow: Any) -> None:
    known = follow.known_readings()
    names = {row.name for row in follow.rows_for_parsers()}
    for package in follow.PACKAGES.values():
        assert (follow.ENGINES / package.reader[0]).exists()
        newest = follow.last_known(known[package.family], "0")
        assert set(newest) == names
        assert list(follow.reading_changes(newest, newest)) == []


def test_a_completion_that_is_misread_now_is_shown(follow: Any) -> None:
    row = follow.rows_for_parsers()[0]
    wanted = {"reasoning": "", "content": "", "calls": [], **row.wanted}
    calls = [[name, json.dumps(arguments)] for name, arguments in wanted["calls"] or ()]
    right = {**{name: wanted[name] or "" for name in ("reasoning", "content")}, "calls": calls}
    known = {row.name: [right, right]}
    found = {row.name: [right, {**right, "calls": [["other", "{}"]]}]}
    (head, text, before, now) = follow.reading_changes(found, known)
    assert head == f"  completions, streamed, misread now: 1, of these {row.name}:"
    assert "other" in now
    assert "other" not in before
    assert repr(row.visible[:20])[1:-1] in text
    back = list(follow.reading_changes(known, found))
    assert back[0].startswith("  completions, streamed, read right now: 1")


@pytest.mark.parametrize(
    ("package", "dialect", "spec"),
    [
        ("vllm", "v4.1", "v4.1"),
        ("sglang", "v4", "dsv4"),
        ("sglang", "v4.1", "dsv41"),
    ],
)
def test_a_script_has_its_own_names_of_dialects(
    follow: Any, package: str, dialect: str, spec: str
) -> None:
    assert follow.PACKAGES[package].dialect(dialect) == spec


@pytest.mark.parametrize(
    ("family", "version", "name"),
    [
        ("vllm", "0.32.0", "vllm-0.32"),
        ("vllm", "0.34.1", "vllm-0.33"),
        ("dynamo", "1.6.1", "dynamo-1.6"),
    ],
)
def test_a_release_is_held_against_its_profile_or_the_newest(
    follow: Any, family: str, version: str, name: str
) -> None:
    assert follow.known_profile(family, version).name == name


def test_changes_are_told_in_the_words_of_the_table(follow: Any) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": []}
    (head, shown) = follow.prompt_changes([(body, None, "<x>")], [{"messages": []}])
    assert head.startswith("  taken now: 1")
    assert '"tools": []' in shown


def test_a_package_that_is_not_followed_is_named(follow: Any) -> None:
    with pytest.raises(SystemExit, match="numpy: expected one of vllm, "):
        follow.main("numpy==2.0")


def test_without_a_version_it_is_the_newest_and_not_that_of_the_last_time(
    follow: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = {"install": [{"metadata": {"version": "2.0"}}]}
    asked: list[list[str]] = []

    def run(command: list[Any], **_: Any) -> Any:
        asked.append([str(word) for word in command])
        return SimpleNamespace(stdout=json.dumps(report))

    monkeypatch.setattr(follow.subprocess, "run", run)
    monkeypatch.setattr(follow, "BUILD", tmp_path)
    for version in ("1.0", "2.0"):
        (tmp_path / f"vllm-{version}").mkdir()
        (tmp_path / f"vllm-{version}" / f"vllm-{version}-py3-none-any.whl").touch()
    assert follow.wheel_of(follow.newest("vllm")).name == "vllm-2.0-py3-none-any.whl"
    assert follow.newest("vllm==1.0") == "vllm==1.0"
    assert len(asked) == 1


def test_an_official_file_is_known_by_its_sum_and_another_is_new(
    follow: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    copies = importlib.import_module("official_copies")
    text = "def encode_messages():\n    pass\n\n\ndef render_message():\n    pass\n"
    wheel = tmp_path / "vllm-9.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/encoding.py", text)
        archive.writestr("vllm/other.py", "pass")
    monkeypatch.setattr(copies, "newest", lambda package: package)
    monkeypatch.setattr(copies, "wheel_of", lambda requirement: wheel)
    assert copies.main(["vllm"]) == 1
    assert "vllm 9.0: vllm/encoding.py: NEW" in capsys.readouterr().out
    monkeypatch.setitem(copies.RELEASES, sha256(text.encode()).hexdigest(), "v5")
    assert copies.main(["vllm"]) == 0
    assert "the official file of v5" in capsys.readouterr().out

"""Other implementations: their adapters, their locks, and the page that says what came of it."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dsv4.compat.conformance import ConformanceCase, ConformanceOutcome
from loading import ROOT

FOLDER = ROOT / "implementations"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/adapter.py"))
PAGE = (ROOT / "docs" / "implementations.md").read_text("utf-8")
MOST_LINES = 40


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # which dataclasses look into
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_an_implementation(name: str) -> None:
    adapter = (FOLDER / name / "adapter.py").read_text("utf-8")
    assert len(adapter.splitlines()) <= MOST_LINES
    lock = (FOLDER / name / "requirements.lock").read_text("utf-8")
    pinned = re.findall(
        r"^[A-Za-z0-9].*?==\S+(?: ;.*?)? \\\n    --hash=sha256:", lock, re.MULTILINE
    )
    assert len(pinned) == len(re.findall(r"^[A-Za-z0-9]", lock, re.MULTILINE)) > 0
    wanted = (FOLDER / name / "requirements.in").read_text("utf-8").split("\n")[0]
    assert wanted in lock
    assert f"| {name} | {wanted.partition('==')[2]} |" in PAGE


@pytest.mark.parametrize("name", NAMES)
def test_what_is_run_is_the_implementation_and_is_named(name: str) -> None:
    """Nothing of dsv4 answers for another package, but the template, whose row says so."""
    source = (FOLDER / name / "adapter.py").read_text("utf-8")
    shared = [(ROOT / "scripts" / f"{module}.py") for module in ("conform_lines", "model_folder")]
    for text in (source, *(path.read_text("utf-8") for path in shared)):
        roots = {
            imported.partition(".")[0]
            for node in ast.walk(ast.parse(text))
            for imported in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not roots & {"dsv4", "encoding_dsv4", "encoding_dsv32", "encoding_dsv41"}
    lock = (FOLDER / name / "requirements.lock").read_text("utf-8")
    assert not re.search(r"^dsv4\b", lock, re.MULTILINE)
    way = script("implementations").way_of(name)
    assert f"| {way} |" in PAGE
    assert ("sys.argv[1]" in source) == ("dsv4's own template" in way)


WANTED = [{"name": "f", "arguments": {"a": 1}}]


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        ({"error": "no"}, "refused"),
        ({"message": {"content": "x"}}, "lost"),
        ({"message": {"tool_calls": [("f", '{"a": 2}')]}}, "wrong arguments"),
        ({"message": {"tool_calls": [("f", '{"a": 1}'), ("g", "{}")]}}, "invented"),
        (
            {"message": {"tool_calls": [("f", '{"a": 1}')], "content": "</｜DSML｜invoke>"}},
            "leaked",
        ),
        ({"message": {"tool_calls": [("f", '{"a": 1}')], "content": "y"}}, "other texts"),
    ],
)
def test_the_worst_mistake_is_named(answer: dict[str, Any], mistake: str) -> None:
    if calls := answer.get("message", {}).get("tool_calls"):
        answer["message"]["tool_calls"] = [
            {"function": {"name": name, "arguments": arguments}} for name, arguments in calls
        ]
    case = ConformanceCase("c", "parse", "v4", {}, {"message": {"calls": WANTED, "content": "x"}})
    outcome = ConformanceOutcome(case, "fail")
    assert script("implementations").mistake_of(outcome, answer) == mistake


@pytest.mark.parametrize(("dialect", "name"), [("v4", "reserved"), ("v4.1", "<｜System｜>")])
def test_a_model_without_weights(tmp_path: Path, dialect: str, name: str) -> None:
    vocabulary, folder = tmp_path / "v4.json", tmp_path / "model"
    tokens = [{"id": 1, "content": "eos"}, {"id": 128799, "content": "reserved"}]
    vocabulary.write_text(json.dumps({"added_tokens": tokens}), "utf-8")
    models = script("model_folder")
    models.write_model(folder, dialect, vocabulary)
    written = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    assert [token["content"] for token in written["added_tokens"]] == ["eos", name]
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert config["model_type"] == models.MODELS[dialect][1]


def test_reasoning_inside_contents() -> None:
    script("model_folder")  # which the other imports
    inside = script("conform_lines").with_reasoning_inside
    user, part = {"role": "user", "content": "a"}, {"type": "text", "text": "b"}
    answers = [
        {"role": "assistant", "content": "b", "reasoning_content": "r"},
        {"role": "assistant", "content": [part], "reasoning": "r"},
        {"role": "assistant", "content": None},
    ]
    assert [m["content"] for m in inside([user, *answers], thinking=True)] == [
        "a",
        "<think>r</think>b",
        [{"type": "text", "text": "<think>r</think>"}, part],
        "<think></think>",
    ]
    assert inside(answers[:1], thinking=False) == [{"role": "assistant", "content": "b"}]


class TestFollowing:
    def test_the_profile_of_a_release(self) -> None:
        known = script("follow").known_profile
        for family, version, name in (
            ("vllm", "0.32.0", "vllm-0.32"),
            ("vllm", "0.33.0", "vllm-0.33"),
            ("vllm", "0.34.1", "vllm-0.33"),
            ("recipe", "0.2.0", "recipe-0.2.0"),
        ):
            assert known(family, version).name == name

    def test_changes_in_words(self) -> None:
        follow = script("follow")
        old = {"role": "assistant", "content": "b", "reasoning": "r"}
        body = {"messages": [{"role": "user", "content": "a"}, old]}
        plain = {"messages": [{"role": "user", "content": "a"}]}
        lines = list(follow.prompt_changes([(body, "a1b", "a2b"), (plain, "x", None)], [plain]))
        assert lines[0].startswith("  refused now: 1")
        assert lines[2].startswith("  written otherwise: 1 (all have to do with: ")
        assert "reasoning of earlier answers" in lines[2]
        assert lines[-2:] == ["      known 'a1b'", "      now   'a2b'"]

    def test_the_fields_of_a_request(self, tmp_path: Path) -> None:
        path = tmp_path / "protocol.py"
        path.write_text("class ChatCompletionRequest:\n    a: int\n    b: str = ''\n    c = 1\n")
        assert script("follow").request_fields(path) == ["a", "b"]

"""What the page of static files answers, in WebAssembly and with the JavaScript engine for ids, is
what a server answers.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from completions import corpus
from dsv4._playground.page_examples import COMPLETION_TOOLS, example_sources
from dsv4._playground.page_functions import answer
from dsv4._playground.page_request import PlaygroundContext
from dsv4.tokens import Tokenizer

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "npm"
NODE = shutil.which("node")
SCRIPT = ROOT / "tests" / "javascript" / "answers_in_pyodide.mjs"
HAS_PYODIDE = (PACKAGES / "node_modules" / "pyodide").is_dir()
SIDES = (["dsv4"], ["dsv4", "profile:vllm-0.32"], ["dialect:v4-0731"])


def example_calls() -> list[dict[str, Any]]:
    """Every function, over every example."""
    calls: list[dict[str, Any]] = [{"name": "settings", "body": {}}, {"name": "stream", "body": {}}]
    for example in example_sources():
        source = example["source"]
        for sides in SIDES:
            body = {"source": source, "ids": True, "sides": sides}
            calls.append({"name": "prompt", "body": body})
        calls.append({"name": "text", "body": {"source": source, "shown": "dsv4"}})
        calls.append({"name": "cache", "body": {"source": source}})
    return calls


def random_calls(count: int) -> list[dict[str, Any]]:
    """Conversations good and bad, each with switches drawn by chance, and malformed completions."""
    draw = random.Random(20_261_116)
    files = [ROOT / "tests" / "conversations" / name for name in ("good.jsonl", "wrong.jsonl")]
    sources = [line for path in files for line in path.read_text("utf-8").splitlines()]
    texts = [case["text"] for case in corpus()]
    calls: list[dict[str, Any]] = []
    for _ in range(count // 2):
        switches = {"dialect": draw.choice(["v4", "v4.1", "v3.2"]), "thinking": draw.random() < 0.5}
        body = {"source": draw.choice(sources), "ids": True, "sides": ["dsv4"], **switches}
        calls.append({"name": "prompt", "body": body})
        traced = {"text": draw.choice(texts), "tools": COMPLETION_TOOLS, "cut": "token"}
        calls.append({"name": "trace", "body": traced})
    return calls


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("playground")
    script = str(ROOT / "scripts" / "build_playground.py")
    command = [sys.executable, script, str(target), "--packages", str(PACKAGES)]
    subprocess.run(command, check=True, capture_output=True)
    return target


@pytest.mark.large
@pytest.mark.skipif(NODE is None, reason="needs Node")
@pytest.mark.skipif(not HAS_PYODIDE, reason="no Pyodide: `make site` installs it")
def test_the_browser_answers_as_the_server_does(built: Path) -> None:
    calls = [*example_calls(), *random_calls(200)]
    command = [str(NODE), str(SCRIPT), str(built)]
    given = json.dumps(calls).encode()
    done = subprocess.run(command, input=given, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:].decode()
    context = PlaygroundContext(Tokenizer.load(), serves=False)
    for call, found in zip(calls, json.loads(done.stdout), strict=True):
        status, body = answer(call["name"], json.dumps(call["body"]), context)
        assert found == {"status": status, "answer": json.loads(body)}, call

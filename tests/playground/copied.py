"""What the page copies, run as its users run it."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def printed(code: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a program prints."""
    file = folder / "copied.py"
    file.write_text(code, "utf-8")
    runpy.run_path(str(file))
    return capsys.readouterr().out


def run_cases(cases: list[str], folder: Path) -> str:
    """What pytest says of some cases, in a process of its own."""
    for n, case in enumerate(cases):
        (folder / f"test_copied_{n}.py").write_text(case, "utf-8")
    command = [sys.executable, "-X", "utf8", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    bare = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # it starts sooner without
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder, env=bare)
    return done.stdout.decode()


def sent_by(text: str) -> Any:
    """The body that a shell gives to curl."""
    script = 'curl() { for word; do last=$word; done; printf %s "$last"; }\n' + text
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    return json.loads(done.stdout)

"""Type checkers find the mistakes in a user's program, and none in one without mistakes.

tests/types holds the two programs.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loading import ROOT

PROGRAMS = ROOT / "tests" / "types"
SOURCE = ROOT / "src"


def lines_with_errors(pattern: str, folder: Path, *command: str) -> set[int]:
    """The lines that a type checker complains about; the test is skipped where it cannot run."""
    if importlib.util.find_spec(command[0]) is None:
        pytest.skip(f"not installed: {command[0]}")
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=folder
    )
    if done.returncode not in (0, 1) or not re.search(r"error|Success", done.stdout):
        pytest.skip(f"{command[0]} does not run here: {(done.stderr or done.stdout)[-200:]}")
    return {int(line) for line in re.findall(pattern, done.stdout)}


def mypy(program: Path, folder: Path) -> set[int]:
    settings = f"[mypy]\nmypy_path = {SOURCE}\n[mypy-transformers.*]\nfollow_imports = skip\n"
    folder.joinpath("mypy.ini").write_text(settings, "utf-8")
    name = shutil.copy(program, folder / "program.py").name
    return lines_with_errors(r"program\.py:(\d+): error", folder, "mypy", "--strict", name)


def pyright(program: Path, folder: Path) -> set[int]:
    settings = {"extraPaths": [str(SOURCE)], "typeCheckingMode": "strict"}
    folder.joinpath("pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    shutil.copy(program, folder / "program.py")
    command = ("pyright", "--project", str(folder), "--pythonpath", sys.executable)
    return lines_with_errors(r"program\.py:(\d+):\d+ - error", folder, *command)


every_checker = pytest.mark.parametrize("checker", [mypy, pyright])
Checker = Callable[[Path, Path], set[int]]


@every_checker
def test_a_correct_program(checker: Checker, tmp_path: Path) -> None:
    pytest.importorskip("openai")
    assert checker(PROGRAMS / "correct.py", tmp_path) == set()


@every_checker
def test_each_mistake_is_found_and_nothing_else(checker: Checker, tmp_path: Path) -> None:
    program = PROGRAMS / "mistaken.py"
    lines = enumerate(program.read_text("utf-8").splitlines(), start=1)
    wrong = {number for number, line in lines if line.endswith("# wrong")}
    assert len(wrong) >= 12
    assert checker(program, tmp_path) == wrong

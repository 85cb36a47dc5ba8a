"""Type checkers find the mistakes in a user's program, and none in one without mistakes.

tests/types holds the programs.
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
from test_documentation import python_blocks

PROGRAMS = ROOT / "tests" / "types"
SOURCE = ROOT / "src"
Checker = Callable[[list[Path], Path], set[tuple[str, int]]]


def complaints(folder: Path, *command: str) -> set[tuple[str, int]]:
    """The files and lines that a type checker complains about; skips where it cannot run."""
    if importlib.util.find_spec(command[0]) is None:
        pytest.skip(f"not installed: {command[0]}")
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=folder
    )
    if done.returncode not in (0, 1) or not re.search(r"error|Success", done.stdout):
        pytest.skip(f"{command[0]} does not run here: {(done.stderr or done.stdout)[-200:]}")
    found = re.findall(r"(\w+\.py):(\d+):(?:\d+ -)? error", done.stdout)
    return {(name, int(line)) for name, line in found}


def mypy(programs: list[Path], folder: Path) -> set[tuple[str, int]]:
    """With the settings of the project, which are strict, so that what it has cached counts."""
    return complaints(ROOT, "mypy", *(shutil.copy(each, folder) for each in programs))


def pyright(programs: list[Path], folder: Path) -> set[tuple[str, int]]:
    settings = {"extraPaths": [str(SOURCE)], "typeCheckingMode": "strict"}
    folder.joinpath("pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    for program in programs:
        shutil.copy(program, folder)
    return complaints(folder, "pyright", "--project", str(folder), "--pythonpath", sys.executable)


def meant(programs: list[Path]) -> set[tuple[str, int]]:
    """The lines that the programs themselves call wrong."""
    return {
        (program.name, number)
        for program in programs
        for number, line in enumerate(program.read_text("utf-8").splitlines(), start=1)
        if line.endswith("# wrong")
    }


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_each_mistake_is_found_and_nothing_else(checker: Checker, tmp_path: Path) -> None:
    """The README's code, as it is printed there, is among the programs without mistakes."""
    programs = [PROGRAMS / "correct.py", PROGRAMS / "mistaken.py", *readme_programs(tmp_path)]
    assert len(meant(programs)) >= 12
    assert checker(programs, tmp_path) == meant(programs)


def readme_programs(folder: Path) -> list[Path]:
    blocks = python_blocks((ROOT / "README.md").read_text("utf-8"))
    assert blocks
    (folder / "readme").mkdir()
    programs = [folder / "readme" / f"readme_{n}.py" for n in range(len(blocks))]
    for program, block in zip(programs, blocks, strict=True):
        program.write_text(block.code, "utf-8")
    return programs


# Both read all of the SDK: mypy for half a minute, pyright for ten seconds.
@pytest.mark.large
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_objects_of_openai(checker: Checker, tmp_path: Path) -> None:
    pytest.importorskip("openai")
    assert checker([PROGRAMS / "openai_objects.py"], tmp_path) == set()

"""What the README prints works as printed: Python in a fresh interpreter, commands in a shell. The
first commands of the sections of all documents do too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from test_documentation import DOCUMENTS, ROOT, python_blocks

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = python_blocks(README)
COMMANDS = re.findall(r"^(dsv4 .+?)(?: +#.*)?$", README, re.MULTILINE)
SERVERS = ("serve", "heal", "playground")
# What stands for something of the reader's: a host, a file, a session.
PLACEHOLDER = re.compile(
    r"https?://(?!127\.|localhost)|\b[A-Z]{3,}\b|\b(verify|trajectories|replay)\b"
)


def first_commands(document: str) -> list[str]:
    """The first command of each section, if it is one of dsv4's that needs nothing else."""
    found = []
    for section in re.split(r"^#+ ", document, flags=re.MULTILINE):
        block = re.search(r"^ *```sh\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
        lines = re.findall(r"^ *(dsv4 .+?)(?: +#.*)?$", block[1] if block else "", re.MULTILINE)
        found += [line for line in lines[:1] if not PLACEHOLDER.search(line)]
    return found


# Where several have the same one, it is run once.
FIRST_COMMANDS = {
    line: path.name for path in DOCUMENTS for line in first_commands(path.read_text("utf-8"))
}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line {block.line}")
def test_a_block_needs_no_other(block: object) -> None:
    code, _, prints = block  # type: ignore[misc]
    done = subprocess.run(
        [sys.executable, "-c", code],
        **{"cwd": ROOT, "env": ENVIRONMENT, "capture_output": True, "text": True},
        check=False,
    )
    assert not done.returncode, done.stderr
    assert prints is None or done.stdout == prints


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 5


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_works_as_printed(line: str, tmp_path: Path) -> None:
    check_command(line, tmp_path)


def test_there_are_first_commands() -> None:
    assert len(FIRST_COMMANDS) > 8


@pytest.mark.parametrize(
    ("document", "line"),
    [(document, line) for line, document in FIRST_COMMANDS.items() if line not in COMMANDS],
)
def test_the_first_command_of_a_section_works_as_printed(
    document: str, line: str, tmp_path: Path
) -> None:
    check_command(line, tmp_path)


def check_command(line: str, folder: Path) -> None:
    """Runs a command as in a checkout, without writing into this one."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "dsv4").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dsv4 "$@"\n')
    (folder / "dsv4").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    if line.split()[1] in SERVERS:  # would run until it is stopped; tests/serve starts it
        line += " --print-config"
    done = subprocess.run(
        line.replace("/tmp/", f"{folder}/"),
        **{"shell": True, "cwd": folder, "env": {**ENVIRONMENT, "PATH": path}},
        **{"capture_output": True, "text": True, "check": False},
    )
    assert done.returncode in (0, 1), done.stderr  # 1 where there is something to find
    assert done.stdout or "dataset" in line
    assert "Traceback" not in done.stderr


def test_the_demo_installs_what_the_commands_need() -> None:
    """Those that serve, and those that make ids."""
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\n$(VENV)/installed: ")[2]
    assert "$(INSTALL) '.[serve,tokens]'" in recipe.partition("\n\n")[0]


def test_the_demo_tells_its_story() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py"],
        **{"cwd": ROOT, "env": ENVIRONMENT, "capture_output": True, "text": True},
        check=True,
    )
    counted = re.findall(r"(\d+) of (\d+) prompts as released", done.stdout)
    assert len(counted) >= 3
    assert all(same == number for same, number in counted)
    assert "byte for byte" in done.stdout
    assert "4 repairs" in done.stdout
    tried = re.findall(r"^dsv4 .*?(examples/\S+)", done.stdout, re.MULTILINE)
    assert tried
    assert all((ROOT / name).exists() for name in tried)

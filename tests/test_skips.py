"""What was skipped is said in one line, with what installs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from loading import ROOT
from rows import each_row
from skips import MOST_REASONS, PACKAGES, skip_line

REDIS, NODE = "redis-server is not installed", "needs Node"
INSTALL = "`apt install redis-server nodejs` installs what is missing"


@each_row(
    "reasons, line",
    [
        ([], ""),
        (["no /dev/full"], "1 skipped: 1 × no /dev/full"),
        (
            [NODE, REDIS, REDIS],
            f"3 skipped: 2 × {REDIS}, 1 × {NODE}; {INSTALL}",
        ),
    ],
)
def test_a_line(reasons: list[str], line: str) -> None:
    assert skip_line(reasons) == line


def test_many_reasons_are_counted() -> None:
    line = skip_line(f"reason {n}" for n in range(MOST_REASONS + 3))
    assert line.endswith(", 3 more reasons")
    assert "\n" not in line


def test_runs_leave_their_reasons_for_the_end(tmp_path: Path) -> None:
    """As `make test` does it, with two runs and the hook of these tests."""
    folder, kept = tmp_path / "tests", tmp_path / "build" / "skips"
    folder.mkdir()
    (folder / "test_it.py").write_text(
        f"import pytest\ndef test_a(): pytest.skip('{REDIS}')\n"
        f"@pytest.mark.skipif(True, reason='{NODE}')\ndef test_b(): ...\ndef test_c(): ...\n"
    )
    (folder / "pytest.ini").write_text("[pytest]\n")
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "SKIPS": str(kept)}
    options = ["-q", "-p", "conftest", "-p", "no:cacheprovider", str(folder)]
    twice = f"import pytest\nfor _ in range(2): assert pytest.main({options}) == 0"
    subprocess.run([sys.executable, "-c", twice], env=environment, cwd=folder, check=True)
    said = subprocess.run(
        [sys.executable, ROOT / "tests" / "skips.py", kept],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**environment, "PYTHONIOENCODING": "utf-8"},
        check=True,
    )
    assert said.stdout == f"{skip_line([REDIS, NODE] * 2)}\n"


def test_each_program_is_named_for_contributors() -> None:
    """As a program that some tests need, and in the reason of one that is skipped without it."""
    named = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [program for program in PACKAGES if f"| {program} |" not in named.replace("`", "")] == []
    code = "".join(path.read_text("utf-8") for path in ROOT.glob("tests/*/*.py"))
    asked = set(re.findall(r'which\("([^"]+)"\)', code)) - {"bash", "llama-server"}
    assert asked <= {"node", *PACKAGES}

"""Runs the core's tests on other supported Pythons that this machine has.

    python scripts/other_pythons.py          # what is likely to break, on the oldest and the newest
    python scripts/other_pythons.py --all    # all tests of the packages that need no extra, on each

Interpreters are looked for on PATH and among pyenv's versions; none found is no failure. Each gets
an environment of its own under build/pythons, which is made once and kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, STDOUT

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / "build" / "pythons"
SUPPORTED = [(3, minor) for minor in range(10, 15)]
REQUIREMENTS = ["pytest>=8", "hypothesis>=6.100"]

# What differs between Pythons is how classes are made, what the standard library accepts, and how
# errors are worded. These files see all of it in seconds, without the tests that repeat themselves.
SMOKE = [
    *("tests/core/test_vectors.py", "tests/core/test_corpus.py", "tests/core/test_recovery.py"),
    *("tests/core/test_streaming.py", "tests/core/test_strict.py", "tests/core/test_message.py"),
    *("tests/core/test_errors.py", "tests/test_public_names.py", "tests/core/test_signatures.py"),
    *("tests/core/test_dialects.py", "tests/core/test_prompt.py", "tests/core/test_request.py"),
]
# The packages that need no extra, in full.
WITHOUT_EXTRAS = [
    *("tests/core", "tests/profiles", "tests/decoding", "tests/test_check.py"),
    *("tests/test_view.py", "tests/test_public_names.py", "tests/test_packing.py"),
    "tests/test_attacks.py",
]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--all", action="store_true", help="also what takes longer")
    run_all = options.parse_args().all
    found = {version: path for version in SUPPORTED if (path := interpreter(version))}
    found.pop(sys.version_info[:2], None)
    missing = [".".join(map(str, version)) for version in SUPPORTED if version not in found]
    print(f"other Pythons: {len(found)} found; not found, or this one: {', '.join(missing)}")
    if not run_all:  # what breaks on one between them breaks on one of these too
        ends = {min(found), max(found)} if found else set()
        found = {version: path for version, path in found.items() if version in ends}
    with ThreadPoolExecutor(len(SUPPORTED)) as pool:
        passed = pool.map(lambda version: passes(version, found[version], run_all), found)
        failed = [
            name(version) for version, passes in zip(found, passed, strict=True) if not passes
        ]
    if failed:
        print(f"failed on {', '.join(failed)}")
    return bool(failed)


def interpreter(version: tuple[int, int]) -> str | None:
    """A Python of that version that starts. A shim of pyenv's is there even if it does not."""
    return next((path for path in candidates(name(version)) if starts(path, version)), None)


def candidates(executable: str) -> Iterator[str]:
    on_path = shutil.which(executable)
    if on_path:
        yield on_path
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from map(str, sorted(versions.glob(f"*/bin/{executable}"), reverse=True))


def starts(path: str, version: tuple[int, int]) -> bool:
    command = [path, "-c", "import sys, venv, ensurepip; print(sys.version_info[:2])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() == str(version)


def passes(version: tuple[int, int], path: str, run_all: bool) -> bool:
    """Whether the tests pass. What they print is shown at the end, so that it stays together."""
    python = environment(version, path)
    marks, selected = "not large and not repeats", SMOKE
    if run_all:
        marks, selected = "not large", WITHOUT_EXTRAS
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--tb=short", "--maxfail=20", "-m", marks, *selected]
    if not run_all:  # rewriting the assertions would take longer than to run them
        command += ["--assert=plain"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, check=False, text=True, stdout=PIPE, stderr=STDOUT
    )
    print(f"-- {name(version)}\n{done.stdout}", flush=True)
    return not done.returncode


def environment(version: tuple[int, int], path: str) -> str:
    """The interpreter of an environment with what tests need. dsv4 itself comes from the source."""
    folder = ENVIRONMENTS / name(version)
    python = str(folder / "bin" / "python")
    ready, contents = folder / "ready", "\n".join(REQUIREMENTS)
    if not ready.exists() or ready.read_text() != contents:
        subprocess.run([path, "-m", "venv", "--without-pip", "--clear", str(folder)], check=True)
        subprocess.run([*installer(python), "--quiet", *REQUIREMENTS], check=True)
        ready.write_text(contents)
    return python


def installer(python: str) -> list[str]:
    """What installs into an environment that has no pip: uv beside this Python, or else its pip."""
    uv = shutil.which("uv", path=os.path.dirname(sys.executable))
    if uv:
        return [uv, "pip", "install", "--python", python]
    return [
        *(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"),
        "install",
    ]


def name(version: tuple[int, int]) -> str:
    return "python{}.{}".format(*version)


if __name__ == "__main__":
    sys.exit(main())

"""Builds the sdist and, from it, the wheel; then runs the sdist's tests against the wheel.

    python scripts/check_wheel.py [ARGUMENTS OF PYTEST]

The wheel is installed by itself, so nothing of the source tree can be imported in its place. What
it needs for the tests comes from the environment that runs this script, which has the extras `test`
and `dist`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "build" / "wheel"

# What a user of the drop-in and of the package itself may expect of the types.
CALLER = """\
import dsv4
from encoding_dsv4 import encode_messages, parse_message_from_completion_text

text: str = encode_messages([{"role": "user", "content": "Hi"}], thinking_mode="chat")
native: str = str(dsv4.encode([{"role": "user", "content": "Hi"}]))
wrong: int = encode_messages([], thinking_mode="chat")  # type: ignore[assignment]
parse_message_from_completion_text(text, thinking_mode=1)  # type: ignore[arg-type]
"""


def main(arguments: list[str]) -> int:
    shutil.rmtree(HERE, ignore_errors=True)
    run("-m", "build", "--outdir", HERE / "dist", ROOT)
    run("-m", "twine", "check", "--strict", *HERE.glob("dist/*"))
    [sdist], [wheel] = HERE.glob("dist/*.tar.gz"), HERE.glob("dist/*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(HERE / "source")
    [source] = HERE.glob("source/*")

    python = make_environment(HERE / "environment", wheel)
    check_types(python)
    installed = site_packages(python)
    imports_from(installed, source)
    return run("-m", "pytest", *arguments, cwd=source, path=installed, check=False)


def make_environment(folder: Path, wheel: Path) -> str:
    """An environment with the wheel and nothing else, not even pip."""
    run("-m", "venv", "--without-pip", folder)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    run("-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel)
    return python


def check_types(python: str) -> None:
    """Type checkers see the types of both packages, as a user's program imports them."""
    caller = HERE / "caller.py"
    caller.write_text(CALLER, encoding="utf-8")
    strictly = ("--strict", "--warn-unused-ignores", "--config-file", os.devnull)
    run("-m", "mypy", *strictly, "--python-executable", python, caller, cwd=HERE)


def site_packages(python: str) -> Path:
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.check_output(command, text=True).strip())


def imports_from(installed: Path, source: Path) -> None:
    """Fails unless tests that are run so import what was installed."""
    code = "import dsv4, encoding_dsv4 as e; print(dsv4.__file__, e.__file__)\n"
    code += f"assert all(m.__file__.startswith({str(installed)!r}) for m in (dsv4, e))"
    run("-c", code, cwd=source, path=installed)


def run(*arguments: object, cwd: Path = ROOT, path: Path | None = None, check: bool = True) -> int:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        variables["PYTHONPATH"] = str(path)
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=variables, check=check).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

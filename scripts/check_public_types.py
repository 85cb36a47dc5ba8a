"""Holds that pyright knows the type of every public name: `python scripts/check_public_types.py`.

Public are the names of the modules that list them in `__all__`. pyright judges a package as it is
installed, so the source is copied into an environment of its own. Prints each name whose type
is not known, and exits with 1 if there is one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SRC = Path(__file__).parent.parent / "src"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        packages = installed_copy(Path(folder))
        unknown = [
            f"{symbol['name']}: {problem}"
            for package in sorted(path.name for path in packages.iterdir() if path.is_dir())
            for symbol in symbols_of(package, Path(folder))
            for problem in problems_of(symbol, packages)
        ]
    print(*unknown, sep="\n", end="\n" if unknown else "")
    print(f"{len(unknown)} public names without a known type")
    return 1 if unknown else 0


def installed_copy(folder: Path) -> Path:
    """The packages of this repository, installed into an environment; where they are in it."""
    venv.create(folder, with_pip=False)
    [packages] = folder.glob("[Ll]ib/**/site-packages")
    for path in SRC.iterdir():
        if (path / "py.typed").exists():
            shutil.copytree(path, packages / path.name)
    return packages


def symbols_of(package: str, folder: Path) -> list[dict[str, Any]]:
    """What pyright says of the symbols of a package."""
    command = [Path(sys.executable).parent / "pyright", "--verifytypes", package]
    path = os.pathsep.join([str(folder / "bin"), str(folder / "Scripts"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(folder)}
    done = subprocess.run(
        [*command, "--ignoreexternal", "--outputjson"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    completeness = json.loads(done.stdout)["typeCompleteness"]
    assert completeness["symbols"], f"{package}: pyright found no symbols"
    symbols: list[dict[str, Any]] = completeness["symbols"]
    return symbols


def problems_of(symbol: dict[str, Any], packages: Path) -> Iterator[str]:
    """What is wrong with a symbol's type, where the module lists its names."""
    for problem in symbol["diagnostics"]:
        file = Path(problem["file"])
        is_error = problem["severity"] == "error" and "range" in problem
        # A bound method under a name of its own has one type, which is not written twice.
        is_alias = 'Inferred type is "(' in problem["message"] or "Overload[" in problem["message"]
        if is_error and not is_alias and "\n__all__" in file.read_text("utf-8"):
            line = problem["range"]["start"]["line"] + 1
            words = " ".join(problem["message"].split())
            yield f"{file.relative_to(packages)}:{line}: {words}"


if __name__ == "__main__":
    raise SystemExit(main())

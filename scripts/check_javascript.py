"""Checks the JavaScript of the playground's page: types, lint, and the tests of its logic.

TypeScript and Biome, pinned in tests/javascript/package.json, are installed into build/javascript.
Without Node nothing can be checked, and without the packages only the tests run; both are said.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "dsv4" / "_playground" / "page"
TESTS = ROOT / "tests" / "javascript"
TOOLS = ROOT / "build" / "javascript"
# The first Node that tells modules from scripts by their text: the page has no package.json.
OLDEST_NODE = (20, 19)


def main() -> int:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or _version(node) < OLDEST_NODE:
        return _skip("JavaScript is not checked: found no Node of at least version 20.19")
    checks = [[node, "--test", *map(str, sorted(TESTS.glob("*.test.js")))]]
    if npm is not None and install_packages(npm):
        checks += [_type_check(node), _lint()]
    else:
        _skip("JavaScript is tested without types and lint: npm could not install the packages")
    return max(subprocess.run(check, cwd=ROOT).returncode for check in checks)


def _skip(reason: str) -> int:
    print(reason, file=sys.stderr)
    return 0


def _version(node: str) -> tuple[int, ...]:
    text = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    return tuple(int(number) for number in text.strip().lstrip("v").split(".")[:2])


def install_packages(npm: str) -> bool:
    """Whether the packages are there, which are installed where they have changed."""
    wanted, stamp = (TESTS / "package.json").read_text("utf-8"), TOOLS / "package.json"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return True
    shutil.rmtree(TOOLS, ignore_errors=True)
    TOOLS.mkdir(parents=True)
    stamp.write_text(wanted, "utf-8")
    done = subprocess.run(
        [npm, "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock"], cwd=TOOLS
    )
    if done.returncode:
        shutil.rmtree(TOOLS)
    return done.returncode == 0


def _type_check(node: str) -> list[str]:
    compiler = TOOLS / "node_modules" / "typescript" / "bin" / "tsc"
    return [node, str(compiler), "--project", str(TESTS / "tsconfig.json")]


def _lint() -> list[str]:
    program = shutil.which("biome", path=str(TOOLS / "node_modules" / ".bin"))
    options = [f"--config-path={TESTS / 'lint.json'}", "--error-on-warnings"]
    return [str(program), "lint", *options, str(PAGE), str(TESTS)]


if __name__ == "__main__":
    sys.exit(main())

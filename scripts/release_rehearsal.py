"""Does with a wheel what its users will: python scripts/release_rehearsal.py DIST

Installs the wheel in the folder DIST into an environment of its own, with the extras `serve` and
`tokens`, and runs the commands and the examples of README.md from it, beside the files of the
sdist. Nothing of the source tree can be imported.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "build" / "rehearsal"
# These serve until they are stopped: they must run for so many seconds, on a port of their own.
SERVERS = ("heal", "playground", "serve")
SERVING_SECONDS = 8
# `dsv4 check` and `dsv4 why` end with 1 where they find a fault, which README's examples have.
FOUND = (0, 1)
ENDING_SECONDS = 120
# What README.md names as servers, which are nowhere.
PLACEHOLDER = re.compile(r"http://(?:chat|gpu):\d+")


def main(dist: Path) -> int:
    shutil.rmtree(HERE, ignore_errors=True)
    [sdist], [wheel] = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(HERE / "sdist", filter="data")
    [source] = HERE.glob("sdist/*")
    shutil.copytree(source / "examples", HERE / "user" / "examples")
    programs = installed(wheel)
    readme = (source / "README.md").read_text("utf-8")
    failures = [failure for failure in rehearsed(readme, programs) if failure]
    print(*failures or ["All of README.md works from the wheel."], sep="\n")
    return bool(failures)


def installed(wheel: Path) -> Path:
    """The folder of programs in an environment with the wheel."""
    subprocess.run([sys.executable, "-m", "venv", HERE / "environment"], check=True)
    programs = HERE / "environment" / ("Scripts" if os.name == "nt" else "bin")
    quietly = ("install", "--quiet", "--disable-pip-version-check")
    command = [programs / "python", "-m", "pip", *quietly, f"{wheel.resolve()}[serve,tokens]"]
    subprocess.run(command, check=True)
    return programs


def rehearsed(readme: str, programs: Path) -> Iterator[str]:
    """What is wrong with each command and example; nothing for those that work."""
    examples = list(blocks(readme, "python"))
    lines = list(commands(readme))
    print(f"{len(lines)} commands and {len(examples)} examples", flush=True)
    for number, example in enumerate(examples, 1):
        done = run([programs / "python", "-c", example])
        yield "" if done.returncode == 0 else f"example {number}: {done.stderr}"
    for line in lines:
        words = shlex.split(PLACEHOLDER.sub("http://127.0.0.1:9", line), comments=True)
        words[0] = str(programs / words[0])
        served = words[1] in SERVERS
        yield serving_failure([*words, "--port", "0"]) if served else ending_failure(words)


def blocks(document: str, language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)


def commands(readme: str) -> Iterator[str]:
    """The lines of its shell blocks that run dsv4."""
    for block in blocks(readme, "sh"):
        yield from (line for line in block.splitlines() if line.startswith("dsv4 "))


def ending_failure(words: list[str]) -> str:
    done = run(words)
    is_right = done.returncode in FOUND and "Traceback" not in done.stderr
    return "" if is_right else f"{shlex.join(words)}: status {done.returncode}: {done.stderr}"


def serving_failure(words: list[str]) -> str:
    """What ends a server before it is stopped, or keeps it from ending then."""
    with (HERE / "server.log").open("w+", encoding="utf-8") as log:
        server = subprocess.Popen(words, cwd=HERE / "user", stdout=log, stderr=log, env=alone())
        try:
            server.wait(SERVING_SECONDS)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGTERM)
        try:
            status = server.wait(SERVING_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            return f"{shlex.join(words)}: still there {SERVING_SECONDS} seconds after SIGTERM"
        log.seek(0)
        said = log.read()
    is_right = status in (0, -signal.SIGTERM) and "127.0.0.1" in said and "Traceback" not in said
    return "" if is_right else f"{shlex.join(words)}: status {status}: {said}"


def run(words: list[object] | list[str]) -> subprocess.CompletedProcess[str]:
    """A command in a folder that has the examples, and nothing else of the sources."""
    return subprocess.run(
        list(map(str, words)),
        cwd=HERE / "user",
        env=alone(),
        capture_output=True,
        encoding="utf-8",
        timeout=ENDING_SECONDS,
        check=False,
    )


def alone() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

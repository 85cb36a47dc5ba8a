"""Agents in loops of eight turns through `dsv4 heal --for deepseek-api`, before the stand-in for
DeepSeek's own API, `dsv4 serve --as deepseek-api`: nothing that they send may be refused.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import agents
import install
from errand import Failure
from printed import Printed
from servers import free_port, refusals, running, running_server

SECONDS = 300
KEY = "sk-official-loops"


def run(folder: Path, work: Path, names: Sequence[str], tell: Callable[..., None]) -> int:
    """Runs the agents that are installed in `folder`, below `work`; of `names` alone, if there are
    any. Each is told, and how many failed is returned."""
    installation, failed = install.Installation(folder), 0
    for agent in agents.AGENTS:
        command = installation.agent(agent.name)
        if (names and agent.name not in names) or not command.exists():
            continue
        began = time.monotonic()
        failure = _failure(agent, command, work / f"{agent.name}-{agent.protocol}")
        what = f"{agent.protocol}, a loop before the API"
        tell(agent.name, what, time.monotonic() - began, failure)
        failed += failure is not None
    return failed


def _failure(agent: agents.Agent, command: Path, work: Path) -> str | None:
    """What was wrong with a loop, in which every server is new."""
    api_folder, heal_folder = work / "api", work / "heal"
    for folder in (api_folder, heal_folder):
        folder.mkdir(parents=True)
    flags = ["--as", "deepseek-api", "--pace", "0"]
    with (
        running_server(api_folder, free_port(), KEY, *flags) as api,
        _healing(heal_folder, api) as (heal, printed),
    ):
        try:
            agents.run_loop(agent, command, printed, work / "agent", SECONDS)
        except Failure as failure:
            return f"{failure} (see {work})"
        refused = [
            *refusals(api, KEY, work / "api-metrics"),
            *refusals(heal, KEY, work / "metrics"),
        ]
        return "; ".join(refused) or None


@contextmanager
def _healing(work: Path, api: str) -> Iterator[tuple[str, Printed]]:
    """`dsv4 heal` before the API, and the settings that it prints for clients."""
    keys, own, port = work / "keys", work / "own", free_port()
    for file, text in ((keys, f"admin clients:{KEY}"), (own, KEY)):
        file.touch(0o600)
        file.write_text(f"{text}\n")
    command = [sys.executable, "-m", "dsv4", "heal", "--upstream", api, "--port", str(port)]
    command += ["--for", "deepseek-api", "--upstream-key-file", str(own)]
    asked = subprocess.run([*command, "--clients"], capture_output=True, text=True, check=True)
    with running([*command, "--api-key-file", str(keys)], port, work / "server.log") as url:
        yield url, Printed(asked.stdout, KEY)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run agents in loops before the official API.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--install", type=Path, default=Path("build/clients"), metavar="FOLDER")
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="dsv4-official-"))
    return 1 if run(args.install.resolve(), work, args.names, print) else 0


if __name__ == "__main__":
    sys.exit(main())

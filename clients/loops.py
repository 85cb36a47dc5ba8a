"""Every agent in a loop of eight turns, in a session of the gateway: is it one sequence?

    python clients/loops.py [--install FOLDER] [--work FOLDER] [--replay off] [NAME …]

Agents that are not installed are left out: `make clients` installs them. A line says how many calls
an agent made, how many sequences they came to, in how many of these its main loop lies, and how
much of what was sampled is trained on. The exit status is 1 if a main loop is not one sequence.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import agents
import install
from errand import Failure
from printed import Printed
from run import free_port, running_server

TURNS = 8
SECONDS = 300


def main() -> int:
    parser = argparse.ArgumentParser(description="Run agents in loops of eight turns.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--install", type=Path, default=Path("build/clients"), metavar="FOLDER")
    parser.add_argument("--work", type=Path, metavar="FOLDER")
    parser.add_argument("--replay", default="memory", help="how the gateway replays turns")
    args = parser.parse_args()
    work = (args.work or Path(tempfile.mkdtemp(prefix="dsv4-loops-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    port, key, failed = free_port(), "sk-loops", 0
    flags = ["--trajectories", str(work / "sessions.db"), "--replay", args.replay]
    with running_server(work, port, key, *flags, "--pace", "0") as url:
        for agent in agents.AGENTS:
            command = install.Installation(args.install.resolve()).agent(agent.name)
            if (args.names and agent.name not in args.names) or not command.exists():
                continue
            name = f"{agent.name}-{agent.protocol}"
            try:
                _run(agent, command, url, key, work / name, name)
            except Failure as failure:
                print(f"{name}: {failure}", flush=True)
                failed += 1
                continue
            failed += _report(_trajectories(url, key, name), name)
    return 1 if failed else 0


def _run(agent: Any, command: Path, url: str, key: str, work: Path, name: str) -> None:
    asked = [sys.executable, "-m", "dsv4", "serve", "--port", url.rpartition(":")[2], "--clients"]
    settings = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    settings = settings.replace(url, f"{url}/sessions/{name}")
    prompt = (
        "Please run a command several times and then report.\n"
        f"RUN: echo turn {{turn}} | tee -a ran.txt\nTURNS: {TURNS}\nSay so when it is done."
    )
    agents.events_of_run(agent, command, Printed(settings, key), work, prompt, SECONDS)
    ran = (work / "project" / "ran.txt").read_text().splitlines()
    expected = [f"turn {n}" for n in range(1, TURNS)]
    if ran != expected:
        raise Failure(f"expected {len(expected)} commands, found {ran}")


def _trajectories(url: str, key: str, name: str) -> Any:
    request = urllib.request.Request(
        f"{url}/sessions/{name}/trajectories", headers={"authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def _report(session: Any, name: str) -> int:
    """Says what a session came to. Returns 1 where its main loop is not one sequence."""
    found = session["trajectories"]
    # The calls of the main loop are those of the sequence that trains most, and all that declare
    # the same tools and are about the errand.
    loop = [
        one for one in found if sum("ran.txt" in json.dumps(t["message"]) for t in one["turns"])
    ]
    trained = sum(sum(one["loss_mask"]) for one in found)
    kinds = sorted({note["kind"] for note in session["notes"]})
    print(
        f"{name}: {session['calls']} calls, {len(found)} sequences, "
        f"the main loop in {len(loop)}, {trained} of {session['sampled_tokens']} sampled tokens "
        f"trained on, notes: {', '.join(kinds) or 'none'}",
        flush=True,
    )
    whole = trained == session["sampled_tokens"] and session["exact"] and session["complete"]
    return 0 if len(loop) == 1 and whole else 1


def _runs_the_command(turn: Any) -> bool:
    return "ran.txt" in json.dumps(turn["message"])


if __name__ == "__main__":
    sys.exit(main())

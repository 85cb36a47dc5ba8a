"""Every agent in a loop of eight turns, in a session of the gateway: is it one sequence?

    python clients/loops.py [--install FOLDER] [--replay off] [--malformed KIND] [NAME …]
    python clients/loops.py --rllm PYTHON [NAME …]

The second runs the same loops through rllm-model-gateway, of the environment of that Python, before
a stand-in for vLLM's chat route. It captures Chat Completions alone.

Agents that are not installed are left out: `make clients` installs them. A line says how many calls
an agent made, how many sequences they came to, in how many of these its main loop lies, and how
much of what was sampled is trained on. The exit status is 1 if a main loop is not one sequence.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import agents
import install
from errand import Failure
from printed import Printed
from servers import free_port, running_server, wait_for

from dsv4.trajectories import RecordedCall, TokenRun, build

SECONDS = 300


def main() -> int:
    parser = argparse.ArgumentParser(description="Run agents in loops of eight turns.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--install", type=Path, default=Path("build/clients"), metavar="FOLDER")
    parser.add_argument("--work", type=Path, metavar="FOLDER")
    parser.add_argument("--replay", default="memory", help="how the gateway replays turns")
    parser.add_argument(
        "--malformed",
        metavar="KIND",
        help="every call is malformed in this way of the demo model's, such as no-closers",
    )
    parser.add_argument("--rllm", metavar="PYTHON", help="through rllm-model-gateway instead")
    args = parser.parse_args()
    work = (args.work or Path(tempfile.mkdtemp(prefix="dsv4-loops-"))).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    key, failed = "sk-loops", 0
    with _peer(args.rllm, work) if args.rllm else _gateway(args.replay, work, key) as (url, read):
        for agent in agents.AGENTS:
            command = install.Installation(args.install.resolve()).agent(agent.name)
            if (args.names and agent.name not in args.names) or not command.exists():
                continue
            if args.rllm and agent.protocol != "chat":
                continue
            name = f"{agent.name}-{agent.protocol}"
            try:
                _run(agent, command, url, key, work / name, name, args.malformed)
            except Failure as failure:
                print(f"{name}: {failure}", flush=True)
                failed += 1
                continue
            failed += _report(read(name), name)
    return 1 if failed else 0


ReadSession: TypeAlias = Callable[[str], Any]  # what the session of a name came to


@contextmanager
def _gateway(replay: str, work: Path, key: str) -> Iterator[tuple[str, ReadSession]]:
    """`dsv4 serve` with the demo model, which records sessions."""
    flags = ["--trajectories", str(work / "sessions.db"), "--replay", replay, "--pace", "0"]
    with running_server(work, free_port(), key, *flags) as url:
        yield url, lambda name: _fetched(f"{url}/sessions/{name}/trajectories", key)


@contextmanager
def _peer(python: str, work: Path) -> Iterator[tuple[str, ReadSession]]:
    """rllm-model-gateway before a chat server. What it captured is built by the same rules."""
    server, port = free_port(), free_port()
    worker = ["--worker", f"http://127.0.0.1:{server}/v1"]
    commands = [
        [sys.executable, str(Path(__file__).parent / "chat_server.py"), str(server)],
        [python, "-m", "rllm_model_gateway", "--port", str(port), "--store", "memory", *worker],
    ]
    with ExitStack() as stack:
        log = stack.enter_context(open(work / "peer.log", "w"))
        for at, command in zip((server, port), commands, strict=True):
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            wait_for(f"http://127.0.0.1:{at}", process, work / "peer.log")
        url = f"http://127.0.0.1:{port}"
        yield url, lambda name: _built(_fetched(f"{url}/sessions/{name}/traces"))


def _built(traces: Any) -> Any:
    """The trajectories of calls that were captured elsewhere."""
    calls = [
        RecordedCall(
            str(n),
            n,
            prompt=trace["prompt_token_ids"],
            runs=(TokenRun(ids := trace["completion_token_ids"], True, [0.0] * len(ids)),),
            details={"message": trace["response_message"]},
        )
        for n, trace in enumerate(sorted(traces, key=lambda trace: trace["timestamp"]))
    ]
    session = build(calls)
    return {
        "calls": len(calls),
        "sampled_tokens": sum(len(trace["completion_token_ids"]) for trace in traces),
        "trajectories": [one.to_json() for one in session.trajectories],
        "notes": [],
        "exact": True,
        "complete": True,
    }


def _run(
    agent: Any, command: Path, url: str, key: str, work: Path, name: str, malformed: str | None
) -> None:
    asked = [sys.executable, "-m", "dsv4", "serve", "--port", url.rpartition(":")[2], "--clients"]
    settings = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    settings = settings.replace(url, f"{url}/sessions/{name}")
    agents.run_loop(agent, command, Printed(settings, key), work, SECONDS, malformed)


def _fetched(url: str, key: str = "") -> Any:
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def _report(session: Any, name: str) -> int:
    """Says what a session came to. Returns 1 where its main loop is not one sequence."""
    found = session["trajectories"]
    # A call of the main loop is one that runs the errand's command.
    loop = [one for one in found if "ran.txt" in json.dumps([t["message"] for t in one["turns"]])]
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


if __name__ == "__main__":
    sys.exit(main())

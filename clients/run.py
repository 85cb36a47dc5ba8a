"""Runs real clients against `dsv4 serve` and its demo model, in a network of loopback alone.

    python clients/run.py [--install FOLDER] [--work FOLDER] [NAME …]

What is missing of the clients is installed first. Each gets one line; the exit status is 1 if one
failed, and 2 if they cannot be run here. README.md says more.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import agents
import install
import official_loops
from errand import FIRST, NO_STORE, Failure
from printed import Printed
from servers import free_port, refusals, running_server

HERE = Path(__file__).resolve().parent
SECONDS_PER_AGENT = 300


def main() -> int:
    args = _arguments()
    if args.inside:
        _bring_loopback_up()
        return _run_all(args)
    try:
        _install(args)
    except (Failure, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    return _run_all(args) if args.with_network else _isolated()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run real clients against the demo model.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone: " + _names())
    parser.add_argument("--install", type=Path, default=Path("build/clients"), metavar="FOLDER")
    parser.add_argument("--work", type=Path, default=Path("build/clients-work"), metavar="FOLDER")
    parser.add_argument("--with-network", action="store_true", help="do not isolate them")
    parser.add_argument(
        "--heal",
        metavar="STORE",
        help="through `dsv4 heal`, without their reasoning, restarted in the middle: sqlite, "
        "redis, sealed",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.names) - set(_names().split(", ")):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {_names()}")
    args.install, args.work = args.install.resolve(), args.work.resolve()
    return args


def _names() -> str:
    return ", ".join([package.name for package in install.AGENTS] + _sdk_names())


def _sdk_names() -> list[str]:
    found = (name.partition("[")[0] for packages in install.SDKS.values() for name in packages)
    return [name for name in dict.fromkeys(found) if name != "mcp"]


# Installing.


def _install(args: argparse.Namespace) -> None:
    installation = install.Installation(args.install)
    args.install.mkdir(parents=True, exist_ok=True)
    for package in install.AGENTS:
        if not args.names or package.name in args.names:
            installation.install_agent(package)
    if not args.names or install.DSH.name in args.names:
        _try_dsh(installation)
    if not args.names or set(args.names) & set(_sdk_names()):
        for environment in install.SDKS:
            installation.install_sdks(environment)


def _try_dsh(installation: install.Installation) -> None:
    """Its requests are in the tests; a release that can be installed deserves an errand."""
    try:
        installation.install_agent(install.DSH)
        print("dsh can be installed now, and has no errand yet")
    except Failure as problem:
        print(f"dsh is not run: {problem}")


# A network of its own.


def _isolated() -> int:
    """Runs this again in a network namespace, where no client can reach a vendor."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return _cannot("unshare is missing (Linux has it, in util-linux)")
    enter = [unshare, "--map-root-user", "--net"]
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True)
    if tried.returncode:
        return _cannot(f"no network namespace can be made here: {tried.stderr.strip()}")
    return subprocess.run([*enter, sys.executable, *sys.argv, "--inside"]).returncode


def _cannot(why: str) -> int:
    print(f"{why}. `--with-network` runs the clients without isolation.", file=sys.stderr)
    return 2


def _bring_loopback_up() -> None:
    """What `ip link set lo up` does."""
    set_flags, is_up = 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", is_up))


# The server.


def _printed(port: int, key: str) -> Printed:
    """What `dsv4 serve --clients` says."""
    command = [sys.executable, "-m", "dsv4", "serve", "--port", str(port), "--clients"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Printed(done.stdout, key)


# The clients.


def _run_all(args: argparse.Namespace) -> int:
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    key = "sk-" + secrets.token_hex(12)
    port = free_port()
    with running_server(args.work, port, key, heal=args.heal) as url:
        failed = _run_agents(args, _printed(port, key)) + _run_sdks(args, url, key)
        failed += _check_healing(args, url) if args.heal else _check_server(args.work, url, key)
    if not args.heal:
        failed += official_loops.run(args.install, args.work / "official", args.names, _line)
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


def _run_agents(args: argparse.Namespace, printed: Printed) -> int:
    installation = install.Installation(args.install)
    packages = {package.name: package for package in install.AGENTS}
    failed = 0
    for agent in agents.AGENTS:
        if args.names and agent.name not in args.names:
            continue
        package = packages[agent.name]
        work = args.work / f"{agent.name}-{agent.protocol}"
        began = time.monotonic()
        try:
            agents.run(agent, installation.agent(agent.name), printed, work, SECONDS_PER_AGENT)
            failure = None
        except Failure as error:
            failure = f"{error} (see {work})"
            failed += 1
        seconds = time.monotonic() - began
        _line(f"{package.title} {package.version}", agent.protocol, seconds, failure)
    return failed


def _run_sdks(args: argparse.Namespace, url: str, key: str) -> int:
    wanted = [name for name in args.names if name in _sdk_names()]
    if args.names and not wanted:
        return 0
    installation = install.Installation(args.install)
    failed, ran = 0, set()
    environment = {"PATH": os.environ["PATH"], "HOME": str(args.work)}
    environment[FIRST] = os.environ.get(FIRST, "")
    environment[NO_STORE] = "1" if args.heal == "sealed" else ""
    for name in install.SDKS:
        command = [str(installation.python(name)), str(HERE / "sdks.py"), url, key, "deepseek-v4"]
        process = subprocess.Popen(
            [*command, *wanted], stdout=subprocess.PIPE, env=environment, text=True, cwd=args.work
        )
        assert process.stdout is not None
        for text in process.stdout:
            line = json.loads(text)
            ran.add(line["package"])
            failed += line["failure"] is not None
            title = f"{line['package']} {line['version']}"
            _line(title, line["what"], line["seconds"], line["failure"])
        failed += process.wait() != 0
    for name in set(wanted or _sdk_names()) - ran:
        _line(name, "", 0, "no check ran")
        failed += 1
    return failed


def _check_server(work: Path, url: str, key: str) -> int:
    """No request was answered with a failure of the server's, and nothing still runs."""
    failure = "; ".join(refusals(url, key, work / "metrics")) or None
    _line("the server itself", "answered every request", 0, failure)
    return int(failure is not None)


def _check_healing(args: argparse.Namespace, url: str) -> int:
    """No request was refused, and all prompts are those of a perfect client. Turns that travel with
    clients of Chat Completions do not: what they lose must be all that is lost."""
    with urllib.request.urlopen(f"{url}/__seen") as response:
        seen = json.loads(response.read())
    (args.work / "seen").write_text(json.dumps(seen, indent=2))
    wrong = [name for name in ("refused", "failures", "imperfect") if seen[name]]
    if args.heal != "sealed" and seen["unknown"]:
        wrong.append("unknown")
    failure = "; ".join(f"{name}: {seen[name]}" for name in wrong) or None
    what = f"{seen['requests']} requests, {seen['restarts']} restarts"
    _line("the API behind heal", what, 0, failure)
    return int(failure is not None)


def _line(title: str, what: str, seconds: float, failure: str | None) -> None:
    state = "ok  " if failure is None else "FAIL"
    said = "" if failure is None else f"  {failure}"
    print(f"{state} {title:<28} {what:<40} {seconds:5.1f} s{said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

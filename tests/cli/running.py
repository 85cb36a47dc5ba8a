"""Runs dsv4 as people do: as a process.

Where a test says nothing of its environment, one that has imported dsv4 already.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fork_server import AVAILABLE, ForkServer

ROOT = Path(__file__).parent.parent.parent
CONVERSATION = ROOT / "examples" / "conversation.json"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")},
    # Where these tests import it from, which may be an installed wheel.
    "PYTHONPATH": str(Path(find_spec("dsv4").origin).parent.parent),
}

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def command(*arguments: object, bare: bool = False) -> list[str]:
    """The command line. `bare` leaves out every package that is installed."""
    return [sys.executable, *(["-S"] if bare else []), "-m", "dsv4", *map(str, arguments)]


def dsv4(
    *arguments: object,
    stdin: str | bytes = b"",
    bare: bool = False,
    cwd: Path = ROOT,
    variables: Mapping[str, str] = NO_VARIABLES,
    stdout: int | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command, with more `variables`. What Python itself reads of them when it starts is
    only there in an `env`."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    if AVAILABLE and not options:
        words = [str(argument) for argument in arguments]
        return fork_server(bare).run(words, data, cwd, variables, stdout)
    pipe = subprocess.PIPE
    files = {"stdout": pipe if stdout is None else stdout, "stderr": pipe}
    options = {"env": {**ENVIRONMENT, **variables}, "cwd": cwd, "check": False, **files, **options}
    return subprocess.run(command(*arguments, bare=bare), input=data, **options)


@cache
def fork_server(bare: bool) -> ForkServer:
    return ForkServer(ENVIRONMENT, ROOT, *(["-S"] if bare else []))


def interruptible() -> None:
    """For a process that is to be stopped with Ctrl-C, where the tests run with it switched off:
    after `nohup`, in cron and on some servers."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def said(*arguments: object, **options: Any) -> Said:
    """How a command ends, and what it prints, as text."""
    done = dsv4(*arguments, **options)
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def printed(*arguments: object, **options: Any) -> str:
    """What a command that succeeds prints."""
    done = dsv4(*arguments, **options)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def refused(*arguments: object, status: int = 2, **options: Any) -> str:
    """The one line in which a command says why it could not run."""
    done = dsv4(*arguments, **options)
    complaint = done.stderr.decode()
    assert done.returncode == status, complaint
    assert complaint.startswith("dsv4"), complaint
    assert complaint.count("\n") == 1, complaint
    return complaint.rstrip("\n")


def as_json(*messages: Any, **request: Any) -> str:
    """A conversation: a request, if it has more than messages."""
    return json.dumps({"messages": messages, **request} if request else list(messages))

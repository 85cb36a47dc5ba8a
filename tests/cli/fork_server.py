"""Runs commands of dsv4 without starting Python each time: a process that has imported what they
need, and forks for each. What a command does to its process stays in that process.

Without `os.fork` (Windows) there is none, and commands are started as people start them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

CLOSED = -1
AVAILABLE = hasattr(os, "fork") and hasattr(socket, "send_fds")


class ForkServer:
    """The side of the tests: starts the server, and has it run commands, one at a time."""

    def __init__(self, environment: dict[str, str], folder: Path, *flags: str) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, *flags, __file__, str(theirs.fileno())]
        fds = (theirs.fileno(),)
        # Ends when this end of the socket is closed, at the latest with the process of the tests.
        self._process = subprocess.Popen(command, env=environment, cwd=folder, pass_fds=fds)
        theirs.close()
        self._socket = ours

    def run(
        self,
        arguments: list[str],
        stdin: bytes,
        folder: Path,
        variables: Mapping[str, str],
        stdout: int | None,
    ) -> subprocess.CompletedProcess[bytes]:
        """What `subprocess.run` returns for a command in a folder, with more variables in its
        environment. What it prints goes to `stdout` where one is given, which may be `CLOSED`."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin)
            given.seek(0)
            printed = out.fileno() if stdout in (None, CLOSED) else stdout
            fds = [given.fileno(), printed, err.fileno()]
            has_stdout = stdout != CLOSED
            data = json.dumps([str(folder), dict(variables), arguments, has_stdout]).encode()
            socket.send_fds(self._socket, [len(data).to_bytes(4, "big")], fds)
            self._socket.sendall(data)
            status = int.from_bytes(_received(self._socket, 4), "big", signed=True)
            return subprocess.CompletedProcess(arguments, status, _all_of(out), _all_of(err))


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _serve(connection: socket.socket) -> None:
    """The side of the server: until the tests close their end."""
    _import_everything()
    with suppress(EOFError, ConnectionResetError):
        while True:
            head, fds, _, _ = socket.recv_fds(connection, 4, 3)
            if not head:
                return
            head += _received(connection, 4 - len(head))
            asked = json.loads(_received(connection, int.from_bytes(head, "big")))
            child = os.fork()
            if not child:
                _become(*asked, fds, connection)
            for fd in fds:
                os.close(fd)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            connection.sendall(status.to_bytes(4, "big", signed=True))


def _import_everything() -> None:
    """What commands import, and the vocabulary as they load it for a small input, which takes half
    a second. Packages that are not installed are not there for them either."""
    import importlib

    for name in ("dsv4._cli.main", "dsv4.tokens", "dsv4.grammar", "dsv4.verify", "fastokens"):
        with suppress(ImportError):
            importlib.import_module(name)
    from dsv4.errors import Error

    with suppress(ImportError, Error):
        from dsv4.tokens import Tokenizer

        Tokenizer.load(engine="one-shot").encode_text("Hi")


def _become(
    folder: str,
    variables: Mapping[str, str],
    arguments: list[str],
    has_stdout: bool,
    fds: list[int],
    connection: socket.socket,
) -> None:
    """Runs a command in a process and a folder of its own, with its own files. Does not return."""
    import runpy

    connection.close()
    os.chdir(folder)
    os.environ.update(variables)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = _standard_files()
    if not has_stdout:  # as Python starts where the shell says `>&-`
        os.close(1)
        sys.stdout = sys.__stdout__ = None  # type: ignore[assignment, misc]
    sys.argv = ["dsv4", *arguments]
    status: Any = 0
    try:
        runpy.run_module("dsv4", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    for file in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            file.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def _standard_files() -> tuple[Any, Any, Any]:
    """As Python opens them for a process whose files are no terminals."""
    return (
        open(0, encoding="utf-8", closefd=False),
        open(1, "w", encoding="utf-8", closefd=False),
        open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False),
    )


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))

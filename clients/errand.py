"""What every client is asked to do, and how to know that it was really done.

One command is to be run, with a marker that no other run has. The shell works out the marker's last
two digits, so the text cannot be an echo of the prompt. The demo model calls the client's shell
tool, the client runs the command on this machine, and the model answers `DONE: ` and the result.
"""

from __future__ import annotations

import os
import secrets

# A variable with what to run before the command.
FIRST = "DSV4_CLIENTS_FIRST"
# A variable that says that the server keeps no answers.
NO_STORE = "DSV4_CLIENTS_NO_STORE"


class Failure(Exception):
    """What a client did not do."""


class Errand:
    """One command with a marker of its own. `file` is where the command notes that it ran."""

    def __init__(self, file: str | None = None) -> None:
        number = secrets.token_hex(4)
        self.marker = f"GATE_{number}_42"
        # What is to happen in the middle of it, if anything.
        first = os.environ.get(FIRST, "")
        self.command = f"{first}echo GATE_{number}_$((40+2))"
        if file is not None:
            self.command += f" | tee -a {file}"
        self.prompt = (
            f"Please run one command and then report.\nRUN: {self.command}\nSay so when it is done."
        )

    def check(self, results: list[str], answer: str, *, is_exact: bool = True) -> None:
        """Holds what the command wrote, one text for each time it ran, and the client's last text
        against what was asked for. Raises `Failure`.

        Some clients put lines of their own before a tool's result, and the model answers with the
        first line: then `is_exact` is false.
        """
        written = [result.strip() for result in results]
        require(written == [self.marker], f"expected one run with {self.marker}, found {written}")
        expected = f"DONE: {self.marker}" if is_exact else "DONE: "
        require(expected in answer, f"expected {expected!r} at the end, found {answer[:200]!r}")


# How many turns a loop has: one command in each but the last.
TURNS = 8


def loop_prompt(malformed: str | None = None) -> str:
    """Asks for a loop; every call is malformed in a way of the demo model's, if one is named."""
    lines = ["RUN: echo turn {turn} | tee -a ran.txt", f"TURNS: {TURNS}"]
    lines += [f"BREAK: {malformed}"] if malformed else []
    first, last = "Please run a command several times and then report.", "Say so when it is done."
    return "\n".join([first, *lines, last])


def check_loop(ran: list[str]) -> None:
    """Holds what the commands of a loop wrote against what was asked for. Raises `Failure`."""
    expected = [f"turn {n}" for n in range(1, TURNS)]
    require(ran == expected, f"expected {len(expected)} commands, found {ran}")


def require(holds: object, what: str) -> None:
    """Raises `Failure` that says `what` unless it holds."""
    if not holds:
        raise Failure(what)

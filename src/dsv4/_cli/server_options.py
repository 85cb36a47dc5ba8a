"""Options of commands that send requests to a server: its key, and permission to send them."""

from __future__ import annotations

import os
import sys

from dsv4._cli.command_output import Failure
from dsv4._inputs.input_files import os_error_reason

KEY_VARIABLE = "DSV4_VERIFY_KEY"


def server_key(paths: list[str], number: int, *, alone: bool) -> str:
    """The key of the server with this number. No key is sent to another server: the environment
    variable is used only for a single server."""
    if number < len(paths):
        key = "" if paths[number] == "-" else read_option_file(paths[number], "--key-file")
    else:
        key = os.environ.get(KEY_VARIABLE, "") if alone else ""
    key = key.strip()
    if any(not 0x20 < ord(character) < 0x7F for character in key):
        raise Failure("--key-file: found characters that no key has, expected one line")
    return key


def read_option_file(path: str, option: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = os_error_reason(error) if isinstance(error, OSError) else "not UTF-8"
        raise Failure(f"{option}: {path}: {reason}") from None


def ask_first(budget: str, yes: bool) -> None:
    """Prints the budget, and asks whether to go on. Without a terminal, `yes` is required."""
    if sys.stderr is not None:
        print(budget, file=sys.stderr)
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Failure("there is no terminal to ask whether to go on: expected --yes")
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("nothing was sent")

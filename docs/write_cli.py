"""Writes docs/cli.md from the help of all commands: python docs/write_cli.py"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dsv4.cli.main import COMMANDS, make_parser

PAGE = Path(__file__).with_name("cli.md")
HEAD = """\
# The command dsv4

Everything that the toolkit does, on files: `dsv4 COMMAND`, or `python -m dsv4 COMMAND`. This page
is what the commands say of themselves with `--help`; `python docs/write_cli.py` writes it.

Files are UTF-8. Output to a file appears there whole or not at all. Colours are for terminals:
piped output has none.
"""


def page() -> str:
    parser = make_parser(COMMANDS)
    parts = [HEAD, _block(parser.format_help())]
    for name, command in _commands(parser).items():
        parts += [f"## dsv4 {name}\n", _block(command.format_help())]
    return "\n".join(parts)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    choices = (action.choices for action in parser._actions)
    return next(dict(found) for found in choices if isinstance(found, dict))


def _block(help: str) -> str:
    return f"```text\n{help.rstrip()}\n```\n"


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"  # new Pythons colour their help
    PAGE.write_text(page(), encoding="utf-8")

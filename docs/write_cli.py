"""Writes docs/cli.md: its head, and what each command is for. python docs/write_cli.py"""

from __future__ import annotations

import argparse
import os
import textwrap
from pathlib import Path

from dsv4._cli.main import COMMANDS, make_parser

PAGE = Path(__file__).with_name("cli.md")
HEAD = Path(__file__).with_name("cli_head.txt").read_text(encoding="utf-8")
# What is said of a command before its help.
ABOUT = {
    "show": "![The prompt of a conversation in colour](show.svg)\n",
    "parse": "![A completion with its repairs marked and explained](explain.svg)\n",
    "check": (
        "![Findings, with file, place, level and kind](check.svg)\n\n"
        "[checking.md](checking.md) lists every kind of finding, with an example.\n"
    ),
    "count": "![Tokens by message and by tool, as a bar chart](count.svg)\n",
    "diff": "![Where two prompts part, and why](diff.svg)\n",
    "dataset": "[datasets.md](datasets.md) explains files, masks, resuming, memory and Ray.\n",
}


def page() -> str:
    parts = [HEAD]
    for name, command in _commands(make_parser(COMMANDS)).items():
        about = [ABOUT[name]] if name in ABOUT else []
        parts += [f"## dsv4 {name}\n", f"{command.description}\n", *about, _examples(command)]
    return "\n".join(parts)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    choices = (action.choices for action in parser._actions)
    return next(dict(found) for found in choices if isinstance(found, dict))


def _examples(command: argparse.ArgumentParser) -> str:
    """The lines under `example:` in the help. A line that goes on is not indented by help."""
    _, _, examples = (command.epilog or "").partition(":\n")
    return f"```sh\n{textwrap.dedent(examples).rstrip()}\n```\n"


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"  # new Pythons colour their help
    PAGE.write_text(page(), encoding="utf-8")

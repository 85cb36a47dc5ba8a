"""Writes docs/cli.md: its head, and the help of each command. python docs/write_cli.py"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dsv4._cli.main import COMMANDS, make_parser

PAGE = Path(__file__).with_name("cli.md")
HEAD = Path(__file__).with_name("cli_head.txt").read_text(encoding="utf-8")
# The page of a command, and a picture of what it prints.
MORE = {
    "why": "[Error messages and symptoms](errors.md)",
    "show": "![The prompt of a conversation in colour](show.svg)",
    "parse": "![A completion with its repairs marked and explained](explain.svg)",
    "decode": "[Decoding a prompt](decoding.md)",
    "check": "[Every kind of finding](checking.md)",
    "count": "![Tokens by message and by tool, as a bar chart](count.svg)",
    "diff": "![Where two prompts part, and why](diff.svg)",
    "dataset": "[Training data](datasets.md)",
    "grammar": "[Grammars](grammar.md)",
    "template": "[The chat template](template.md)",
    "serve": "[The gateway](serving.md)",
    "playground": "[The playground](playground-guide.md)",
    "heal": "[Healing](healing.md)",
    "verify": "[What a server really does](verify.md)",
    "cache": "[What breaks the cache](verify.md#what-breaks-the-cache)",
    "conform": "[Another implementation](verify.md#another-implementation-of-the-format)",
    "replay": "[Records](gateway-operations.md#records)",
    "trajectories": "[Trajectories](trajectories.md)",
}


def page() -> str:
    parts = [HEAD]
    for name, command in _commands(make_parser(COMMANDS)).items():
        more = [f"{MORE[name]}\n"] if name in MORE else []
        parts += [f"### dsv4 {name}\n", f"{command.description}\n", *more, _help(name, command)]
    return "\n".join(parts)


# Their options are those of `dsv4 serve`.
LIKE_SERVE = ("heal", "playground")


def _help(name: str, command: argparse.ArgumentParser) -> str:
    """The help as a block: usage, options and examples, without the sentence that stands above."""
    text = command.format_help().replace(f"{command.description}\n\n", "", 1)
    if name in LIKE_SERVE:
        usage, example = text.partition("\n")[0], text.rpartition("example:")[2]
        text = f"{usage}\n\nIt takes the options of dsv4 serve.\n\nexample:{example}"
    return f"```text\n{text.rstrip()}\n```\n"


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    choices = (action.choices for action in parser._actions)
    return next(dict(found) for found in choices if isinstance(found, dict))


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"  # new Pythons colour their help
    PAGE.write_text(page(), encoding="utf-8")

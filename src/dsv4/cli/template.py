"""dsv4 template"""

from __future__ import annotations

import argparse

from dsv4 import compat
from dsv4.cli.failure import DONE, Failure
from dsv4.cli.writing import write_text

HELP = "the chat template, in Jinja, for tools that take one"
EXAMPLE = "dsv4 template --output chat_template.jinja"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="OUT", help="write there in place of stdout")


def run(args: argparse.Namespace) -> int:
    template = getattr(compat, "chat_template", None)
    if template is None:
        raise Failure("this version of dsv4 has no chat template")
    write_text(args.output, template())
    return DONE

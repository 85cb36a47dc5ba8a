"""dsv4 template"""

from __future__ import annotations

import argparse

from dsv4._cli.command_options import add_output_argument
from dsv4._cli.command_output import DONE, write_text
from dsv4.compat.templates import ENGINES, TEMPLATED, chat_template

EXAMPLE = "dsv4 template --for minijinja --dialect v4.1 --output chat_template.jinja"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="engine",
        choices=ENGINES,
        default="transformers",
        help="the program that renders it (default: transformers, the only one for which the "
        "template marks what the model wrote)",
    )
    parser.add_argument(
        "--dialect", choices=TEMPLATED, default="v4", help="the release of the format (default: v4)"
    )
    add_output_argument(parser)


def run(args: argparse.Namespace) -> int:
    write_text(args.output, chat_template(args.dialect, args.engine))
    return DONE

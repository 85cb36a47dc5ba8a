"""dsv4 template"""

from __future__ import annotations

import argparse

from dsv4.cli.failure import DONE
from dsv4.cli.writing import write_text
from dsv4.compat.templates import ENGINES, TEMPLATED, chat_template

EXAMPLE = "dsv4 template --for minijinja --dialect v4.1 --output chat_template.jinja"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="engine",
        choices=ENGINES,
        default="transformers",
        help="what renders it (default: transformers); only that marks what the model wrote",
    )
    parser.add_argument("--dialect", choices=TEMPLATED, default="v4", help="default: v4")
    parser.add_argument("--output", metavar="OUT", help="write there in place of stdout")


def run(args: argparse.Namespace) -> int:
    write_text(args.output, chat_template(args.dialect, args.engine))
    return DONE

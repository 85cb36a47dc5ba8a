"""dsv4 show"""

from __future__ import annotations

import argparse
import sys

from dsv4.cli.failure import DONE, Failure
from dsv4.cli.requests import (
    add_file_argument,
    add_prompt_arguments,
    add_tokenizer_argument,
    only_request,
)
from dsv4.cli.terminal import add_color_argument, terminal_width, uses_color
from dsv4.cli.tokenizing import maybe_tokenizer
from dsv4.cli.writing import output, write_text

HELP = "the prompt in colours: what each part of it is, and how many tokens it takes"
EXAMPLE = """
dsv4 show conversation.json
dsv4 show --tools --color always conversation.json | less -R
dsv4 show --html prompt.html conversation.json
"""
PICTURE_WIDTH = 118


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    parser.add_argument("--tools", action="store_true", help="show tool schemas in full")
    parser.add_argument("--html", metavar="OUT", help="write a page, which needs no other file")
    parser.add_argument("--svg", metavar="OUT", help="write a picture")
    parser.add_argument("--width", metavar="N", type=int, help="columns (those of the terminal)")
    add_color_argument(parser)
    add_prompt_arguments(parser)
    add_tokenizer_argument(parser)


def run(args: argparse.Namespace) -> int:
    from dsv4.view.rows import view_of
    from dsv4.view.text import lines_of, painted

    if args.width is not None and args.width < 1:
        raise Failure(f"--width: found {args.width}, expected at least 1")
    request = only_request(args)
    prompt = request.encode()
    view = view_of(prompt, request.roles, maybe_tokenizer(args.tokenizer, prompt))
    if args.html is not None:
        from dsv4.view.html import page

        write_text(args.html, page(view, request.place, args.tools))
    if args.svg is not None:
        from dsv4.view.svg import picture

        width = args.width or PICTURE_WIDTH
        lines = lines_of(view, width, args.tools, signs=False)
        write_text(args.svg, picture(lines, width, f"dsv4 show {request.place}"))
    if args.html is None and args.svg is None:
        color = uses_color(args.color, sys.stdout)
        width = args.width or terminal_width()
        with output() as file:
            file.writelines(painted(lines_of(view, width, args.tools, not color), color))
    return DONE

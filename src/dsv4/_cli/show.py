"""dsv4 show"""

from __future__ import annotations

import argparse
import sys

from dsv4._cli.command_options import (
    add_color_argument,
    add_file_argument,
    add_image_size_argument,
    add_profile_argument,
    add_prompt_arguments,
    add_prompt_file_argument,
    add_tokenizer_argument,
    load_fitting_tokenizer,
    positive_integer,
)
from dsv4._cli.command_output import DONE, Failure, output, terminal_width, uses_color, write_text
from dsv4._cli.conversation_files import read_one_request
from dsv4._view.characters import terminal_safe

EXAMPLE = """
dsv4 show conversation.json
dsv4 show --line 17 --mask conversations.jsonl
dsv4 show --full --color always conversation.json | less -R
dsv4 show --html prompt.html conversation.json
"""
PICTURE_WIDTH = 118
DEFAULT_MASK = "assistant"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    add_prompt_file_argument(parser)
    add_profile_argument(parser)
    parser.add_argument(
        "--full", action="store_true", help="show tool schemas and long texts in full"
    )
    parser.add_argument(
        "--mask",
        metavar="POLICY",
        nargs="?",
        const=DEFAULT_MASK,
        help="mark what the loss mask selects in training: assistant (the default), last_turn, "
        "answers or calls",
    )
    parser.add_argument("--html", metavar="OUT", help="write a self-contained HTML page")
    parser.add_argument("--svg", metavar="OUT", help="write an SVG picture")
    parser.add_argument(
        "--width",
        metavar="N",
        type=positive_integer,
        help="width in columns (default: the terminal's)",
    )
    add_color_argument(parser)
    add_image_size_argument(parser)
    add_prompt_arguments(parser)
    add_tokenizer_argument(parser)


def run(args: argparse.Namespace) -> int:
    from dsv4._view.terminal_lines import ansi_lines, terminal_lines
    from dsv4._view.view_rows import view_of

    _resolve_mask(args)
    request = read_one_request(args)
    prompt = request.encode()
    if args.image_size is not None:
        prompt = prompt.with_image_size(*args.image_size)
    tokenizer = load_fitting_tokenizer(args.tokenizer, prompt)
    view = view_of(prompt, request.messages, tokenizer, args.mask)
    title = terminal_safe(request.place)
    if args.html is not None:
        from dsv4._view.html_page import html_page

        write_text(args.html, html_page(view, title, args.full), [args.file])
    if args.svg is not None:
        from dsv4._view.html_page import svg_picture

        width = args.width or PICTURE_WIDTH
        lines = terminal_lines(view, width, args.full, signs=False)
        write_text(args.svg, svg_picture(lines, width, f"dsv4 show {title}"), [args.file])
    if args.html is None and args.svg is None:
        color = uses_color(args.color, sys.stdout)
        width = args.width or terminal_width()
        with output() as file:
            file.writelines(ansi_lines(terminal_lines(view, width, args.full, not color), color))
    return DONE


def _resolve_mask(args: argparse.Namespace) -> None:
    """The word after --mask is a policy, or already the file: `dsv4 show --mask FILE`."""
    from dsv4.tokens.masks import POLICIES

    if args.mask is None or args.mask in POLICIES:
        return
    if args.file is not None:
        raise Failure(f'--mask: found "{args.mask}", expected one of {", ".join(POLICIES)}')
    args.mask, args.file = DEFAULT_MASK, args.mask

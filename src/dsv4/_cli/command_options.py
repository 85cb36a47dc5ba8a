"""The options that several commands share."""

from __future__ import annotations

import argparse
from typing import cast

import dsv4
from dsv4._cli.command_errors import Failure
from dsv4._format.tokens import TASK_TOKENS
from dsv4.types import DialectName

CONVERSATION_FILE = "a JSON list of messages or a Chat request"


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """One file or several."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help=f"{CONVERSATION_FILE}, or JSON lines of either; stdin (-) by default",
    )
    _add_jsonl_argument(parser)


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """One conversation."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help=f"{CONVERSATION_FILE}, or JSON lines of either; stdin (-) by default",
    )
    _add_jsonl_argument(parser)
    parser.add_argument(
        "--line",
        metavar="N",
        type=positive_integer,
        help="the line to read from a file of JSON lines",
    )


def _add_jsonl_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="read one conversation per line (default: detected automatically; always for .jsonl)",
    )


def add_prompt_file_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompt", action="store_true", help="the file holds a finished prompt, as text"
    )


def positive_integer(text: str) -> int:
    """The type of an option that takes a whole number from 1 on."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"found {text}, expected a whole number from 1 on")
    return int(text)


def add_prompt_arguments(parser: argparse.ArgumentParser) -> None:
    """How a conversation is encoded. An option overrides what the request says."""
    add_mode_argument(parser)
    parser.add_argument("--effort", metavar="EFFORT", help="reasoning effort, such as high or max")
    add_dialect_arguments(parser)
    parser.add_argument(
        "--tools",
        metavar="FILE",
        help="take the tools from this file: a JSON list of tools, or a request with tools",
    )
    parser.add_argument(
        "--keep-thinking",
        action="store_true",
        help="keep the reasoning of earlier turns (default: drop it, as the format does)",
    )
    parser.add_argument("--task", choices=tuple(TASK_TOKENS), help="add a task to the last message")
    parser.add_argument("--no-bos", action="store_true", help="leave out the BOS token")


def add_mode_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode",
        choices=("thinking", "chat"),
        help="with reasoning (thinking, the default) or without (chat)",
    )


def add_dialect_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--dialect",
        choices=tuple(dsv4.DIALECTS),
        help="the release of the format (default: detected from the request's model, else v4)",
    )
    group.add_argument("--model", metavar="NAME", help="choose the dialect by a model's name")


def add_tokenizer_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        help="a tokenizer.json or a checkpoint folder (default: the bundled V4 vocabulary)",
    )


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="write to this file (default: stdout)"
    )


def dialect_option(args: argparse.Namespace) -> DialectName | None:
    """The dialect that the options name."""
    named: DialectName | None = args.dialect
    if args.model is None:
        return named
    try:
        return cast("DialectName", dsv4.dialect_for(args.model).name)
    except dsv4.UnknownModel as error:
        raise Failure(f"--model: {getattr(error, 'problem', error)}") from None


def check_profile(name: str | None) -> None:
    """Raises where an option names a server that is not known."""
    from dsv4.profiles.profile import profile_named

    try:
        if name is not None:
            profile_named(name)
    except dsv4.Error as error:
        raise Failure(f"--{error}") from None


def add_color_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="when to use colour: auto (the default) means on terminals, unless NO_COLOR is set",
    )

"""The arguments that several commands share, and what they stand for: dialects, efforts, outputs,
the tokenizer.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import dsv4
from dsv4._cli.command_output import FINDINGS, Failure
from dsv4._format.tokens import TASK_TOKENS
from dsv4._inputs.input_files import os_error_reason
from dsv4.types import DialectName

if TYPE_CHECKING:
    from dsv4.profiles import Profile
    from dsv4.tokens import Tokenizer


# The options that several commands share.


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
        "--as",
        dest="rules",
        choices=("released", "body"),
        help="whose rules a conversation is read by: the released encoder's, or those of a server "
        "that gets it as a request (default: by its fields)",
    )
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


def image_size(text: str) -> tuple[int, int]:
    """1920x1080"""
    width, _, height = text.lower().replace("×", "x").partition("x")
    if width.isdecimal() and height.isdecimal() and int(width) and int(height):
        return int(width), int(height)
    raise argparse.ArgumentTypeError(f'found "{text}", expected a size such as 1920x1080')


def add_image_size_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image-size",
        type=image_size,
        metavar="WIDTHxHEIGHT",
        help="the size of images that are not in the file, such as 1920x1080",
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


def profile_option(name: str) -> Profile:
    """The server that an option names: a profile, or a file that `dsv4 verify --save` wrote.

    Raises where it is neither.
    """
    from dsv4.profiles.profile import profile_named
    from dsv4.profiles.saved_profile import load

    try:
        return load(name) if name.endswith(".json") else profile_named(name)
    except OSError as error:
        raise Failure(f"--profile: {name}: {os_error_reason(error)}") from None
    except dsv4.Error as error:
        raise Failure(f"--{error}") from None


def add_profile_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile",
        metavar="SERVER",
        help="take the prompt that this server writes: a profile, or a file of dsv4 verify --save",
    )


def add_color_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="when to use colour: auto (the default) means on terminals, unless NO_COLOR is set",
    )


# The tokenizer of a command: optional, and with errors that name the file or the conversation.


# For larger inputs, the faster engine is worth the time it takes to load.
LARGE_INPUT = 1_000_000


def load_tokenizer(path: str | None = None, inputs: Iterable[str | None] = ()) -> Tokenizer:
    """The tokenizer of the bundled vocabulary, or of a file or folder, for what is to be read."""
    from dsv4.tokens import Tokenizer

    engine = "auto" if sum(map(_file_size, inputs)) > LARGE_INPUT else "one-shot"
    try:
        with vocabulary_errors():
            return Tokenizer.load(path, engine)
    except (OSError, UnicodeDecodeError) as error:
        problem = os_error_reason(error) if isinstance(error, OSError) else "not UTF-8"
        raise Failure(f"{path}: {problem}") from None


def _file_size(path: str | None) -> int:
    try:
        return 0 if path is None else os.stat(path).st_size
    except OSError:
        return 0


@contextmanager
def vocabulary_errors() -> Iterator[None]:
    """A vocabulary that is missing, or lacks a token, is no fault of the conversation's."""
    from dsv4.tokens.vocabulary import VocabularyError

    try:
        yield
    except VocabularyError as error:
        hint = "give the tokenizer.json of a model of this dialect with --tokenizer"
        raise Failure(f"{error}; {hint}" if "does not fit" in str(error) else str(error)) from None


@contextmanager
def tokenizer_errors_at(place: str) -> Iterator[None]:
    """Adds the place to errors of the tokenizer."""
    try:
        with vocabulary_errors():
            yield
    except Failure as failure:
        raise Failure(f"{place}: {failure}", failure.status) from None
    except dsv4.Error as error:
        raise Failure(f"{place}: {error}", FINDINGS) from None


def load_fitting_tokenizer(path: str | None, prompt: dsv4.Prompt) -> Tokenizer | None:
    """The tokenizer that was asked for; else the bundled one, if it is there and fits."""
    try:
        tokenizer = load_tokenizer(path)
        with vocabulary_errors():
            tokenizer.encode(prompt)
    except Failure:
        if path is not None:
            raise
        return None
    return tokenizer

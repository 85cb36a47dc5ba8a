"""Conversations as files give them, and the options that all commands on prompts have.

A file holds a list of messages or a Chat request, or one of these on each line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dsv4
from dsv4._format.tokens import TASK_TOKENS
from dsv4._inputs.input_files import InputError, error_location, input_name
from dsv4._inputs.request_bodies import RequestOverrides, request_of, role_of
from dsv4.cli.failure import FINDINGS, MISUSE, Failure
from dsv4.cli.reading import Document, read_documents, read_json, read_text

CONVERSATION = "a JSON list of messages or a Chat request"


@dataclass(frozen=True)
class Placed:
    """A request, and where it stands. `overrides` were applied to it."""

    place: str
    request: dsv4.Request
    overrides: RequestOverrides

    @property
    def messages(self) -> Sequence[Any]:
        return list(self.request.messages)

    @property
    def roles(self) -> list[str]:
        return list(map(role_of, self.messages))

    def encode(self) -> dsv4.Prompt:
        """The prompt. An error says in which file, or line, the place is."""
        try:
            return self.request.encode()
        except dsv4.Error as error:
            raise refusal(error, self.place, self.overrides) from None


def refusal(error: dsv4.Error, place: str, overrides: RequestOverrides) -> Failure:
    """An error with its place. It is misuse if an option is wrong, and not the conversation."""
    option = next(iter(error_location(error)), None)
    is_option = getattr(overrides, str(option), None) is not None
    return Failure(f"{place}: {error}", MISUSE if is_option else FINDINGS)


# The options.


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """One file or several."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help=f"{CONVERSATION}, or JSON lines of either; stdin (-) by default",
    )
    _add_jsonl_argument(parser)


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """One conversation."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help=f"{CONVERSATION}, or JSON lines of either; stdin (-) by default",
    )
    _add_jsonl_argument(parser)
    parser.add_argument(
        "--line", metavar="N", type=positive, help="the line to read from a file of JSON lines"
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


def positive(text: str) -> int:
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


def dialect_of(args: argparse.Namespace) -> str | None:
    """The dialect that the options name."""
    if args.model is None:
        return args.dialect  # type: ignore[no-any-return]
    try:
        return str(dsv4.dialect_for(args.model))
    except dsv4.UnknownModel as error:
        raise Failure(f"--model: {getattr(error, 'problem', error)}") from None


def overrides_of(args: argparse.Namespace) -> RequestOverrides:
    """What the options say of every conversation."""
    effort = args.effort
    return RequestOverrides(
        thinking=None if args.mode is None else args.mode == "thinking",
        effort=int(effort) if effort is not None and effort.isdecimal() else effort,
        dialect=dialect_of(args),
        tools=None if args.tools is None else tools_in(args.tools),
        drop_thinking=False if args.keep_thinking else None,
        bos=False if args.no_bos else None,
        task=args.task,
    )


def tools_in(path: str) -> list[Any]:
    """The tools of a file: a list of them, or a request that has one."""
    value = read_json(path)
    tools = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(tools, list):
        raise Failure(f"{path}: expected a list of tools, or a request that has one")
    return tools


# Reading.


def paths_of(args: argparse.Namespace) -> list[str]:
    """The files to read, in their order."""
    if args.files.count("-") > 1:
        raise Failure("found stdin (-) twice, expected it once at most")
    return args.files or ["-"]


def documents(args: argparse.Namespace) -> Iterator[Document]:
    """The JSON values of all files."""
    for path in paths_of(args):
        yield from read_documents(path, args.jsonl)


def requests(args: argparse.Namespace) -> Iterator[Placed]:
    """The conversations of all files, with the options applied."""
    if getattr(args, "prompt", False):
        yield from (decoded_prompt(args, path) for path in args.files or ["-"])
        return
    overrides = overrides_of(args)
    for document in documents(args):
        yield placed(document, overrides)


def decoded_prompt(args: argparse.Namespace, path: str | None) -> Placed:
    """The request that writes the prompt in a file. Options that change it have no place."""
    for option in ("mode", "effort", "keep_thinking", "task", "no_bos"):
        if getattr(args, option):
            name = option.replace("_", "-")
            raise Failure(f"--{name}: found it with --prompt, which says it all itself")
    name, text = input_name(path), read_text(path)
    decoded = dsv4.decode(text, dialect=dialect_of(args))
    if not decoded.exact:
        print(f"dsv4: {name}: {decoded.notes[-1].text}", file=sys.stderr)
    return Placed(name, decoded.request, overrides_of(args))


def placed(document: Document, overrides: RequestOverrides) -> Placed:
    """What a JSON value asks for, with the options applied."""
    if document.problem is not None:
        raise document.problem
    try:
        request = overrides.on(request_of(document.value))
    except InputError as error:
        raise InputError(f"{document.place}: {error}") from None
    except dsv4.Error as error:
        raise refusal(error, document.place, overrides) from None
    return Placed(document.place, request, overrides)


def only_request(args: argparse.Namespace) -> Placed:
    """The one conversation of a file, or that of the line which was asked for."""
    if getattr(args, "prompt", False):
        return decoded_prompt(args, args.file)
    name, line = input_name(args.file), getattr(args, "line", None)
    found = list(_few(read_documents(args.file, args.jsonl or line is not None), line))
    if not found and line is not None:
        raise Failure(f"--line: {name} has no conversation in line {line}")
    if not found:
        raise Failure(f"{name}: found no conversation, expected one")
    if len(found) > 1 and found[0].problem is None:
        hint = ": choose one with --line N" if hasattr(args, "line") else ""
        raise Failure(f"{name}: found several conversations, expected one{hint}")
    return placed(found[0], overrides_of(args))


def _few(read: Iterator[Document], line: int | None) -> Iterator[Document]:
    """The document of a line; without one, the first two, which is enough to know."""
    if line is not None:
        yield from (document for document in read if document.place.endswith(f":{line}"))
        return
    for _ in range(2):
        document = next(read, None)
        if document is not None:
            yield document


def check_profile(name: str | None) -> None:
    """Raises where an option names a server that is not known."""
    from dsv4.profiles.profile import profile_named

    try:
        if name is not None:
            profile_named(name)
    except dsv4.Error as error:
        raise Failure(f"--{error}") from None

"""Conversations as files give them, and the options that all commands on prompts have.

A file holds a list of messages, or a request in OpenAI's form; or lines of these.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import dsv4
from dsv4.cli.failure import FINDINGS, Failure
from dsv4.cli.reading import Document, read_documents
from dsv4.format.tokens import TASK_TOKENS
from dsv4.reading.bodies import Overrides, request_of, role_of
from dsv4.reading.failures import InputError


@dataclass(frozen=True)
class Placed:
    """A request, and where it stands."""

    place: str
    request: dsv4.Request

    @property
    def roles(self) -> list[str]:
        return list(map(role_of, self.request.messages))

    def encode(self) -> dsv4.Prompt:
        """The prompt. An error says in which file, or line, the place is."""
        try:
            return self.request.encode()
        except (dsv4.EncodeError, dsv4.OptionError) as error:
            raise Failure(f"{self.place}: {error}", FINDINGS) from None


# The options.


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a JSON list of messages, a request in OpenAI's form, or lines of either; "
        "stdin where there is none or it is -",
    )
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="the file has one conversation a line (found out where it is not said)",
    )


def add_prompt_arguments(parser: argparse.ArgumentParser) -> None:
    """How a conversation is encoded. What is given here goes before what the request says."""
    parser.add_argument(
        "--mode", choices=("thinking", "chat"), help="with reasoning (the default) or without"
    )
    parser.add_argument(
        "--effort", metavar="EFFORT", help="reasoning effort: high, max, … as the dialect has them"
    )
    add_dialect_arguments(parser)
    parser.add_argument(
        "--keep-thinking",
        action="store_true",
        help="keep the reasoning of earlier turns, which is dropped otherwise",
    )
    parser.add_argument("--task", choices=tuple(TASK_TOKENS), help="a task for the last message")
    parser.add_argument("--no-bos", action="store_true", help="leave out the BOS token")


def add_dialect_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--dialect", choices=tuple(dsv4.DIALECTS), help="the release of the format")
    group.add_argument("--model", metavar="NAME", help="take the dialect of the model of this name")


def add_tokenizer_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        help="a tokenizer.json, or the folder of a checkpoint, in place of the bundled vocabulary",
    )


def dialect_of(args: argparse.Namespace) -> str | None:
    """The dialect that the options name."""
    if args.model is None:
        return args.dialect  # type: ignore[no-any-return]
    try:
        return str(dsv4.dialect_for(args.model))
    except dsv4.UnknownModel as error:
        raise Failure(f"--model: {error.problem}") from None


def overrides_of(args: argparse.Namespace) -> Overrides:
    """What the options say of every conversation."""
    effort = args.effort
    return Overrides(
        thinking=None if args.mode is None else args.mode == "thinking",
        effort=int(effort) if effort is not None and effort.isdecimal() else effort,
        dialect=dialect_of(args),
        drop_thinking=False if args.keep_thinking else None,
        bos=False if args.no_bos else None,
        task=args.task,
    )


# Reading.


def requests(args: argparse.Namespace) -> Iterator[Placed]:
    """The conversations of the file, with the options applied."""
    overrides = overrides_of(args)
    for document in read_documents(args.file, args.jsonl):
        yield placed(document, overrides)


def placed(document: Document, overrides: Overrides) -> Placed:
    """What a JSON value asks for, with the options applied."""
    try:
        return Placed(document.place, overrides.on(request_of(document.value)))
    except InputError as error:
        raise InputError(f"{document.place}: {error}") from None
    except dsv4.Error as error:
        raise Failure(f"{document.place}: {error}", FINDINGS) from None


def only_request(args: argparse.Namespace) -> Placed:
    """The one conversation of the file."""
    found = requests(args)
    first = next(found, None)
    if first is None:
        raise Failure("found no conversation, expected one")
    if next(found, None) is not None:
        raise Failure(f"{first.place}: found several conversations, expected one")
    return first

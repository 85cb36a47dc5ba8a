"""Conversations as files give them, and the options that all commands on prompts have.

A file holds a list of messages, or a request in OpenAI's form; or lines of these.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dsv4
from dsv4.cli.failure import FINDINGS, Failure
from dsv4.cli.reading import Document, read_documents
from dsv4.errors import shown

TASKS = ("action", "query", "authority", "domain", "title", "read_url")
_TASKED_ROLES = ("user", "developer", "assistant")


@dataclass(frozen=True)
class Request:
    """A conversation with its options, and where it stands."""

    place: str
    messages: Any
    tools: Any = None
    response_format: Any = None
    thinking: bool = True
    effort: Any = None
    drop_thinking: bool = True
    bos: bool = True
    dialect: str = "v4"

    def encode(self) -> dsv4.Prompt:
        """The prompt. An error says in which file, or line, the place is."""
        try:
            return self.encode_as_is()
        except (dsv4.EncodeError, dsv4.OptionError) as error:
            raise Failure(f"{self.place}: {error}", FINDINGS) from None

    def encode_as_is(self) -> dsv4.Prompt:
        return dsv4.encode(self.messages, **self.encode_options())

    def encode_options(self) -> dict[str, Any]:
        return {
            "tools": self.tools,
            "response_format": self.response_format,
            "thinking": self.thinking,
            "effort": self.effort,
            "drop_thinking": self.drop_thinking,
            "bos": self.bos,
            "dialect": self.dialect,
        }


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
    parser.add_argument("--task", choices=TASKS, help="a task for the last message")
    parser.add_argument("--no-bos", action="store_true", help="leave out the BOS token")


def add_dialect_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--dialect", choices=("v4", "v4-0731", "v4.1"), help="the release of the format"
    )
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


# Reading.


def requests(args: argparse.Namespace) -> Iterator[Request]:
    """The conversations of the file, with the options applied."""
    for document in read_documents(args.file, args.jsonl):
        yield with_options(request_in(document), args)


def only_request(args: argparse.Namespace) -> Request:
    """The one conversation of the file."""
    found = requests(args)
    first = next(found, None)
    if first is None:
        raise Failure("found no conversation, expected one")
    if next(found, None) is not None:
        raise Failure(f"{first.place}: found several conversations, expected one")
    return first


def request_in(document: Document) -> Request:
    """What a JSON value asks for."""
    place, value = document
    if isinstance(value, list):
        return Request(place, value)
    if not isinstance(value, dict):
        found = f"found {shown(value)}, expected a list of messages or a request"
        raise Failure(f"{place}: {found}")
    if "messages" not in value:
        hint = ": put the messages in a list" if "role" in value else ""
        raise Failure(f'{place}: found an object without "messages"{hint}')
    return Request(
        place,
        value["messages"],
        tools=value.get("tools"),
        response_format=value.get("response_format"),
        thinking=_thinking(value.get("thinking"), place),
        effort=value.get("reasoning_effort"),
        dialect=_dialect_of_model(value.get("model")),
    )


def _thinking(value: Any, place: str) -> bool:
    """OpenAI-like servers take a flag, or `{"type": "enabled"}`."""
    kind = value.get("type") if isinstance(value, dict) else value
    known = {"enabled": True, "disabled": False}
    if kind is None or isinstance(kind, bool):
        return kind is not False
    if isinstance(kind, str) and kind in known:
        return known[kind]
    expected = 'true, false or {"type": "enabled" | "disabled"}'
    raise Failure(f"{place}: thinking: found {shown(value)}, expected {expected}")


def _dialect_of_model(model: Any) -> str:
    """Requests name a model. Most names that servers give it tell nothing, and are no error."""
    try:
        return str(dsv4.dialect_for(model))
    except dsv4.UnknownModel:
        return "v4"


def with_options(request: Request, args: argparse.Namespace) -> Request:
    """The request as the options want it."""
    changes: dict[str, Any] = {}
    if args.mode is not None:
        changes["thinking"] = args.mode == "thinking"
    if args.effort is not None:
        changes["effort"] = int(args.effort) if args.effort.isdecimal() else args.effort
    if (dialect := dialect_of(args)) is not None:
        changes["dialect"] = dialect
    if args.task is not None:
        changes["messages"] = _with_task(request, args.task)
    changes["drop_thinking"] = not args.keep_thinking
    changes["bos"] = not args.no_bos
    return replace(request, **changes)


def _with_task(request: Request, task: str) -> Sequence[Any]:
    """The messages with a task on the last, which must be one that can carry it."""
    messages = request.messages
    last = messages[-1] if isinstance(messages, list) and messages else None
    role = role_of(last)
    if last is None or role not in _TASKED_ROLES:
        expected = f"a last message of {' or '.join(_TASKED_ROLES)}"
        raise Failure(f"{request.place}: --task: found {shown(role)}, expected {expected}")
    if role == "user" and len(messages) > 1 and role_of(messages[-2]) in ("user", "tool"):
        problem = "the last message joins the turn before it, where its task would be lost"
        raise Failure(f"{request.place}: --task: {problem}")
    return [*messages[:-1], {**last, "task": task}]


def role_of(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None

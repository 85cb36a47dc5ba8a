"""dsv4 diff"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dsv4._view.characters import terminal_safe
from dsv4.cli import diff_profiles
from dsv4.cli.failure import DONE, FINDINGS, Failure
from dsv4.cli.requests import Placed, add_prompt_arguments, add_tokenizer_argument, only_request
from dsv4.cli.terminal import Paint, add_color_argument
from dsv4.cli.tokenizing import load_tokenizer, tokenizing
from dsv4.cli.writing import json_text, output

if TYPE_CHECKING:
    from dsv4.tokens import Difference, Tokenizer

EXAMPLE = """
dsv4 diff turn-1.json turn-2.json
dsv4 diff --keep-thinking turn-1.json turn-2.json
dsv4 diff --profile vllm-0.32 --profile deepseek-api request.json
"""
# How many tokens are shown around the place where prompts part.
CONTEXT = 10
EXCERPT = 16
ENDS = "(ends)"
REACHES_OVER = "the last token of A takes in text that follows in B"
SPELLED = "one has a special token where the other has text that spells it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "a", metavar="A", help="a conversation (JSON, or JSON lines with one conversation)"
    )
    parser.add_argument("b", metavar="B", nargs="?", help="a conversation that should continue A")
    parser.add_argument(
        "--profile",
        metavar="NAME",
        action="append",
        help="given twice, with A alone: what two servers make of one request, and why they differ",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_prompt_arguments(parser)
    add_tokenizer_argument(parser)
    add_color_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Status 0 if B starts with all of A."""
    if args.profile:
        return diff_profiles.run(args)
    if args.b is None:
        raise Failure("found one conversation, expected two")
    if args.a == args.b == "-":
        raise Failure("found stdin twice, expected two conversations")
    tokenizer = load_tokenizer(args.tokenizer, (args.a, args.b))
    parting = parting_of(_request(args, args.a), _request(args, args.b), tokenizer)
    text = _json(parting) if args.json else "\n".join(_shown(parting, Paint(args.color)))
    with output() as file:
        file.write(f"{text}\n")
    return DONE if parting.is_prefix else FINDINGS


def _request(args: argparse.Namespace, path: str) -> Placed:
    return only_request(argparse.Namespace(**vars(args), file=path, jsonl=False))


@dataclass(frozen=True)
class Side:
    """One of the prompts: its size, and the text from where the other has something else."""

    place: str
    tokens: int
    characters: int
    rest: str


@dataclass(frozen=True)
class Parting:
    """How much two prompts have in common from the start, and what ends it.

    `message` and `field` are where A's first token of its own is; None where it has none.
    """

    a: Side
    b: Side
    tokens: int
    characters: int
    before: str
    message: int | None = None
    field: str | None = None
    cause: str | None = None

    @property
    def is_prefix(self) -> bool:
        return self.cause is None


def parting_of(a: Placed, b: Placed, tokenizer: Tokenizer) -> Parting:
    from dsv4.tokens import why_not_prefix

    first, second = a.encode(), b.encode()
    with tokenizing(f"{a.place}, {b.place}"):
        difference = why_not_prefix(first, second, tokenizer)
        ids, other_ids = tokenizer.encode(first), tokenizer.encode(second)
    token = len(ids) if difference is None else difference.token
    characters = _same_start(str(first), str(second))
    parting = Parting(
        Side(a.place, len(ids), len(first), _excerpt(tokenizer, ids, token)),
        Side(b.place, len(other_ids), len(second), _excerpt(tokenizer, other_ids, token)),
        token,
        characters,
        tokenizer.decode(ids[max(0, token - CONTEXT) : token]),
    )
    if difference is None:
        return parting
    cause = _true_cause(difference.cause, why_not_prefix(second, first, tokenizer))
    if characters == len(first):
        added = tokenizer.vocabulary.added.values()
        spelled = any(id in added for id in (*ids[token:][:1], *other_ids[token:][:1]))
        cause = SPELLED if spelled else REACHES_OVER
    return replace(parting, message=difference.message, field=difference.field, cause=cause)


def _true_cause(cause: str, reverse: Difference | None) -> str:
    """The cause, where A may be the later one of the two: what B leaves, A has rewritten."""
    from dsv4.tokens.prefix_difference import DROPPED, VANISHED

    if reverse is not None and reverse.cause in (DROPPED, VANISHED) and cause != reverse.cause:
        return f"{reverse.cause}: A is the later conversation"
    return cause


def _excerpt(tokenizer: Tokenizer, ids: list[int], start: int) -> str:
    return tokenizer.decode(ids[start : start + EXCERPT])


def _same_start(a: str, b: str) -> int:
    parts = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(parts, min(len(a), len(b)))


# What is printed.


def _json(parting: Parting) -> str:
    return json_text({"prefix": parting.is_prefix, **asdict(parting)})


def _tokens(count: int) -> str:
    return f"{count:,} token{'s' * (count != 1)}"


def _shown(parting: Parting, paint: Paint) -> Iterator[str]:
    for name, side in (("A", parting.a), ("B", parting.b)):
        size = f"{_tokens(side.tokens)}, {side.characters:,} characters"
        yield f"{paint(name, 'bold')}  {terminal_safe(side.place)}: {size}"
    yield ""
    if parting.is_prefix:
        yield paint(_going_on(parting), "green")
        return
    shared = f"{_tokens(parting.tokens)}, {parting.characters:,} characters"
    owner = "" if parting.message is None else f"messages[{parting.message}]."
    yield f"They part after {shared}, in {owner}{parting.field}:"
    yield paint(str(parting.cause), "yellow")
    yield ""
    yield f"both  {paint(terminal_safe(parting.before), 'dim')}"
    yield f"A     {paint(terminal_safe(parting.a.rest) or ENDS, 'red')}"
    yield f"B     {paint(terminal_safe(parting.b.rest) or ENDS, 'green')}"


def _going_on(parting: Parting) -> str:
    new = parting.b.tokens - parting.a.tokens
    return f"B goes on where A ends, with {_tokens(new)} more." if new else "A and B are the same."

"""dsv4 diff --profile A --profile B: what two servers make of one request."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dsv4
from dsv4._view.characters import terminal_safe
from dsv4.cli.failure import DONE, FINDINGS, Failure
from dsv4.cli.reading import Document, read_documents
from dsv4.cli.requests import check_profile, dialect_of
from dsv4.cli.terminal import Paint
from dsv4.cli.writing import json_text, output

if TYPE_CHECKING:
    from dsv4.profiles import Comparison, Side

# How many characters are shown around the place where prompts part.
CONTEXT = 60
EXCERPT = 100
ENDS = "(ends)"
# Options of dsv4 alone: no server takes them.
_OURS = ("mode", "effort", "tools", "keep_thinking", "task", "no_bos", "tokenizer")


def run(args: argparse.Namespace) -> int:
    """Status 0 if both servers write the same prompt."""
    from dsv4.profiles import compare

    if len(args.profile) != 2 or args.b is not None:
        raise Failure("--profile: expected it twice, with one request")
    for option in _OURS:
        if getattr(args, option):
            raise Failure(f"--{option.replace('_', '-')}: found it with --profile, expected it not")
    for name in args.profile:
        check_profile(name)
    document = _only(args.a)
    compared = compare(document.value, *args.profile, dialect=_dialect(args, document.value))
    text = _json(compared) if args.json else "\n".join(_shown(compared, Paint(args.color)))
    with output() as file:
        file.write(f"{text}\n")
    return DONE if compared.same else FINDINGS


def _only(path: str) -> Document:
    documents = list(read_documents(path))
    if len(documents) != 1:
        raise Failure(f"{path}: found {len(documents)} requests, expected one")
    if documents[0].problem is not None:
        raise documents[0].problem
    return documents[0]


def _dialect(args: argparse.Namespace, body: Any) -> str:
    """V4 or V4.1, from the options, or else from the request's model."""
    dialect = dialect_of(args)
    if dialect is None and isinstance(body, dict):
        try:
            dialect = str(dsv4.dialect_for(body.get("model")))  # type: ignore[arg-type]
        except dsv4.UnknownModel:
            dialect = None
    return "v4" if dialect in (None, "v4-0731") else str(dialect)


def _json(compared: Comparison) -> str:
    sides = {
        name: {
            "profile": side.profile.name,
            "verified": side.profile.verified,
            "prompt": side.prompt,
            "error": None if side.error is None else str(side.error),
        }
        for name, side in (("a", compared.first), ("b", compared.second))
    }
    reasons = [
        {"kind": reason.kind, "location": list(reason.location), "message": reason.message}
        for reason in compared.reasons
    ]
    found = {"same": compared.same, **sides, "characters": compared.shared, "reasons": reasons}
    return json_text(found)


def _shown(compared: Comparison, paint: Paint) -> Iterator[str]:
    sides = (("A", compared.first, "red"), ("B", compared.second, "green"))
    for name, side, _ in sides:
        yield f"{paint(name, 'bold')}  {side.profile.server}: {_size(side)}"
    yield ""
    if compared.same:
        yield paint("A and B write the same prompt.", "green")
        return
    for reason in compared.reasons:
        yield f"- {paint(reason.kind, 'yellow')}{_place(reason.location)}: {reason.message}"
    prompts = [side.prompt for _, side, _ in sides]
    if None in prompts:
        return
    at = compared.shared
    yield ""
    yield f"They part after {at:,} characters:"
    yield f"both  {paint(terminal_safe(str(prompts[0])[max(0, at - CONTEXT) : at]), 'dim')}"
    for name, side, color in sides:
        yield f"{name}     {paint(terminal_safe(str(side.prompt)[at : at + EXCERPT]) or ENDS, color)}"


def _size(side: Side) -> str:
    return "refused" if side.prompt is None else f"{len(side.prompt):,} characters"


def _place(location: tuple[str | int, ...]) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location]
    return f" ({''.join(steps).removeprefix('.')})" if steps else ""

"""dsv4 decode"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from dsv4._cli.command_options import (
    add_dialect_arguments,
    add_tokenizer_argument,
    dialect_option,
    load_tokenizer,
)
from dsv4._cli.command_output import DONE, FINDINGS, Failure, json_text, output
from dsv4._cli.conversation_files import hint_at_json, read_text
from dsv4._inputs.input_files import input_name
from dsv4.api.own_bodies import body_of_request

if TYPE_CHECKING:
    from dsv4._decode import Decoded


EXAMPLE = """
dsv4 decode prompt.txt > request.json
dsv4 encode request.json | dsv4 decode --notes
dsv4 decode --ids ids.json
grep 'Received request' vllm.log | head -1 | dsv4 decode --unescape
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="a prompt; stdin (-) by default")
    parser.add_argument(
        "--ids",
        action="store_true",
        help="the file holds token ids, as a JSON list; with ids, special tokens are told apart "
        "from text that only spells them",
    )
    parser.add_argument(
        "--unescape",
        action="store_true",
        help="the file holds a prompt as a log or Python's repr shows it: take the string that "
        "begins with BOS, or the whole text, and replace escapes such as \\n",
    )
    parser.add_argument(
        "--notes",
        action="store_true",
        help="also print to stderr what the prompt leaves open, and what was assumed",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the request, notes and dialects as one line of JSON",
    )
    parser.add_argument(
        "--strict", action="store_true", help="fail if no request gives exactly this prompt"
    )
    add_dialect_arguments(parser)
    add_tokenizer_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Status 0 if the request writes the very prompt."""
    from dsv4._decode import decode
    from dsv4._decode.request_search import unescaped_prompt
    from dsv4.errors import ParseError

    dialect = dialect_option(args)
    prompt: Any = read_text(args.file)
    if not args.ids:
        hint_at_json(prompt, args.file, "the text of a prompt")
    if args.unescape:
        prompt = unescaped_prompt(prompt.strip())
    if args.ids:
        prompt = load_tokenizer(args.tokenizer).prompt(_ids(args.file, prompt), dialect=dialect)
    try:
        decoded = decode(prompt, dialect=dialect, strict=args.strict)
    except ParseError as error:
        raise Failure(f"{input_name(args.file)}: {error}", FINDINGS) from None
    with output() as file:
        file.write(_decoded_text(decoded, args.json) + "\n")
    if args.notes:
        for note in decoded.notes:
            place = "" if note.message is None else f" messages[{note.message}]"
            print(f"{note.start}-{note.end}{place}: {note.kind}: {note.text}", file=sys.stderr)
    elif not decoded.exact:
        print(f"dsv4: {input_name(args.file)}: {decoded.notes[-1].text}", file=sys.stderr)
    return DONE if decoded.exact else FINDINGS


def _ids(path: str | None, text: str) -> Any:
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError):
        ids = None
    if not isinstance(ids, list):
        raise Failure(f"{input_name(path)}: expected token ids, a JSON list")
    return ids


def _decoded_text(decoded: Decoded, whole: bool) -> str:
    body = body_of_request(decoded.request, decoded.dialects[0])
    if not whole:
        return json_text(body, indent=2)
    notes = [note._asdict() for note in decoded.notes]
    found = {"exact": decoded.exact, "dialects": list(decoded.dialects), "notes": notes}
    return json_text({"request": body, **found})

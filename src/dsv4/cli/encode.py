"""dsv4 encode"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from dsv4.cli.failure import DONE
from dsv4.cli.requests import (
    Placed,
    add_file_argument,
    add_prompt_arguments,
    add_tokenizer_argument,
    requests,
)
from dsv4.cli.tokenizing import load_tokenizer, vocabulary_must_fit
from dsv4.cli.writing import output
from dsv4.reading.files import name_of

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer

HELP = "the exact prompt of a conversation"
EXAMPLE = """
dsv4 encode conversation.json
dsv4 encode --mode chat --ids conversation.json
dsv4 encode --json requests.jsonl > prompts.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--ids", action="store_true", help="print token ids, a JSON list")
    form.add_argument(
        "--json",
        action="store_true",
        help="print prompt, ids, and spans: which ids came from which message and field",
    )
    add_prompt_arguments(parser)
    add_tokenizer_argument(parser)
    parser.add_argument("--output", metavar="OUT", help="write there in place of stdout")


def run(args: argparse.Namespace) -> int:
    tokenizer = load_tokenizer(args.tokenizer) if args.ids or args.json else None
    with output(args.output) as file:
        for request in requests(args):
            written = _written(request, args, tokenizer)
            if isinstance(written, str) and request.place == name_of(args.file):
                file.write(written)
            else:
                file.write(json.dumps(written, ensure_ascii=False) + "\n")
    return DONE


def _written(request: Placed, args: argparse.Namespace, tokenizer: Tokenizer | None) -> Any:
    """The prompt itself; as a value, where it is one line of many or ids are asked for."""
    prompt = request.encode()
    if tokenizer is None:
        return str(prompt)
    with vocabulary_must_fit():
        ids = tokenizer.encode(prompt)
    if args.ids:
        return ids
    spans = [span._asdict() for span in tokenizer.spans(prompt)]
    return {"prompt": str(prompt), "ids": ids, "spans": spans}

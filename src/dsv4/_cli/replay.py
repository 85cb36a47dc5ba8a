"""dsv4 replay"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsv4._cli.command_options import load_tokenizer
from dsv4._cli.command_output import DONE, FINDINGS, Failure, missing_package, output, plural
from dsv4._cli.conversation_files import read_json_lines

if TYPE_CHECKING:
    from dsv4.serve.observe.records import Exchange


EXAMPLE = "dsv4 replay exchanges.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the recording, as JSON lines")
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        help="the server's tokenizer.json (default: the bundled V4 vocabulary)",
    )
    parser.add_argument("--quiet", action="store_true", help="print only the summary")


def run(args: argparse.Namespace) -> int:
    try:
        from dsv4.serve.observe.records import differences
    except ImportError as error:
        raise missing_package("replaying", error, "serve") from None

    total = changed = 0
    tokenizer = None
    with output() as file:
        for place, exchange in _exchanges(args.file):
            total += 1
            if exchange.ids is not None and tokenizer is None:
                tokenizer = load_tokenizer(args.tokenizer)
            try:
                found = differences(exchange, tokenizer)
            except ValueError as error:
                raise Failure(f"{place}: {error}") from None
            changed += bool(found)
            if not args.quiet:
                file.writelines(f"{place}: {difference}\n" for difference in found)
        file.write(f"{plural(total, 'exchange')}, {changed} read differently\n")
    return FINDINGS if changed else DONE


def _exchanges(path: str) -> Iterator[tuple[str, Exchange]]:
    from dsv4.serve.observe.records import read_exchange

    for place, value, problem in read_json_lines(path):
        if problem is not None:
            raise problem
        try:
            yield place, read_exchange(value)
        except ValueError as error:
            raise Failure(f"{place}: {error}") from None

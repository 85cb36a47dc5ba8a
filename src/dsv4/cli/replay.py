"""dsv4 replay"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from dsv4.cli.failure import DONE, FINDINGS, Failure
from dsv4.cli.writing import output

HELP = "run a recording of `dsv4 serve --record` through today's parser, and say what changed"
EXAMPLE = "dsv4 replay exchanges.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the recording, as JSON lines")
    parser.add_argument("--quiet", action="store_true", help="print the last line alone")


def run(args: argparse.Namespace) -> int:
    from dsv4.serve.replaying import difference

    total = changed = 0
    with output() as file:
        for number, exchange in _exchanges(args.file):
            total += 1
            found = difference(exchange)
            if found:
                changed += 1
                if not args.quiet:
                    file.write(f"{args.file}:{number}: {found}\n")
        file.write(f"{total} exchanges, {changed} read differently\n")
    return FINDINGS if changed else DONE


def _exchanges(path: str) -> Iterator[tuple[int, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _exchange(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: {error}") from None


def _exchange(line: str, place: str) -> Any:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise Failure(f"{place}: not JSON: {error}") from None
    if not isinstance(found, dict) or not {"completion", "request", "message"} <= found.keys():
        raise Failure(f"{place}: not an exchange that `dsv4 serve --record` wrote")
    return found

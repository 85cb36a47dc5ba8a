"""dsv4 replay"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsv4._cli.command_options import load_tokenizer
from dsv4._cli.command_output import DONE, FINDINGS, Failure, missing_package, output, plural
from dsv4._cli.conversation_files import read_json_lines
from dsv4._cli.option_fields import argument, option, switch

if TYPE_CHECKING:
    from dsv4.serve.observe.records import Exchange


@dataclass(kw_only=True)
class ReplayOptions:
    file: str = argument("FILE")
    tokenizer: str | None = option(metavar="PATH")
    quiet: bool = switch()


def run(args: ReplayOptions) -> int:
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
                lines = differences(exchange, tokenizer)
            except ValueError as error:
                raise Failure(f"{place}: {error}") from None
            changed += bool(lines)
            if not args.quiet:
                file.writelines(f"{place}: {difference}\n" for difference in lines)
        file.write(f"{plural(total, 'exchange')}, {changed} read differently\n")
    return FINDINGS if changed else DONE


def _exchanges(path: str) -> Iterator[tuple[str, Exchange]]:
    from dsv4.serve.observe.records import read_exchange

    for document in read_json_lines(path):
        value = document.content
        try:
            yield document.place, read_exchange(value)
        except ValueError as error:
            raise Failure(f"{document.place}: {error}") from None

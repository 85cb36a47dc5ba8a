"""dsv4 replay"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsv4._cli.command_options import load_tokenizer
from dsv4._cli.command_output import (
    DONE,
    FINDINGS,
    Failure,
    json_text,
    missing_package,
    output,
    plural,
)
from dsv4._cli.conversation_files import read_json_lines
from dsv4._cli.option_fields import argument, option, switch
from dsv4._cli.server_options import ask_first, server_key
from dsv4._view.characters import terminal_safe

if TYPE_CHECKING:
    from dsv4.serve.observe.records import Exchange
    from dsv4.verify.vendor_replay import ReplayReport


MOST_SENT = 100
SECONDS = 120


@dataclass(kw_only=True)
class ReplayOptions:
    file: str = argument("FILE")
    tokenizer: str | None = option(metavar="PATH")
    quiet: bool = switch()
    against: str | None = option(metavar="URL")
    limit: int = option(default=MOST_SENT, metavar="N")
    model: str | None = option(metavar="NAME")
    key_file: str | None = option(metavar="FILE")
    insecure_http: bool = switch()
    yes: bool = switch()
    json: bool = switch()


def run(args: ReplayOptions) -> int:
    return _replay(args) if args.against is None else _send(args, args.against)


def _send(args: ReplayOptions, address: str) -> int:
    """Status 1 if a call is not valid by its schema."""
    from dsv4.verify import HttpServer, ServerProblem
    from dsv4.verify.own_word import own_word
    from dsv4.verify.server_client import check_url
    from dsv4.verify.vendor_replay import replay_against, replay_pairs

    paths = [] if args.key_file is None else [args.key_file]
    key = server_key(paths, 0, alone=True)
    rows = (document.content for document in read_json_lines(args.file))
    pairs = list(replay_pairs(rows, args.limit))
    if not pairs:
        raise Failure(f"{args.file}: found no request, expected JSON lines with some")
    try:
        url = check_url(address, has_key=bool(key), insecure=args.insecure_http)
        ask_first(f"{plural(len(pairs), 'request')}, as they were recorded.", args.yes)
        server = HttpServer(url, key, float(SECONDS))
        model = args.model or own_word(lambda path: server.get(path).body, "").model
        report = replay_against(server, pairs, model or "deepseek-v4")
    except ServerProblem as problem:
        raise Failure(str(problem)) from None
    with output() as file:
        text = json_text(report.to_dict(), indent=2) if args.json else "\n".join(_lines(report))
        file.write(f"{text}\n")
    if not report.rates["answered"].holds:
        raise Failure("no request was answered")
    valid = report.rates["valid_calls"]
    return FINDINGS if valid.holds < valid.of else DONE


def _lines(report: ReplayReport) -> Iterator[str]:
    from dsv4.verify.answer_rates import rate_words
    from dsv4.verify.vendor_replay import RATES

    yield terminal_safe(f"{report.url}  {report.model}")
    for name, what in RATES.items():
        rate = report.rates[name]
        if rate.of:
            yield f"{rate_words(rate.holds, rate.of):<28} {what}"
    for (was, now), many in report.finishes.most_common():
        if was != now:
            yield terminal_safe(f"{plural(many, 'answer')}: recorded {was}, now {now}")
    for problem, many in report.problems.most_common():
        yield terminal_safe(f"{plural(many, 'request')} without an answer: {problem}")


def _replay(args: ReplayOptions) -> int:
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

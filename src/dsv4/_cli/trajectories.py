"""dsv4 trajectories"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

from dsv4._cli.command_options import ColorOption, TokenizerOption, load_tokenizer
from dsv4._cli.command_output import (
    DONE,
    FINDINGS,
    Failure,
    complain,
    output,
    plural,
    uses_color,
    write_text,
)
from dsv4._cli.option_fields import argument, option, switch

EXAMPLE = """
dsv4 trajectories sessions.db -o rollouts.jsonl --closed
dsv4 trajectories http://gpu:8000 -o rollouts.parquet --group step-12 --format verl
dsv4 trajectories show s-1f2e --from sessions.db
dsv4 trajectories show s-1f2e --html session.html
"""
GATEWAY = "http://127.0.0.1:8000"
# Where the key of a gateway is looked for: a command line is for everybody to read.
KEY_VARIABLE = "DSV4_KEY"


@dataclass(kw_only=True)
class TrajectoriesOptions(ColorOption, TokenizerOption):
    source: str = argument(
        "the file of `dsv4 serve --trajectories`, or the URL of a gateway; or `show`", "SOURCE"
    )
    session: str | None = argument("after `show`: the id of the session", "SESSION", "?")
    output: str | None = option(
        "write to this .jsonl or .parquet file", "-o", "--output", metavar="OUT"
    )
    format: Literal["rows", "trl", "verl", "skyrl", "verifiers"] = option(
        "whose fields the rows have: `rows` has all that is known (default: rows)", default="rows"
    )
    group: str | None = option("only the sessions of this group", metavar="NAME")
    closed: bool = switch("only sessions that are closed")
    shared: Literal["once", "all"] = option(
        "train tokens that sequences share in one of them, or in all (default: once)",
        default="once",
    )
    include: str = option(
        "also train on answers that were cut, left, failed or undelivered",
        default="",
        metavar="A,B",
    )
    resume: bool = switch("continue an interrupted export")
    overwrite: bool = switch("replace the output")
    origin: str = option(
        f"show: where the session is, a file or a gateway (default: {GATEWAY})",
        "--from",
        default=GATEWAY,
        metavar="SOURCE",
    )
    html: str | None = option("show: write a self-contained HTML page", metavar="OUT")
    full: bool = switch("show: long prompts in full")


def run(args: TrajectoriesOptions) -> int:
    if args.source == "show":
        return _show(args)
    if args.session is not None:
        raise Failure(f"unrecognized argument: {args.session} (see dsv4 trajectories --help)")
    if args.output is None:
        raise Failure("-o is missing: expected a .jsonl or .parquet file to write")
    return _export(args, args.output)


def _export(args: TrajectoriesOptions, path: str) -> int:
    from dsv4.trajectories import export

    summary = export(
        args.source,
        path,
        format=args.format,
        group=args.group,
        closed=args.closed,
        key=os.environ.get(KEY_VARIABLE),
        shared=args.shared,
        include=_included(args),
        resume=args.resume,
        overwrite=args.overwrite,
    )
    complain(f"{plural(summary.rows, 'row')} of {plural(summary.sessions, 'session')}")
    for reason, count in sorted(summary.left_out.items()):
        complain(f"left out: {plural(count, 'trajectory')}: {reason}")
    return DONE


def _included(args: TrajectoriesOptions) -> list[str]:
    return [name.strip() for name in args.include.split(",") if name.strip()]


def _show(args: TrajectoriesOptions) -> int:
    from dsv4._view.session_view import session_lines, session_page

    if args.session is None:
        raise Failure("the session is missing: expected its id after `show`")
    tokenizer = load_tokenizer(args.tokenizer)
    session = _session(args, args.session, tokenizer)
    if session is None:
        raise Failure(f"{args.origin}: found no session {args.session!r}", FINDINGS)
    if args.html is not None:
        write_text(args.html, session_page(session, tokenizer.decode))
        return DONE
    color = uses_color(args.color, sys.stdout)
    with output() as file:
        file.writelines(session_lines(session, tokenizer.decode, color=color, full=args.full))
    return DONE


def _session(args: TrajectoriesOptions, id: str, tokenizer: Any) -> dict[str, Any] | None:
    from dsv4.trajectories import Client, GatewayRefused
    from dsv4.trajectories.trajectory_export import is_url, read_session

    if not is_url(args.origin):
        return read_session(
            args.origin, id, shared=args.shared, include=_included(args), tokenizer=tokenizer
        )
    client = Client(args.origin, os.environ.get(KEY_VARIABLE))
    try:
        return client.trajectories(id, shared=args.shared, include=args.include)
    except GatewayRefused as error:
        if error.status == 404:
            return None
        raise

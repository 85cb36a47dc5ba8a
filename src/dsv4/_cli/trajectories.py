"""dsv4 trajectories"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from dsv4._cli.command_options import add_color_argument, add_tokenizer_argument, load_tokenizer
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

EXAMPLE = """
dsv4 trajectories sessions.db -o rollouts.jsonl --closed
dsv4 trajectories http://gpu:8000 -o rollouts.parquet --group step-12 --format verl
dsv4 trajectories show s-1f2e --from sessions.db
dsv4 trajectories show s-1f2e --html session.html
"""
GATEWAY = "http://127.0.0.1:8000"
# Where the key of a gateway is looked for: a command line is for everybody to read.
KEY_VARIABLE = "DSV4_KEY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="the file of `dsv4 serve --trajectories`, or the URL of a gateway; or `show`",
    )
    parser.add_argument(
        "session", metavar="SESSION", nargs="?", help="after `show`: the id of the session"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="write to this .jsonl or .parquet file"
    )
    parser.add_argument(
        "--format",
        choices=("rows", "trl", "verl", "skyrl", "verifiers"),
        default="rows",
        help="whose fields the rows have: `rows` has all that is known (default: rows)",
    )
    parser.add_argument("--group", metavar="NAME", help="only the sessions of this group")
    parser.add_argument("--closed", action="store_true", help="only sessions that are closed")
    parser.add_argument(
        "--shared",
        choices=("once", "all"),
        default="once",
        help="train tokens that sequences share in one of them, or in all (default: once)",
    )
    parser.add_argument(
        "--include",
        metavar="A,B",
        default="",
        help="also train on answers that were cut, left, failed or undelivered",
    )
    parser.add_argument("--resume", action="store_true", help="continue an interrupted export")
    parser.add_argument("--overwrite", action="store_true", help="replace the output")
    parser.add_argument(
        "--from",
        metavar="SOURCE",
        dest="origin",
        default=GATEWAY,
        help=f"show: where the session is, a file or a gateway (default: {GATEWAY})",
    )
    parser.add_argument("--html", metavar="OUT", help="show: write a self-contained HTML page")
    parser.add_argument("--full", action="store_true", help="show: long prompts in full")
    add_color_argument(parser)
    add_tokenizer_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.source == "show":
        return _show(args)
    if args.session is not None:
        raise Failure(f"unrecognized argument: {args.session} (see dsv4 trajectories --help)")
    if args.output is None:
        raise Failure("-o is missing: expected a .jsonl or .parquet file to write")
    return _export(args)


def _export(args: argparse.Namespace) -> int:
    from dsv4.trajectories import export

    done = export(
        args.source,
        args.output,
        format=args.format,
        group=args.group,
        closed=args.closed,
        key=os.environ.get(KEY_VARIABLE),
        shared=args.shared,
        include=_included(args),
        resume=args.resume,
        overwrite=args.overwrite,
    )
    complain(f"{plural(done.rows, 'row')} of {plural(done.sessions, 'session')}")
    for reason, count in sorted(done.left_out.items()):
        complain(f"left out: {plural(count, 'trajectory')}: {reason}")
    return DONE


def _included(args: argparse.Namespace) -> list[str]:
    return [name.strip() for name in args.include.split(",") if name.strip()]


def _show(args: argparse.Namespace) -> int:
    from dsv4._view.session_view import session_lines, session_page

    if args.session is None:
        raise Failure("the session is missing: expected its id after `show`")
    tokenizer = load_tokenizer(args.tokenizer)
    session = _found(args, tokenizer)
    if session is None:
        raise Failure(f"{args.origin}: found no session {args.session!r}", FINDINGS)
    if args.html is not None:
        write_text(args.html, session_page(session, tokenizer.decode))
        return DONE
    color = uses_color(args.color, sys.stdout)
    with output() as file:
        file.writelines(session_lines(session, tokenizer.decode, color=color, full=args.full))
    return DONE


def _found(args: argparse.Namespace, tokenizer: Any) -> dict[str, Any] | None:
    from dsv4.trajectories import Client, GatewayRefused
    from dsv4.trajectories.trajectory_export import is_url, read_session

    if not is_url(args.origin):
        return read_session(
            args.origin,
            args.session,
            shared=args.shared,
            include=_included(args),
            tokenizer=tokenizer,
        )
    client = Client(args.origin, os.environ.get(KEY_VARIABLE))
    try:
        return client.trajectories(args.session, shared=args.shared, include=args.include)
    except GatewayRefused as error:
        if error.status == 404:
            return None
        raise

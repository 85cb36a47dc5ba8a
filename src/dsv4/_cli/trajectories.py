"""dsv4 trajectories"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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

if TYPE_CHECKING:
    from dsv4.trajectories import Exported

GATEWAY = "http://127.0.0.1:8000"
# The variable with the key of a gateway: other users can read a command line.
KEY_VARIABLE = "DSV4_KEY"


@dataclass(kw_only=True)
class TrajectoriesOptions(ColorOption, TokenizerOption):
    source: str = argument("SOURCE")
    session: str | None = argument("SESSION", "?")
    output: str | None = option("-o", "--output", metavar="OUT")
    format: Literal["rows", "trl", "verl", "skyrl"] = option(default="rows")
    group: str | None = option(metavar="NAME")
    closed: bool = switch()
    shared: Literal["once", "all"] = option(default="once")
    include: str = option(default="", metavar="A,B")
    resume: bool = switch()
    overwrite: bool = switch()
    origin: str = option("--from", default=GATEWAY, metavar="SOURCE")
    html: str | None = option(metavar="OUT")
    full: bool = switch()


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
    complain(_token_account(summary))
    if summary.unsealed:
        unsealed = plural(summary.unsealed, "closed session")
        complain(f"{unsealed} without a seal: an older dsv4 recorded them, so nothing proves them")
    return DONE


def _token_account(summary: Exported) -> str:
    """Sampled = written + left out, in words."""
    left_out = summary.left_out_tokens
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
    account = f"sampled {summary.sampled_tokens} tokens, written {summary.written_tokens}"
    return f"{account}, left out {left_out.total()}" + (f": {reasons}" if reasons else "")


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

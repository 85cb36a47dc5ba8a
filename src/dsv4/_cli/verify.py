"""dsv4 verify"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsv4._cli.command_output import DONE, FINDINGS, Failure, output, write_text
from dsv4._cli.option_fields import argument, option, switch
from dsv4._cli.server_options import ask_first, read_option_file, server_key
from dsv4._inputs.input_files import os_error_reason

if TYPE_CHECKING:
    from dsv4.verify import HttpServer, Report
    from dsv4.verify.runner import RunMode

SECONDS = 60
PARALLEL = 4
# The signals after which the measurements so far are still reported.
SIGNALS = ("SIGTERM", "SIGHUP")


@dataclass(kw_only=True)
class VerifyOptions:
    url: list[str] = argument("URL", "*")
    model: str | None = option(metavar="NAME")
    key_file: list[str] = option(default=[], metavar="FILE")
    quick: bool = switch(group="mode")
    full: bool = switch(group="mode")
    only: list[str] = option(default=[], metavar="GROUP")
    request: str | None = option(metavar="FILE")
    parallel: int = option(default=PARALLEL, metavar="N")
    tokens: int | None = option(metavar="N")
    yes: bool = switch()
    timeout: int = option(default=SECONDS, metavar="SECONDS")
    insecure_http: bool = switch()
    html: str | None = option(metavar="OUT")
    json: str | None = option(metavar="OUT")
    junit: str | None = option(metavar="OUT")
    save: str | None = option(metavar="OUT")
    recorded: str | None = option(metavar="LOG")
    compare: list[str] | None = option(metavar=("A", "B"), nargs=2, action="store")
    baseline: str | None = option(metavar="REPORT")
    allow: list[str] = option(default=[], metavar="ID")
    matrix: bool = switch()
    exit_zero: bool = switch()


def run(args: VerifyOptions) -> int:
    from dsv4.verify import ServerProblem

    chosen = [bool(args.url), args.recorded is not None, args.compare is not None, args.matrix]
    if sum(chosen) != 1:
        found = "several" if any(chosen) else "none"
        raise Failure(f"found {found}, expected one of a URL, --recorded, --compare or --matrix")
    if len(args.key_file) > max(len(_urls(args)), 1):
        raise Failure("--key-file: found more than there are servers, expected one for each")
    _check_groups(args.only)
    _baseline(args)  # before anything is sent
    try:
        if args.matrix:
            return _print_matrix()
        if args.compare:
            return _compare(args, args.compare)
        if len(args.url) > 1:
            return _side_by_side(args)
        report = _recorded(args.recorded) if args.recorded else _measured(args, args.url[0])
        return _finish(args, _with_known(args, report))
    except ServerProblem as problem:
        raise Failure(str(problem)) from None


def _urls(args: VerifyOptions) -> list[str]:
    """The servers that requests go to."""
    compared = [each for each in args.compare or () if each.startswith(("http://", "https://"))]
    return [*args.url, *compared]


def _check_groups(only: list[str]) -> None:
    from dsv4.verify.report import GROUPS

    for group in only:
        if group not in GROUPS:
            raise Failure(f'--only: found "{group}", expected one of {", ".join(GROUPS)}')


def _print_matrix() -> int:
    from dsv4.verify.choice import all_matrices
    from dsv4.verify.report_views import matrix_text

    with output() as file:
        file.write(matrix_text(all_matrices()))
    return DONE


# Making and loading reports.


def _mode(args: VerifyOptions) -> RunMode:
    return "quick" if args.quick else "full" if args.full else "default"


def _measured(args: VerifyOptions, url: str, number: int = 0) -> Report:
    """The report of the server with this number."""
    from dsv4.verify import run as verify
    from dsv4.verify.runner import planned

    server = _server(args, url, number)
    mode = _mode(args)
    own = _own_request(args.request)
    if not number:
        requests, tokens = planned(mode, args.only, own)
        each = " for each server" if len(args.url) > 1 else ""
        budget = f"{requests} requests and {args.tokens or tokens:,} prompt tokens at most"
        ask_first(f"{budget}{each}.", args.yes)
    is_terminal = sys.stderr is not None and sys.stderr.isatty()

    def progress(count: int, of: int) -> None:
        if is_terminal:
            print(f"\r{count} of {of} requests", end="", file=sys.stderr, flush=True)

    _end_as_interrupted()
    try:
        return verify(
            server,
            args.model,
            mode=mode,
            only=args.only,
            request=own,
            progress=progress,
            parallel=args.parallel,
            tokens=args.tokens,
        )
    finally:
        if is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _end_as_interrupted() -> None:
    """Makes signals end a run as Ctrl-C does: with a report of the finished part."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for name in SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), interrupted)


def _server(args: VerifyOptions, url: str, number: int) -> HttpServer:
    from dsv4.verify import HttpServer
    from dsv4.verify.server_client import check_url

    key = server_key(args.key_file, number, alone=len(_urls(args)) < 2)
    address = check_url(url, has_key=bool(key), insecure=args.insecure_http)
    return HttpServer(address, key, float(args.timeout))


def _own_request(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    value = _loaded(path, "--request")
    if not isinstance(value.get("messages"), list):
        raise Failure(f"--request: {path}: found no messages, expected a Chat request")
    return value


def _loaded(path: str, option: str) -> dict[str, Any]:
    try:
        value = json.loads(read_option_file(path, option))
    except (ValueError, RecursionError):
        raise Failure(f"{option}: {path}: not JSON") from None
    if not isinstance(value, dict):
        raise Failure(f"{option}: {path}: found no object, expected one")
    return value


def _recorded(path: str) -> Report:
    from dsv4.verify import explain_recorded

    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            report = explain_recorded(lines)
    except OSError as error:
        raise Failure(f"--recorded: {path}: {os_error_reason(error)}") from None
    if not report.requests:
        raise Failure(f"--recorded: {path}: no request with its prompt_tokens in it")
    return report


def _with_known(args: VerifyOptions, report: Report) -> Report:
    from dsv4.verify.known_faults import with_known

    return with_known(report, args.allow, _baseline(args))


def _baseline(args: VerifyOptions) -> dict[str, Any] | None:
    if args.baseline is None:
        return None
    report = _loaded(args.baseline, "--baseline")
    if not isinstance(report.get("findings"), list):
        raise Failure(f"--baseline: {args.baseline}: found no findings, expected a file of --json")
    return report


def _side_by_side(args: VerifyOptions) -> int:
    from dsv4.verify import ServerProblem
    from dsv4.verify.vendor_table import vendors_html, vendors_text

    reports: dict[str, Report | str] = {}
    for number, url in enumerate(args.url):
        try:
            reports[url] = _with_known(args, _measured(args, url, number))
        except ServerProblem as problem:
            reports[url] = str(problem)
    results = [each for each in reports.values() if not isinstance(each, str)]
    if args.html is not None:
        write_text(args.html, vendors_html(reports))
    if args.json is not None and args.json != "-":
        write_text(args.json, _vendors_json(reports))
    with output() as file:
        file.write(_vendors_json(reports) if args.json == "-" else vendors_text(reports))
    if len(results) < len(reports) or any(report.too_little for report in results):
        raise Failure("not all servers could be measured")
    faulty = any(report.is_faulty for report in results)
    return FINDINGS if faulty and not args.exit_zero else DONE


def _vendors_json(reports: dict[str, Report | str]) -> str:
    values = [
        {"url": url, "problem": each} if isinstance(each, str) else each.to_dict()
        for url, each in reports.items()
    ]
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


# Printing, saving and comparing reports.


def _finish(args: VerifyOptions, report: Report) -> int:
    from dsv4.verify.report_views import report_html, report_json, report_junit, report_text

    views = {"html": report_html, "json": report_json, "junit": report_junit}
    for name, view in views.items():
        path = getattr(args, name)
        if path is not None and path != "-":
            write_text(path, view(report))
    if args.save is not None:
        _save(args.save, report)
    with output() as file:
        file.write(report_json(report) if args.json == "-" else report_text(report))
    if report.too_little:
        raise Failure("too little was measured: fewer than half of the counts came")
    return FINDINGS if report.is_faulty and not args.exit_zero else DONE


def _save(path: str, report: Report) -> None:
    from dsv4.profiles.saved_profile import saved

    best = report.verdict.best
    if best is None or report.verdict.outcome != "explained":
        raise Failure("--save: the server is not explained, so there is nothing to save")
    hypothesis = best.hypothesis
    text = saved(hypothesis.profile, hypothesis.dialect, hypothesis.faults, report.url)
    write_text(path, text)


def _compare(args: VerifyOptions, sources: list[str]) -> int:
    from dsv4.verify.report_views import changes_junit, report_changes

    before, after = (_report_dict(args, each) for each in sources)
    changes = report_changes(before, after)
    if args.junit is not None:
        write_text(args.junit, changes_junit(changes))
    with output() as file:
        file.writelines(f"{change}\n" for change in changes or ["nothing has changed"])
    return FINDINGS if changes and not args.exit_zero else DONE


def _report_dict(args: VerifyOptions, source: str) -> dict[str, Any]:
    """The report of a server, or of a file that `--json` wrote."""
    if source in _urls(args):
        return _measured(args, source, _urls(args).index(source)).to_dict()
    return _loaded(source, "--compare")

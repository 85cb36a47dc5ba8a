"""dsv4 check"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import TYPE_CHECKING

from dsv4.cli.failure import DONE, FINDINGS, Failure
from dsv4.cli.requests import add_file_argument, add_prompt_arguments, requests
from dsv4.cli.terminal import Paint, add_color_argument
from dsv4.cli.writing import output
from dsv4.view.characters import harmless

if TYPE_CHECKING:
    from dsv4.checking import Finding

HELP = "what is wrong with a conversation, or will surprise"
EXAMPLE = """
dsv4 check conversation.json
dsv4 check --json requests.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each finding")
    parser.add_argument(
        "--ignore",
        metavar="KIND",
        action="append",
        default=[],
        help="leave out findings of this kind, which stands in brackets behind each",
    )
    add_color_argument(parser)
    add_prompt_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from dsv4.checking import KINDS, check

    for kind in args.ignore:
        if kind not in KINDS:
            raise Failure(f"--ignore: found {kind!r}, expected one of {', '.join(KINDS)}")
    paint = Paint(args.color)
    levels: Counter[str] = Counter()
    with output() as file:
        for request in requests(args):
            for finding in check(request.request):
                if finding.kind not in args.ignore:
                    levels[finding.level] += 1
                    file.write(_line(request.place, finding, args.json, paint) + "\n")
        if levels and not args.json:
            file.write(_summary(levels) + "\n")
    return FINDINGS if levels else DONE


def _line(file: str, finding: Finding, as_json: bool, paint: Paint) -> str:
    if as_json:
        return json.dumps(_as_dict(file, finding), ensure_ascii=False)
    level = paint(finding.level, "bold", "red" if finding.level == "error" else "yellow")
    kind = paint(f"[{finding.kind}]", "dim")
    place, problem = harmless(finding.path), harmless(finding.message)
    return f"{file}: {place}: {level}: {problem} {kind}"


def _as_dict(file: str, finding: Finding) -> dict[str, object]:
    return {
        "file": file,
        "level": finding.level,
        "kind": finding.kind,
        "place": finding.path,
        "location": finding.location,
        "message": finding.message,
    }


def _summary(levels: Counter[str]) -> str:
    return ", ".join(
        f"{levels[level]} {level}{'' if levels[level] == 1 else 's'}"
        for level in ("error", "warning")
        if levels[level]
    )

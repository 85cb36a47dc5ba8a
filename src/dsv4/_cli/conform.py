"""dsv4 conform: another implementation of the format, tested against this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dsv4
from dsv4._cli.command_output import DONE, FINDINGS, Failure, json_text, output, plural, write_text
from dsv4._cli.option_fields import argument, option, switch
from dsv4._inputs.input_files import os_error_reason
from dsv4._view.characters import terminal_safe
from dsv4.types import DialectName

if TYPE_CHECKING:
    from dsv4.compat.conformance import ConformanceCase, ConformanceOutcome

SECONDS = 600


@dataclass(kw_only=True)
class ConformOptions:
    peer: list[str] = argument("COMMAND", "*")
    answer: bool = switch()
    vectors: list[str] = option(default=[], metavar="FOLDER")
    only: list[Literal["encode", "parse", "pieces"]] = option(default=[])
    dialect: list[DialectName] = option(default=[], choices=tuple(dsv4.DIALECTS))
    timeout: int = option(default=SECONDS, metavar="SECONDS")
    all: bool = switch()
    json: str | None = option(metavar="OUT")


def run(args: ConformOptions) -> int:
    """Status 0 if every answer is right."""
    if args.answer:
        return _answer_requests()
    if not args.peer:
        raise Failure("found no command, expected one after --")
    from dsv4.compat.conformance import outcome_of

    cases = list(_cases(args))
    if not cases:
        raise Failure("found no case for these options, expected some")
    answers = _answers(args.peer, cases, args.timeout)
    return _finish(args, list(map(outcome_of, cases, answers)))


def _answer_requests() -> int:
    from dsv4.compat.conformance import own_answer

    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
            number = request.get("id") if isinstance(request, dict) else None
            answer = own_answer(request) if isinstance(request, dict) else {"unsupported": "it"}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            number, answer = None, {"unsupported": f"{type(error).__name__}: {error}"}
        print(json_text({"id": number, **answer}), flush=True)
    return DONE


def _cases(args: ConformOptions) -> Iterator[ConformanceCase]:
    for case in _recorded(args.vectors):
        if (not args.only or case.kind in args.only) and (
            not args.dialect or case.dialect in args.dialect
        ):
            yield case


def _recorded(folders: list[str]) -> Iterator[ConformanceCase]:
    from dsv4.compat.conformance import bundled_cases, recorded_cases

    if not folders:
        yield from bundled_cases()
    for folder in folders:
        if not Path(folder).is_dir():
            raise Failure(f"--vectors: {folder}: found no such folder")
        try:
            yield from recorded_cases(Path(folder))
        except (OSError, ValueError, KeyError) as error:
            reason = os_error_reason(error) if isinstance(error, OSError) else repr(error)
            raise Failure(f"--vectors: {folder}: {reason}") from None


# The other implementation.


def _answers(command: list[str], cases: Sequence[ConformanceCase], seconds: int) -> list[object]:
    """The answers of a command, which gets all requests together. One that is not JSON is text."""
    requests = (json.dumps({"id": n, **case.request}) for n, case in enumerate(cases, 1))
    lines = "".join(f"{request}\n" for request in requests).encode()
    try:
        done = subprocess.run(
            command, input=lines, stdout=subprocess.PIPE, timeout=seconds, check=False
        )
    except OSError as error:
        raise Failure(f"{command[0]}: {os_error_reason(error)}") from None
    except subprocess.TimeoutExpired as late:
        first = cases[min((late.stdout or b"").count(b"\n"), len(cases) - 1)]
        raise Failure(f"{first.name}: no answer in {seconds} seconds") from None
    replies = done.stdout.splitlines()
    if len(replies) < len(cases):
        problem = f"the command ended with status {done.returncode}, without an answer"
        raise Failure(f"{cases[len(replies)].name}: {problem}")
    return [_answer(reply, n) for n, reply in enumerate(replies[: len(cases)], 1)]


def _answer(reply: bytes, number: int) -> object:
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return reply[:200].decode("utf-8", "replace")
    if isinstance(value, dict) and value.get("id", number) != number:
        return f"an answer to {value['id']!r}, expected one to {number}"
    return value


# The report of the outcomes.


def _finish(args: ConformOptions, outcomes: list[ConformanceOutcome]) -> int:
    report = _report(outcomes)
    if args.json is not None and args.json != "-":
        write_text(args.json, json_text(report, indent=2) + "\n")
    with output() as file:
        if args.json == "-":
            file.write(json_text(report, indent=2) + "\n")
        else:
            file.writelines(f"{line}\n" for line in _text(outcomes, args.all))
    return FINDINGS if report["failed"] else DONE


def _failed(outcomes: list[ConformanceOutcome]) -> list[ConformanceOutcome]:
    return [each for each in outcomes if each.verdict == "fail"]


def _counts(outcomes: list[ConformanceOutcome]) -> dict[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for each in outcomes:
        counts.setdefault((each.case.kind, each.case.dialect), Counter())[each.verdict] += 1
    return dict(sorted(counts.items()))


def _report(outcomes: list[ConformanceOutcome]) -> dict[str, Any]:
    parts = [
        {"kind": kind, "dialect": dialect, **{v: n[v] for v in ("pass", "fail", "unsupported")}}
        for (kind, dialect), n in _counts(outcomes).items()
    ]
    differences = [
        {
            "case": each.case.name,
            "kind": each.case.kind,
            "dialect": each.case.dialect,
            "difference": each.difference,
            "section": each.section,
            "request": each.case.request,
        }
        for each in _failed(outcomes)
    ]
    sections = [
        {"section": section, "failed": len(own), "first": own[0].case.name}
        for section, own in _by_section(outcomes).items()
    ]
    total = {"cases": len(outcomes), "failed": len(differences)}
    return {**total, "parts": parts, "sections": sections, "differences": differences}


def _by_section(outcomes: list[ConformanceOutcome]) -> dict[str, list[ConformanceOutcome]]:
    """The failed cases, by the section that gives the rule; most failures first."""
    sections: dict[str, list[ConformanceOutcome]] = {}
    for each in _failed(outcomes):
        sections.setdefault(each.section or "the form of answers (`dsv4 docs verify`)", []).append(
            each
        )
    return dict(sorted(sections.items(), key=lambda item: -len(item[1])))


def _text(outcomes: list[ConformanceOutcome], shows_all: bool) -> Iterator[str]:
    for (kind, dialect), counts in _counts(outcomes).items():
        total = counts["pass"] + counts["fail"]
        left_out = f", {counts['unsupported']} not supported" if counts["unsupported"] else ""
        yield f"{kind:<7} {dialect:<10} {counts['pass']:>5} of {total} right{left_out}"
    for section, own in _by_section(outcomes).items():
        yield ""
        yield f"{section}: {plural(len(own), 'answer')} {'differs' if len(own) == 1 else 'differ'}"
        examples = own if shows_all else own[:1]
        yield from (terminal_safe(f"    {each.case.name}: {each.difference}") for each in examples)
    if not shows_all and len(_failed(outcomes)) > len(_by_section(outcomes)):
        yield ""
        yield "Of each section the first is shown; --all prints all of them."

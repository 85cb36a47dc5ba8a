"""dsv4 check: lints conversations, and with --fix writes them with what can be fixed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from dsv4._check.findings import Purpose
from dsv4._cli.command_options import ColorOption, ConversationsOptions, profile_option
from dsv4._cli.command_output import (
    DONE,
    FINDINGS,
    MISUSE,
    Failure,
    Paint,
    complain,
    in_json_words,
    json_text,
    output,
    plural,
)
from dsv4._cli.conversation_files import (
    input_paths,
    prompt_overrides,
    read_all_documents,
    read_documents,
)
from dsv4._cli.option_fields import option, switch
from dsv4._inputs.input_files import InputError, input_name
from dsv4._view.characters import terminal_safe
from dsv4.dataset.dataset_notes import COPY, CopyCounter, line_hash

if TYPE_CHECKING:
    from dsv4._check import Finding
    from dsv4._cli.conversation_files import FileDocument
    from dsv4._inputs.request_bodies import RequestOverrides


LEVEL_STYLES = {"error": "red", "warning": "yellow", "note": "blue"}
# The number of findings of one kind that are listed; the rest are only counted.
MAX_OF_A_KIND = 20


@dataclass(kw_only=True)
class CheckOptions(ConversationsOptions, ColorOption):
    purpose: Purpose | None = option("--for")
    profile: Any = option(metavar="SERVER", type=profile_option)
    ignore: list[str] = option(default=[], metavar="KINDS")
    json: bool = switch()
    fix: bool = switch()
    output: str | None = option("-o", "--output", metavar="OUT")


class LocatedFinding(NamedTuple):
    """A finding, its file, and its place: the file, or a line of it."""

    file: str
    place: str
    finding: Finding


def run(args: CheckOptions) -> int:
    ignored = _ignored(args.ignore)
    if args.output is not None and not args.fix:
        raise Failure("--output: only --fix writes files")
    if args.fix:
        return write_fixed(args)
    report = FindingReport(args)
    with output() as file:
        for placed in _all_findings(args, report, ignored):
            report.add(placed, file)
        report.end(file)
    if report.unreadable:
        return MISUSE
    return FINDINGS if report.levels["error"] + report.levels["warning"] else DONE


def write_fixed(args: CheckOptions) -> int:
    """Writes every conversation, and reports on stderr what was fixed and what was not. A line that
    cannot be read ends the command."""
    from dsv4._check.check_runner import run_checks
    from dsv4._check.fixes import fix_body

    overrides, ignored = prompt_overrides(args), _ignored(args.ignore)
    fix_counts: Counter[str] = Counter()
    open_counts: Counter[str] = Counter()
    with output(args.output, args.files) as file:
        for document in read_all_documents(args):
            body, fixes = fix_body(document.content)
            fix_counts.update(fixes)
            findings = run_checks(body, overrides, profile=args.profile, purpose=args.purpose)
            open_counts.update(each.level for each in findings if each.kind not in ignored)
            whole = document.place in map(input_name, args.files or ["-"])
            file.write(json_text(body, indent=2 if whole else None) + "\n")
    for what, times in fix_counts.items():
        complain(f"{what}{f' ({times:,} times)' if times > 1 else ''}")
    remaining = [
        plural(open_counts[level], level) for level in ("error", "warning") if open_counts[level]
    ]
    if remaining:
        complain(f"{' and '.join(remaining)} left, which cannot be fixed without guessing")
    elif not fix_counts:
        complain("nothing to fix")
    return FINDINGS if remaining else DONE


def _ignored(options: list[str]) -> set[str]:
    from dsv4._check.findings import FINDING_KINDS, is_kind

    names = {name.strip() for option in options for name in option.split(",") if name.strip()}
    for name in sorted(names):
        if not is_kind(name):
            raise Failure(f'--ignore: found "{name}", expected one of {", ".join(FINDING_KINDS)}')
    return names


def _all_findings(
    args: CheckOptions, report: FindingReport, ignored: set[str]
) -> Iterator[LocatedFinding]:
    """The findings in all files. A file that cannot be opened does not hide the others."""
    overrides = prompt_overrides(args)
    for path in input_paths(args):
        try:
            for document in read_documents(path, args.jsonl):
                report.count(document)
                place, findings = _document_findings(document, overrides, args)
                for finding in findings:
                    if finding.kind not in ignored:
                        yield LocatedFinding(path, place, finding)
        except InputError as error:
            report.unreadable += 1
            complain(str(error))


def _document_findings(
    document: FileDocument, overrides: RequestOverrides, args: CheckOptions
) -> tuple[str, Iterable[Finding]]:
    """The place of a document, or of the error in its JSON, and the findings there."""
    from dsv4._check.check_runner import run_checks
    from dsv4._check.findings import Finding

    if document.problem is not None:
        located = _LOCATED.match(str(document.problem))
        place, problem = located.groups() if located else (document.place, str(document.problem))
        return place, [Finding("error", "not_json", (), problem)]
    findings = run_checks(document.value, overrides, profile=args.profile, purpose=args.purpose)
    return document.place, findings


# A file, perhaps with line and column, and the problem there.
_LOCATED = re.compile(r"(.*?(?::\d+){0,2}): (.*)", re.DOTALL)


class FindingReport:
    """Prints findings. A finding that is repeated in a file is printed once, with its count."""

    def __init__(self, args: CheckOptions) -> None:
        self.conversations = 0
        self.unreadable = 0
        self.levels: Counter[str] = Counter()
        self.copies = CopyCounter() if args.purpose == "training" else None
        self._as_json = args.json
        self._paint = Paint(args.color)
        self._first: dict[tuple[str, ...], LocatedFinding] = {}
        self._times: Counter[tuple[str, ...]] = Counter()
        self._of_kind: Counter[str] = Counter()

    def count(self, document: FileDocument) -> None:
        """Counts a conversation, and notes whether it is a copy of an earlier one."""
        self.conversations += 1
        if self.copies is not None and document.problem is None:
            self.copies.add(line_hash(json_text(document.value).encode()), document.place)

    def add(self, placed: LocatedFinding, file: TextIO) -> None:
        finding = placed.finding
        self.levels[finding.level] += 1
        if self._as_json:
            file.write(json_text(_as_dict(placed)) + "\n")
            return
        key: tuple[str, ...] = (placed.file, finding.level, finding.kind, finding.message)
        if key not in self._first:
            self._of_kind[finding.kind] += 1
            if self._of_kind[finding.kind] > MAX_OF_A_KIND:
                key = (finding.level, finding.kind)
            self._first.setdefault(key, placed)
        self._times[key] += 1

    def end(self, file: TextIO) -> None:
        if self._as_json or (self.unreadable and not self.conversations):
            return
        for key, placed in self._first.items():
            file.write(self._line(placed, self._times[key], is_rest=len(key) == 2) + "\n")
        if self.copies is not None and COPY in self.copies.notes:
            times, first = self.copies.notes[COPY]
            are = "is a copy of an earlier one" if times == 1 else "are copies of earlier ones"
            file.write(f"{plural(times, 'line')} {are}; the first: {terminal_safe(first)}\n")
        file.write(f"{self._summary()}\n")

    def _line(self, placed: LocatedFinding, times: int, is_rest: bool) -> str:
        finding = placed.finding
        level = self._paint(finding.level, "bold", LEVEL_STYLES[finding.level])
        kind = self._paint(f"[{finding.kind}]", "dim")
        where = ": ".join(terminal_safe(part) for part in (placed.place, finding.path) if part)
        if is_rest:
            return f"{where}: {level}: {times:,} more of this kind {kind}"
        more = f" ({times:,} times)" if times > 1 else ""
        return f"{where}: {level}: {terminal_safe(in_json_words(finding.message))} {kind}{more}"

    def _summary(self) -> str:
        counted = [plural(n, level) for level in LEVEL_STYLES if (n := self.levels[level])]
        many = f" in {self.conversations:,} conversations" if self.conversations > 1 else ""
        return (", ".join(counted) or "nothing found") + many


def _as_dict(placed: LocatedFinding) -> dict[str, object]:
    finding = placed.finding
    return {
        "file": placed.place,
        "level": finding.level,
        "kind": finding.kind,
        "path": finding.path,
        "location": finding.location,
        "message": in_json_words(finding.message),
    }

"""Views of a report: text for a terminal, one HTML file, JUnit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from dsv4._format.texts import read_text
from dsv4.verify.choice import Matrix
from dsv4.verify.report import VerifyReport
from dsv4.verify.server_findings import ServerFinding, Standing
from dsv4.verify.verdicts import Explanation

RELEASES = {
    "v4": "DeepSeek-V4 (texts of April)",
    "v4-0731": "DeepSeek-V4 (texts of 31 July)",
    "v4-vision": "DeepSeek-V4 with vision",
    "v4.1": "DeepSeek-V4.1",
    "v4.1-1017": "DeepSeek-V4.1 (revision of 17 October)",
    "v3.2": "DeepSeek-V3.2",
}
INVISIBLE = (
    "Not visible from outside: weights, quantisation and sampling; without the prompt itself, "
    'whether a parameter is marked string="true", and the order of equal parts.'
)


def printable(text: str) -> str:
    """A text without characters that could act on a terminal, or that XML forbids."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def headline(report: VerifyReport) -> str:
    """The identity of the server, in one line."""
    verdict = report.verdict
    reasons = {"void": "the counts cannot be believed", "nothing seen": "nothing was counted"}
    if verdict.best is None:
        return reasons.get(verdict.outcome, "not explained")
    hypothesis = verdict.best.hypothesis
    named = f"{hypothesis.server.server} with {RELEASES[hypothesis.texts]}"
    if verdict.outcome in reasons:
        return f"{reasons[verdict.outcome]}; nearest is {named}"
    if verdict.outcome == "not explained":
        faults = f", with {', '.join(verdict.best.faults)}" if verdict.best.faults else ""
        return f"not explained; nearest is {named}{faults}"
    others = {each.hypothesis.server.server for each in verdict.others}
    if others:
        return f"{named}, and for some requests {', '.join(sorted(others))}"
    return named


def report_text(report: VerifyReport) -> str:
    """The report for a terminal."""
    return "".join(f"{printable(line)}\n" for line in _text_lines(report))


def _text_lines(report: VerifyReport) -> Iterator[str]:
    verdict = report.verdict
    yield f"{report.url or 'a log'}  {report.model}".rstrip()
    tokens = f"{report.prompt_tokens:,} prompt tokens"
    yield f"{report.requests} requests, {tokens}, evidence {', '.join(report.evidence) or 'none'}"
    yield ""
    yield f"prompt      {headline(report)}    {verdict.explained} of {verdict.of} counts explained"
    yield from (f"            {line}" for line in _further_words(report))
    for group, standing in report.groups.items():
        own = [f for f in report.findings if f.group == group]
        if not own and group == "prompt" and standing == "pass":
            continue
        if not own:
            yield f"{group:<11} {standing}"
        for n, finding in enumerate(own):
            yield f"{'' if n else group:<11} {_word(finding.verdict)}  {_finding_line(finding)}"
    for finding in (f for f in report.findings if f.verdict == "fault"):
        yield ""
        yield from _details(finding)
    yield ""
    yield from report.notes
    yield INVISIBLE


def _further_words(report: VerifyReport) -> Iterator[str]:
    """Lines on what else the server may be, and on what it says of itself."""
    verdict = report.verdict
    yield from (f"or {_named(each)}" for each in verdict.alternatives)
    yield from (f"which is the same as {_named(each)}" for each in verdict.synonyms)
    if str(report.own_word):
        yield f"it says of itself: {report.own_word}"


def _named(each: Explanation) -> str:
    faults = "".join(f" + {id}" for id in each.faults)
    return f"{each.hypothesis.profile} {each.hypothesis.texts}{faults}"


def _word(standing: Standing) -> str:
    return standing.upper() if standing == "fault" else standing


def _finding_line(finding: ServerFinding) -> str:
    counts = [f"{finding.expected} expected" if finding.expected else "", finding.seen]
    return "  ".join([finding.message, ", ".join(filter(None, counts))]).rstrip()


def _details(finding: ServerFinding) -> Iterator[str]:
    yield f"{finding.id}: {finding.message}"
    for name, text in _rows(finding).items():
        if text and name not in ("expected", "seen"):  # which stand in its line above
            yield f"  {name + ':':<9} {_short(text)}"


def _rows(finding: ServerFinding) -> dict[str, str]:
    """The details of a finding besides its message."""
    return {
        **{"effect": finding.effect, "mend": finding.mend, "expected": finding.expected},
        **{"seen": finding.seen, "shown by": _proof(finding), "try it": finding.curl},
    }


def _proof(finding: ServerFinding) -> str:
    """The requests that show a finding, and their number."""
    if len(finding.shown_by) < 2:
        return "".join(finding.shown_by) or finding.probe
    return f"{len(finding.shown_by)} requests: {', '.join(finding.shown_by)}"


# Longer lines are for programs.
LONGEST_LINE = 2_000


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else "too long to show here; --json has it"


STYLE = read_text("report.css", __file__)


def report_html(report: VerifyReport) -> str:
    """The report as one file, for light and dark screens, which loads nothing."""
    return "".join(_html_parts(report))


def _html_parts(report: VerifyReport) -> Iterator[str]:
    title = f"dsv4 verify {html_text(report.url or 'a log')}"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body><main>"
    yield f"<h1>{html_text(headline(report))}</h1>"
    verdict = report.verdict
    yield f'<p class="soft">{html_text(report.url)} {html_text(report.model)}<br>'
    yield f"{verdict.explained} of {verdict.of} counts explained · {report.requests} requests · "
    yield f"{report.prompt_tokens:,} prompt tokens · evidence {', '.join(report.evidence)}</p>"
    yield from (f"<p>{html_text(line)}</p>" for line in _further_words(report))
    yield "<table><thead><tr><th>group</th><th>verdict</th><th>what was found</th></tr></thead>"
    for group, standing in report.groups.items():
        own = [f for f in report.findings if f.group == group]
        words = "<br>".join(html_text(_finding_line(f)) for f in own)
        badge = f'<span class="badge {standing.split()[0]}">{standing}</span>'
        yield f"<tr><td>{group}</td><td>{badge}</td><td>{words}</td></tr>"
    yield "</table>"
    for finding in report.findings:
        if finding.verdict in ("fault", "differs"):
            yield from _html_finding(finding)
    for note in (*report.notes, INVISIBLE):
        yield f'<p class="soft">{html_text(note)}</p>'
    yield "</main></body></html>\n"


def _html_finding(finding: ServerFinding) -> Iterator[str]:
    badge = f'<span class="badge {finding.verdict}">{finding.verdict}</span>'
    yield f"<section><h2>{badge} {html_text(finding.message)} <small>{finding.id}</small></h2><dl>"
    for name, text in _rows(finding).items():
        if text:
            code = ("<code>", "</code>") if name == "try it" else ("", "")
            yield f"<dt>{name}</dt><dd>{code[0]}{html_text(text)}{code[1]}</dd>"
    yield "</dl></section>"


def html_text(text: str) -> str:
    return escape(printable(text))


def report_json(report: VerifyReport) -> str:
    """The report as JSON."""
    return json.dumps(report.to_dict(), ensure_ascii=False, indent=2) + "\n"


def report_junit(report: VerifyReport) -> str:
    """The report as JUnit: a test case for each group, failed by a fault."""
    cases = []
    failed = 0
    for group, standing in report.groups.items():
        own = [f for f in report.findings if f.group == group and f.verdict == "fault"]
        inside = "".join(
            f'<failure message="{html_text(f.id)}">'
            f"{html_text(f'{f.message}: {_finding_line(f)}')}</failure>"
            for f in own
        )
        failed += bool(own)
        if standing in ("inconclusive", "not offered"):
            inside = f'<skipped message="{standing}"/>'
        cases.append(f'<testcase classname="dsv4.verify" name="{group}">{inside}</testcase>')
    named = "\n".join([headline(report), *_further_words(report)])
    output = f"<system-out>{html_text(named)}</system-out>"
    return junit_suite("dsv4 verify", cases, failed, output)


def junit_suite(name: str, cases: Sequence[str], failed: int, output: str = "") -> str:
    """Test cases as a file of JUnit."""
    head = f'<testsuite name="{name}" tests="{len(cases)}" failures="{failed}">'
    inside = "".join(cases) + output
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{inside}</testsuite>\n'


def matrix_text(matrices: list[Matrix]) -> str:
    """The faults that the probes tell apart, server by server."""
    lines = []
    for each in matrices:
        lines.append(f"{each.server}: {each.apart} of {each.pairs} pairs, {each.score:.1%}")
        lines += (f"    {' = '.join(id or 'no fault' for id in ids)}" for ids in each.alike)
    apart, pairs = sum(m.apart for m in matrices), sum(m.pairs for m in matrices)
    lines.append(f"all: {apart} of {pairs} pairs told apart, {apart / max(pairs, 1):.1%}")
    return "\n".join(lines) + "\n"


def report_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The changes between two reports read from JSON, one sentence each."""
    old, new = _facts(before), _facts(after)
    return [
        printable(f"{name}: was {old.get(name, 'unknown')}, is {new.get(name, 'unknown')}")
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def _facts(report: Mapping[str, Any]) -> dict[str, str]:
    prompt, groups = report.get("prompt"), report.get("groups")
    facts: dict[str, str] = {}
    if isinstance(prompt, dict):
        facts |= {name: str(prompt.get(name)) for name in ("profile", "dialect")}
        faults = prompt.get("faults")
        facts["faults"] = ", ".join(map(str, faults or ["none"])) if faults is not None else ""
    return facts | ({str(k): str(v) for k, v in groups.items()} if isinstance(groups, dict) else {})


def changes_junit(changes: Sequence[str]) -> str:
    """Changes as JUnit: one test case, failed by any change."""
    inside = "".join(f"<failure>{html_text(change)}</failure>" for change in changes)
    case = f'<testcase classname="dsv4.verify" name="unchanged">{inside}</testcase>'
    return junit_suite("dsv4 verify", [case], int(bool(changes)))

"""Several servers side by side: one table of their results and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dsv4.verify.report import GROUPS, VerifyReport
from dsv4.verify.report_views import STYLE, headline, html_text, printable
from dsv4.verify.server_findings import NOT_EXPLAINED, ServerFinding

# A report, or why there is none.
Reports = Mapping[str, VerifyReport | str]


def vendors_text(reports: Reports) -> str:
    """The table for a terminal: a list of the servers, then a column for each."""
    lines = [f"{n}  {url}" for n, url in enumerate(reports, 1)]
    rows = list(_rows(reports))
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    for n, (url, report) in enumerate(reports.items(), 1):
        lines += ("", f"{n}  {url}", *(f"    {line}" for line in _findings(report)))
    return "".join(f"{printable(line)}\n" for line in lines)


def vendors_html(reports: Reports) -> str:
    """The table as one file, which loads nothing."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>dsv4 verify</title><style>{STYLE}</style></head><body><main>",
        "<h1>Servers side by side</h1><ol>",
        *(f"<li>{html_text(url)}</li>" for url in reports),
        "</ol><table>",
    ]
    for name, *cells in _rows(reports):
        inside = "".join(
            f'<td class="{html_text(c.split()[0]) if c else ""}">{html_text(c)}</td>' for c in cells
        )
        parts.append(f"<tr><th>{html_text(name)}</th>{inside}</tr>")
    parts.append("</table>")
    for url, report in reports.items():
        shown = "" if isinstance(report, str) else "".join(map(_shown_html, _faults(report)))
        what = html_text(_what(report))
        parts.append(f"<section><h2>{html_text(url)}</h2><p>{what}</p>{shown}</section>")
    return "".join([*parts, "</main></body></html>\n"])


def _rows(reports: Reports) -> Iterator[Sequence[str]]:
    yield ["", *(str(n) for n in range(1, len(reports) + 1))]
    for group in GROUPS:
        yield [group, *(_cell(each, lambda r, g=group: r.groups[g]) for each in reports.values())]  # type: ignore[misc]
    for name, value in _COSTS.items():
        yield [name, *(_cell(each, value) for each in reports.values())]


_COSTS: Mapping[str, Callable[[VerifyReport], str]] = {
    "measured (UTC)": lambda report: report.date,
    "model": lambda report: report.model,
    "requests": lambda report: f"{report.requests:,}",
    "prompt tokens": lambda report: f"{report.prompt_tokens:,}",
    "first token": lambda report: (
        "" if report.first_token_seconds is None else f"{report.first_token_seconds:.2f} s"
    ),
}


def _cell(report: VerifyReport | str, value: Callable[[VerifyReport], str]) -> str:
    return "not measured" if isinstance(report, str) else value(report)


def _findings(report: VerifyReport | str) -> Iterator[str]:
    """The identity of the server, and its faults."""
    yield _what(report)
    if not isinstance(report, str):
        yield from dict.fromkeys(map(_named, _faults(report)))


def _what(report: VerifyReport | str) -> str:
    return report if isinstance(report, str) else headline(report)


def _named(finding: ServerFinding) -> str:
    """A fault in words, with its id or its group."""
    name = finding.group if finding.id == NOT_EXPLAINED else finding.id
    return f"{name}: {finding.message}"


def _faults(report: VerifyReport) -> list[ServerFinding]:
    return [finding for finding in report.findings if finding.verdict == "fault"]


def _shown_html(finding: ServerFinding) -> str:
    """A fault that opens on a click: the values expected and seen, and a request that shows it."""
    words = {"expected": finding.expected, "seen": finding.seen}
    counts = html_text("; ".join(f"{name}: {each}" for name, each in words.items() if each))
    summary = html_text(_named(finding) + (f" ({finding.probe})" if finding.probe else ""))
    line = f"<p><code>{html_text(finding.curl)}</code></p>" if finding.curl else ""
    return f"<details><summary>{summary}</summary><p>{counts}</p>{line}</details>"

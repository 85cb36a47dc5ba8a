"""Several servers side by side: one table of what each came to, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dsv4.verify.report import GROUPS, ServerFinding, VerifyReport
from dsv4.verify.report_views import STYLE, headline, html_text, printable

# A report, or why there is none.
Reports = Mapping[str, VerifyReport | str]


def vendors_text(reports: Reports) -> str:
    """The table for a terminal: a column for each server, which are listed first."""
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
        listed = "".join(f"<li>{html_text(line)}</li>" for line in _findings(report))
        shown = "" if isinstance(report, str) else "".join(map(_shown_html, _faults(report)))
        parts.append(f"<section><h2>{html_text(url)}</h2><ul>{listed}</ul>{shown}</section>")
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
    """What the server is, and its faults."""
    if isinstance(report, str):
        yield report
        return
    yield headline(report)
    yield from (f"{finding.id}: {finding.message}" for finding in _faults(report))


def _faults(report: VerifyReport) -> list[ServerFinding]:
    return [finding for finding in report.findings if finding.verdict == "fault"]


def _shown_html(finding: ServerFinding) -> str:
    """The request that shows a fault, with what was expected and seen, to be opened."""
    words = [f"{finding.expected} expected" if finding.expected else "", finding.seen]
    counts = html_text(", ".join(filter(None, words)))
    line = f"<p><code>{html_text(finding.curl)}</code></p>" if finding.curl else ""
    return f"<details><summary>{html_text(finding.id)}</summary><p>{counts}</p>{line}</details>"

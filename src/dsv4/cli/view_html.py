"""A view as one page that needs no other file. Everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from dsv4.cli.view import Line, Row, View

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1f2328; --faint: #8b949e; --rule: #d8dee4;
  --system: #8250df; --user: #116329; --tool: #7d4e00; --assistant: #0550ae; --reasoning: #57606a;
  --calls: #953800; --frame: #6e7781; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --faint: #6e7681;
  --rule: #30363d; --system: #d2a8ff; --user: #7ee787; --tool: #e3b341; --assistant: #79c0ff;
  --reasoning: #a5b4c8; --calls: #ffa657; --frame: #484f58; } }
body { margin: 2em auto; max-width: 76em; padding: 0 1em; background: var(--back);
  color: var(--text); font: 14px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
h1 { font-size: 1.1em; margin: 0; } p { margin: .2em 0 1em; color: var(--faint); }
.row { display: grid; grid-template-columns: 13em 8em 4.5em 1fr; column-gap: 1em; }
.opens { border-top: 1px solid var(--rule); padding-top: .35em; margin-top: .35em; }
.role { font-weight: bold; } .field, .count { color: var(--faint); } .count { text-align: right; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 0; }
.system { color: var(--system); } .user, .developer { color: var(--user); }
.tool { color: var(--tool); } .assistant, .latest_reminder { color: var(--assistant); }
.reasoning { color: var(--reasoning); font-style: italic; } .calls { color: var(--calls); }
.template, .space, summary { color: var(--faint); } .text .space { opacity: .7; }
.flag { background: #d1242f; color: #fff; font-weight: bold; padding: 0 .15em; }
.pill { border-radius: .7em; padding: .05em .55em; color: #fff; font-size: .92em; }
.pill-turn { background: #0969da; } .pill-think { background: #8250df; }
.pill-frame { background: var(--frame); } .pill-task { background: #bf8700; }
.ending { font-weight: bold; color: #2da44e; } .silent { color: #d1242f; }
summary { cursor: pointer; }
"""
# Nothing is loaded, and nothing runs, whatever the conversation says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(view: View, title: str, unfold: bool) -> str:
    return "".join(_page(view, title, unfold))


def _page(view: View, title: str, unfold: bool) -> Iterator[str]:
    title = escape(title)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    yield f"<h1>{title}</h1>\n<p>{escape(view.total)}</p>\n"
    message: int | None = -1
    for row in view.rows:
        yield _row(row, row.message != message, unfold)
        message = row.message
    style = "ending" if view.ending.generates else "ending silent"
    mark = "▶" if view.ending.generates else "■"
    words = f'<span class="{style}">{mark} {escape(view.ending.words)}</span>'
    yield f"{_grid(('', '', ''), words, opens=True)}</body>\n</html>\n"


def _row(row: Row, opens: bool, unfold: bool) -> str:
    number = "–" if row.message is None else row.message
    role = f'{number} <span class="{row.role}">{row.role}</span>' if opens else ""
    count = "" if row.tokens is None else f"{row.tokens:,}"
    text = "\n".join(map(_line, row.lines))
    if row.summary is not None:
        state = " open" if unfold else ""
        text = f"<details{state}><summary>{escape(row.summary)}</summary>{text}</details>"
    return _grid((role, escape(row.field), count), text, opens)


def _grid(margin: tuple[str, str, str], text: str, opens: bool) -> str:
    role, field, count = margin
    return (
        f'<div class="row{" opens" if opens else ""}"><span class="role">{role}</span>'
        f'<span class="field">{field}</span><span class="count">{count}</span>'
        f'<div class="text">{text}</div></div>\n'
    )


def _line(line: Line) -> str:
    return "".join(
        f'<span class="{"pill " if style.startswith("pill") else ""}{style}">{escape(text)}</span>'
        for text, style in line
    )

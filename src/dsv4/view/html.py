"""A view as one page that needs no other file. Everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from dsv4.encoding.prompt import Prompt
from dsv4.view.rows import Line, Row, View, view_of
from dsv4.view.style import PAGE_STYLE, STYLE

# Nothing is loaded, and nothing runs, whatever the conversation says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(view: View, title: str, unfold: bool) -> str:
    """A page of its own."""
    return "".join(_page(view, escape(title), unfold))


def fragment(prompt: Prompt) -> str:
    """A part of somebody else's page, such as a notebook. Its styles are for this part alone."""
    body = "".join(_body(view_of(prompt), unfold=False))
    return f'<style>{STYLE}</style><div class="dsv4">{body}</div>'


def _page(view: View, title: str, unfold: bool) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{PAGE_STYLE}{STYLE}</style>\n</head>\n"
    yield f'<body class="dsv4">\n<h1>{title}</h1>\n'
    yield from _body(view, unfold)
    yield "</body>\n</html>\n"


def _body(view: View, unfold: bool) -> Iterator[str]:
    yield f"<p>{escape(view.total)}</p>\n"
    message: int | None = -1
    for row in view.rows:
        yield _row(row, row.message != message, unfold)
        message = row.message
    style = "ending" if view.ending.generates else "ending silent"
    mark = "▶" if view.ending.generates else "■"
    words = f'<span class="{style}">{mark} {escape(view.ending.words)}</span>'
    yield _grid(("", "", ""), words, opens=True)


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

"""A view as HTML that needs no other file. Everything from outside is escaped.

The whole prompt is one run of inline text. All decoration is drawn by the style sheet or cannot be
selected, so copying any part of the page gives exactly that part of the prompt.
Every text has a contrast of at least 4.5 (WCAG AA); tests/browser measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from dsv4._encode.prompt import Prompt
from dsv4._view.style_files import read_style
from dsv4._view.view_rows import Line, Segment, View, ViewRow, folded_row, view_of

PAGE_STYLE = read_style("page_frame")
STYLE = read_style("prompt_view")


# The page loads nothing and runs no script, whatever the conversation contains.
_CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# A list of messages is useful if there are more than fit on a screen.
MIN_MESSAGES_FOR_LIST = 4


def html_page(view: View, title: str, unfold: bool) -> str:
    """A complete page."""
    return "".join(_page(view, escape(title), unfold))


def html_fragment(prompt: Prompt) -> str:
    """A part of another page, such as a notebook. Its styles apply to this part only."""
    body = "".join(_body(view_of(prompt), unfold=False, place=f"p{id(prompt):x}-"))
    return f'<style>{STYLE}</style><div class="dsv4">{body}</div>'


def _page(view: View, title: str, unfold: bool) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{PAGE_STYLE}{STYLE}</style>\n</head>\n"
    yield f'<body class="dsv4">\n<header><h1>{title}</h1></header>\n<main>'
    yield from _body(view, unfold, place="")
    yield "</main>\n</body>\n</html>\n"


def _body(view: View, unfold: bool, place: str) -> Iterator[str]:
    """The content of a page. `place` makes the anchors of this view unique."""
    yield f'<p class="total">{escape(view.total)}</p>'
    yield from _list(view.rows, place)
    yield '<pre class="prompt">'
    message: int | None = -1
    for n, row in enumerate(view.rows):
        yield from _row(row, row.message != message, unfold, f"{place}{n}", place)
        message = row.message
    yield "</pre>"
    style, mark = ("ending", "▶") if view.ending.generates else ("ending silent", "■")
    yield f'<p class="{style}">{mark} {escape(view.ending.words)}</p>\n'


def _list(rows: Iterable[ViewRow], place: str) -> Iterator[str]:
    """The list of messages, each a link to its beginning."""
    roles = {row.message: row.role for row in rows if row.message is not None}
    if len(roles) < MIN_MESSAGES_FOR_LIST:
        return
    yield '<nav aria-label="messages"><ol>'
    for message, role in sorted(roles.items()):
        yield f'<li><a class="{role}" href="#{place}m{message}">{message} {role}</a></li>'
    yield "</ol></nav>"


def _row(row: ViewRow, opens: bool, unfold: bool, id: str, place: str) -> Iterator[str]:
    yield f'<span class="{_classes(row, opens)}">'
    yield _label(row, opens, place)
    folded = folded_row(row)
    yield "".join(map(_line, folded.head))
    if folded.summary:
        yield from _fold(folded.summary, "".join(map(_line, folded.rest)), unfold, id)
    for image in row.images:
        yield _image(image.caption, image.thumbnail)
    if row.ghost or row.note:
        yield f'<i class="note">{escape(str(row.ghost or row.note))}</i>'
    yield "</span>"


def _image(caption: str, thumbnail: str) -> str:
    """The caption of an image, and the picture if there is one."""
    drawn = f'<img src="{thumbnail}" alt="{escape(caption)}">' if thumbnail else ""
    return f'<i class="note image">{escape(caption)}</i>{drawn}'


def _classes(row: ViewRow, opens: bool) -> str:
    flags = {"opens": opens, "ghost": row.ghost is not None}
    flags |= {"trained": row.trained is True, "untrained": row.trained is False}
    return " ".join(["row", *(name for name, is_on in flags.items() if is_on)])


def _label(row: ViewRow, opens: bool, place: str) -> str:
    """The label of a row in the margin."""
    number = "–" if row.message is None else str(row.message)
    anchor = f' id="{place}m{row.message}"' if opens and row.message is not None else ""
    role = f'<span class="{row.role}">{row.role}</span>'
    name = f"<b{anchor}>{number} {role}</b>" if opens else "<b></b>"
    count = "" if row.tokens is None else f"{row.tokens:,}"
    return f'<i class="label">{name}<i>{escape(row.field)}</i><i class="count">{count}</i></i>'


def _fold(summary: str, text: str, unfold: bool, id: str) -> Iterator[str]:
    """Text that is shown when a box is ticked, which needs no script and keeps it inline."""
    state = " checked" if unfold else ""
    yield f'<input type="checkbox" class="fold" id="f{id}"{state}>'
    yield f'<label class="fold" for="f{id}">{escape(summary)}</label>'
    yield f'<span class="folded">{text}</span>'


def _line(line: Line) -> str:
    return "".join(map(_segment, line))


def _segment(segment: Segment) -> str:
    classes, text = css_classes_and_text(segment)
    if classes == "newline":
        return f'<span class="{classes}"></span>{text}'
    return f'<span class="{classes}">{escape(text)}</span>'


def css_classes_and_text(segment: Segment) -> tuple[str, str]:
    """The classes and the text of a segment. White space is unchanged: the style shows it."""
    text, style, original = segment
    if original == "\n":
        return "newline", original
    if original is not None and original.strip(" ") == "":
        return "spaces", original
    if original is not None and original.strip("\t") == "":
        return "tab", original
    return f"pill {style}" if style.startswith("pill") else style, text

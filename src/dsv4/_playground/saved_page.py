"""A conversation beside its prompt as one HTML file, which needs neither a server nor a script.

What belongs together is a pair of links: a click on a part of the prompt goes to the JSON that it
comes from, and back. The style sheet lights both while the pointer is over one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from dsv4._format.texts import read_text
from dsv4._playground.page_request import PageRequest, PlaygroundContext
from dsv4._playground.prompt_view import (
    PageRow,
    PageSide,
    SentSegment,
    rows_of,
    shown_side,
    tokenizer_for,
)
from dsv4._playground.provenance import SourceRange
from dsv4._view.html_page import PAGE_STYLE, STYLE, fold_html, image_html
from dsv4._view.view_rows import view_of

# Nothing is loaded, nothing runs and nothing is sent, whatever the conversation says.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
# Each place that lights up has a rule of its own, and browsers try them all as the pointer moves.
# Links work beyond that.
MOST_LIT_PLACES = 1000

_SAVED_STYLE = "\n" + read_text("saved_page.css", __file__)


def save_page(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, str]:
    """The file for what the page shows: its `name`, and its `html`.

    `body` has the JSON text `source`, the switches, and `shown`, the side whose prompt is saved.
    """
    page = PageRequest.from_body(body, context)
    return {"name": "dsv4-prompt.html", "html": "".join(_page(page, shown_side(body, page)))}


def _page(page: PageRequest, side: PageSide) -> Iterator[str]:
    tokenizer, _ = tokenizer_for(page.context.tokenizer, side.prompt)
    view = view_of(side.prompt, side.messages, tokenizer)
    rows = rows_of(side, view, [], None)
    places = _Places(page, rows)
    title = f"A prompt of {escape(side.title)}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{PAGE_STYLE}{STYLE}{_SAVED_STYLE}"
    yield from places.rules()
    yield "</style>\n</head>\n"
    yield f'<body class="dsv4 saved">\n<header><h1>{title}</h1></header>\n'
    yield f'<main><p class="total">{escape(view.total)}</p>\n<div class="sides">\n'
    yield '<section tabindex="0" aria-label="Request"><h2>Request</h2>\n<pre class="source">'
    yield from _source(page.source.text, places)
    yield '</pre></section>\n<section tabindex="0" aria-label="Prompt"><h2>Prompt</h2>\n'
    yield '<pre class="prompt">'
    yield from _prompt(rows, places)
    style, mark = ("ending", "▶") if view.ending.generates else ("ending silent", "■")
    yield f'</pre><p class="{style}">{mark} {escape(view.ending.words)}</p></section>\n'
    yield "</div></main>\n</body>\n</html>\n"


class _Places:
    """The places of the source that parts of the prompt come from, by number."""

    def __init__(self, page: PageRequest, rows: Iterable[PageRow]) -> None:
        self._source = page.source
        self.numbers: dict[SourceRange, int] = {}
        self._reached: set[int] = set()
        for row in rows:
            for place in self._places_of(row):
                if place is not None:
                    self.numbers.setdefault(place, len(self.numbers))

    def _places_of(self, row: PageRow) -> Iterator[SourceRange | None]:
        for location in row.sources:
            yield self._source.nearest(location) if location else None

    def numbers_of(self, row: PageRow) -> list[int | None]:
        """The number of each source of a row; None where it has no place."""
        return [None if place is None else self.numbers[place] for place in self._places_of(row)]

    def anchor(self, number: int) -> str:
        """The id of the first part that comes from a place: that is where links to it lead."""
        if number in self._reached:
            return ""
        self._reached.add(number)
        return f' id="r{number}"'

    def rules(self) -> Iterator[str]:
        """A rule for each place, which lights it while the pointer is over what belongs to it."""
        for n in range(min(len(self.numbers), MOST_LIT_PLACES)):
            yield f".saved:has(.prompt .p{n}:hover) #j{n},"
            yield f".saved:has(.source .p{n}:hover) .prompt .p{n}{{background:var(--lit)}}\n"


def _source(text: str, places: _Places) -> Iterator[str]:
    """The JSON. Places are nested as its values are; each character links from the innermost."""
    opening: dict[int, list[tuple[int, int]]] = {}
    for (start, end), number in places.numbers.items():
        opening.setdefault(start, []).append((end, number))
    borders = sorted({0, len(text), *(border for place in places.numbers for border in place)})
    around: list[tuple[int, int]] = []
    for start, end in pairwise(borders):
        while around and around[-1][0] <= start:
            around.pop()
            yield "</span>"
        for outer in sorted(opening.get(start, ()), reverse=True):
            around.append(outer)
            yield f'<span id="j{outer[1]}">'
        shown = escape(text[start:end])
        innermost = around[-1][1] if around else None
        link = f'<a class="p{innermost}" href="#r{innermost}">{shown}</a>'
        yield shown if innermost is None else link
    yield "</span>" * len(around)


def _prompt(rows: Sequence[PageRow], places: _Places) -> Iterator[str]:
    before: object = ()
    for n, row in enumerate(rows):
        sent, numbers = row.sent, places.numbers_of(row)
        opens = sent["message"] != before
        before = sent["message"]
        classes = ["row", *(["opens"] if opens else []), *(["ghost"] if sent["ghost"] else [])]
        yield f'<span class="{" ".join(classes)}">{_label(sent, opens)}'
        yield "".join(_segment(each, numbers, places) for each in sent["head"])
        if sent["fold"] is not None:
            rest = "".join(_segment(each, numbers, places) for each in sent["rest"])
            yield from fold_html(sent["fold"], rest, False, str(n))
        for image in sent["images"]:
            yield image_html(image["caption"], image["thumbnail"])
        if sent["note"]:
            yield f'<i class="note">{escape(str(sent["note"]))}</i>'
        yield "</span>"


def _label(sent: Mapping[str, Any], opens: bool) -> str:
    """What stands in the margin."""
    number = "–" if sent["message"] is None else sent["message"]
    name = f'{number} <span class="{sent["role"]}">{sent["role"]}</span>' if opens else ""
    count = "" if sent["tokens"] is None else f"{sent['tokens']:,}"
    field = f'<i>{escape(sent["field"])}</i><i class="count">{count}</i>'
    return f'<i class="label"><b>{name}</b>{field}</i>'


def _segment(sent: SentSegment, numbers: Sequence[int | None], places: _Places) -> str:
    text, classes, source, *_ = sent
    number = numbers[source] if source >= 0 else None
    # The style sheet draws what stands for a line feed: the text is there to be copied.
    shown, after = ("", text) if classes == "newline" else (escape(text), "")
    if number is None:
        return f'<span class="{classes}">{shown}</span>{after}'
    marks = f'class="{classes} p{number}"{places.anchor(number)}'
    # White space alone is nothing that a link could be called by.
    if not text.strip():
        return f"<span {marks}>{shown}</span>{after}"
    return f'<a href="#j{number}" {marks}>{shown}</a>{after}'

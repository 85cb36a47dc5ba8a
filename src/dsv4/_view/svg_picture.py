"""Lines of a view as an SVG picture of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from dsv4._view.characters import width_of
from dsv4._view.view_rows import Line, Segment

CELL, ROW, SIZE = 7.8, 20, 13
LEFT, TOP, BOTTOM = 16, 58, 16

_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_FILL = {
    "system": "#d2a8ff",
    "user": "#7ee787",
    "developer": "#7ee787",
    "tool": "#e3b341",
    "latest_reminder": "#a5d6ff",
    "assistant": "#79c0ff",
    "reasoning": "#a5b4c8",
    "calls": "#ffa657",
    "template": "#8b949e",
    "flag": "#ffffff",
    "space": "#57606a",
    "margin": "#8b949e",
    "name": "#e6edf3",
    "plain": "#c9d1d9",
    "ghost": "#848d97",
    "note": "#d29922",
    "trained": "#56d364",
    "generates": "#56d364",
    "silent": "#ff7b72",
}
_BACKGROUND = {
    "flag": "#d1242f",
    "pill-turn": "#1f6feb",
    "pill-think": "#8957e5",
    "pill-frame": "#484f58",
    "pill-task": "#9e6a03",
}
_EXTRA = {
    "ghost": ' text-decoration="line-through"',
    "reasoning": ' font-style="italic"',
    "name": ' font-weight="bold"',
}


def svg_picture(lines: Iterable[Line], width: int, title: str) -> str:
    """The lines, each segment put where a terminal would put it, whatever font there is."""
    drawn = [list(line) for line in lines]
    across = LEFT * 2 + width * CELL
    down = TOP + len(drawn) * ROW + BOTTOM
    size = f'viewBox="0 0 {across:g} {down:g}" width="{across:g}" height="{down:g}"'
    font = f'font-family="{_FONT}" font-size="{SIZE}"'
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>\n',
            f"<title>{escape(title)}</title>\n",
            "<style>text { white-space: pre; }</style>\n",
            f'<rect width="{across:g}" height="{down:g}" rx="8" fill="#0d1117"/>\n',
            *_window(title, across),
            *(part for n, line in enumerate(drawn) for part in _line(line, TOP + n * ROW)),
            "</svg>\n",
        ]
    )


def _window(title: str, across: float) -> Iterator[str]:
    for n, color in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        yield f'<circle cx="{LEFT + 6 + n * 18}" cy="20" r="5.5" fill="{color}"/>'
    yield (
        f'\n<text x="{across / 2:g}" y="24" text-anchor="middle" fill="#8b949e">'
        f"{escape(title)}</text>\n"
    )


def _line(line: list[Segment], top: float) -> Iterator[str]:
    """Behind: what is coloured. In front: one text, its segments at their columns."""
    column = 0
    spans = []
    for text, style, _ in line:
        cells = width_of(text)
        x, length = LEFT + column * CELL, cells * CELL
        if style in _BACKGROUND:
            radius = 3 if style == "flag" else 8
            yield (
                f'<rect x="{x:g}" y="{top - 13:g}" width="{length:g}" height="17" '
                f'rx="{radius}" fill="{_BACKGROUND[style]}"/>'
            )
        if text.strip():
            spans.append(_span(text, style, x))
        column += cells
    yield f'<text y="{top:g}">{"".join(spans)}</text>\n'


def _span(text: str, style: str, x: float) -> str:
    bare = text.strip(" ")
    x += (len(text) - len(text.lstrip(" "))) * CELL
    fill, extra = _FILL.get(style, "#ffffff"), _EXTRA.get(style, "")
    fitted = f'textLength="{width_of(bare) * CELL:g}" lengthAdjust="spacingAndGlyphs"'
    return f'<tspan x="{x:g}" {fitted} fill="{fill}"{extra}>{escape(bare)}</tspan>'

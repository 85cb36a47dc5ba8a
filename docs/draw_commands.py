"""Draws what commands print, as pictures for the documentation: python docs/draw_commands.py"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from dsv4._inputs.request_bodies import RequestOverrides
from dsv4._view.characters import width_of
from dsv4._view.terminal_lines import terminal_lines
from dsv4._view.view_rows import Line, Segment, view_of
from dsv4.tokens import Tokenizer

ROOT = Path(__file__).parent.parent
WIDTH = 118
COLOURED = ["--color", "always"]
VARIABLES = {"COLUMNS": str(WIDTH)}
PICTURES = {
    "why": ["why", "examples/answer.txt"],
    "check": ["check", "examples/mistakes.json"],
    "count": ["count", "examples/conversation.json"],
    "diff": ["diff", "examples/chat.json", "examples/chat-next.json"],
    "explain": [
        *("parse", "--explain", "--tools", "examples/conversation.json"),
        "examples/completion.txt",
    ],
}
# The codes that commands paint with -> the styles of a picture.
STYLES = {
    "": "plain",
    "1": "name",
    "2": "margin",
    "31": "silent",
    "32": "generates",
    "33": "note",
    "36": "assistant",
    "1;31": "silent",
    "1;33": "note",
    "1;34": "assistant",
}
CODED = re.compile(r"\x1b\[([\d;]*)m")


def drawn(arguments: list[str]) -> str:
    """The picture of what a command prints."""
    command = [sys.executable, "-m", "dsv4", *arguments, *COLOURED]
    environment = {**os.environ, **VARIABLES, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    return picture(arguments, done.stdout.decode())


def picture(arguments: list[str], printed: str) -> str:
    """The picture of a command that printed this."""
    lines = [part for line in printed.splitlines() for part in wrapped(line)]
    return svg_picture(lines, WIDTH, f"dsv4 {' '.join(arguments)}")


def drawn_prompt() -> str:
    """The picture of what `dsv4 show` prints of the example."""
    name = "examples/conversation.json"
    request = RequestOverrides().read(json.loads((ROOT / name).read_text("utf-8"))).request
    view = view_of(request.encode(), list(request.messages), Tokenizer.load())
    lines = terminal_lines(view, WIDTH, unfold=False, signs=False)
    return svg_picture(lines, WIDTH, f"dsv4 show {name}")


def wrapped(line: str) -> list[Line]:
    """A line as a terminal breaks it."""
    rows: list[list[Segment]] = [[]]
    used = 0
    for segment in segments(line):
        for word in re.findall(r"\s+|\S+", segment.text):
            size = width_of(word)
            if used + size > WIDTH and not word.isspace():
                rows.append([Segment("    ", "plain")])
                used = 4
            rows[-1].append(Segment(word, segment.style))
            used += size
    return [tuple(row) for row in rows]


def segments(line: str) -> list[Segment]:
    parts = CODED.split(line)
    styles = ["", *(("" if code == "0" else code) for code in parts[1::2])]
    return [
        Segment(text, STYLES[code]) for text, code in zip(parts[::2], styles, strict=True) if text
    ]


# Lines as an SVG picture of a terminal. Everything from outside is escaped.

CELL, ROW, SIZE = 7.8, 20, 13
LEFT, TOP, BOTTOM = 16, 58, 16

_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# By the kind of a segment: the colour of its text, what is behind it, and what else it has.
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
            *(part for n, line in enumerate(drawn) for part in _svg_line(line, TOP + n * ROW)),
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


def _svg_line(line: list[Segment], top: float) -> Iterator[str]:
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


# Reports of servers that tests have: what `dsv4 verify` prints for them.
REPORTS: dict[str, tuple[str, ...]] = {
    "verify-clean": ("dsv4", "v4-0731"),
    "verify-vllm": ("vllm-0.32", "v4"),
    "verify-proxy": ("vllm-0.32", "v4", "effort-max-as-high", "reasoning-space"),
}
REPORT_CODES = {"FAULT": "1;31", "differs": "33", "pass": "32"}


def drawn_report(server: tuple[str, ...]) -> str:
    """The picture of a report, up to the details of faults."""
    sys.path.insert(0, str(ROOT / "tests" / "verify"))
    import stand_ins

    from dsv4.verify import run
    from dsv4.verify.report_views import report_text

    report = run(stand_ins.StandIn(stand_ins.server(*server)), "deepseek-v4-flash")
    lines = report_text(report).splitlines()
    end = next((n for n, line in enumerate(lines[3:], 3) if not line), len(lines))
    painted = [painted_line(line) for line in lines[:end]]
    return svg_picture([row for line in painted for row in wrapped(line)], WIDTH, "dsv4 verify")


def painted_line(line: str) -> str:
    """A line of a report with its verdict in colour, as an escape sequence says it."""
    word, _, rest = line[12:].partition(" ")
    code = REPORT_CODES.get(word)
    return line if code is None else f"{line[:12]}\x1b[{code}m{word}\x1b[0m {rest}"


if __name__ == "__main__":
    Path(__file__).with_name("show.svg").write_text(drawn_prompt(), encoding="utf-8")
    for name, server in REPORTS.items():
        Path(__file__).with_name(f"{name}.svg").write_text(drawn_report(server), encoding="utf-8")
    for name, arguments in PICTURES.items():
        Path(__file__).with_name(f"{name}.svg").write_text(drawn(arguments), encoding="utf-8")

"""Draws what commands print, as pictures for the documentation: python docs/draw_commands.py"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from dsv4._view.characters import width_of
from dsv4._view.html_page import svg_picture
from dsv4._view.view_rows import Line, Segment

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
    for name, server in REPORTS.items():
        Path(__file__).with_name(f"{name}.svg").write_text(drawn_report(server), encoding="utf-8")
    for name, arguments in PICTURES.items():
        Path(__file__).with_name(f"{name}.svg").write_text(drawn(arguments), encoding="utf-8")

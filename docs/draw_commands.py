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
PICTURES = {
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
    command = [sys.executable, "-m", "dsv4", *arguments, "--color", "always"]
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    lines = [part for line in done.stdout.decode().splitlines() for part in wrapped(line)]
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


if __name__ == "__main__":
    for name, arguments in PICTURES.items():
        Path(__file__).with_name(f"{name}.svg").write_text(drawn(arguments), encoding="utf-8")

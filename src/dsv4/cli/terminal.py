"""Colour, where somebody looks at it: on a terminal, and not where `NO_COLOR` is set."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TextIO

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
PIPED_WIDTH = 100


def add_color_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours: on a terminal (auto, unless NO_COLOR is set), always or never",
    )


def uses_color(choice: str, stream: TextIO) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Paint:
    """Puts text in colour, or leaves it alone."""

    def __init__(self, choice: str = "auto", stream: TextIO | None = None) -> None:
        self.on = uses_color(choice, stream or sys.stdout)

    def __call__(self, text: str, *styles: str) -> str:
        return self.coded(text, ";".join(_STYLES[style] for style in styles))

    def coded(self, text: str, code: str) -> str:
        """Text in the colours of an SGR code, such as "1;31"."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def terminal_width() -> int:
    """How many columns there are; `COLUMNS` has the last word."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns

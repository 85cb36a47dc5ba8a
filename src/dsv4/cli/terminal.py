"""Colour, where somebody looks at it: on a terminal, and not where `NO_COLOR` is set."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def own_stderr() -> Iterator[None]:
    """Keeps stderr to ourselves: what libraries in C++ and the processes they start write there is
    thrown away. Ray writes pages."""
    if sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    before, kept = sys.stderr, os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = open(kept, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        sys.stderr.close()
        sys.stderr = before


def add_color_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="when to use colour: auto (the default) means on terminals, unless NO_COLOR is set",
    )


def uses_color(choice: str, stream: TextIO | None) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()


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

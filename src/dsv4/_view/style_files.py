"""The style sheets of pages that need no other file: they are beside this module."""

from __future__ import annotations

import os


def read_style(name: str) -> str:
    """A style sheet as it goes into a page, on lines of its own."""
    path = os.path.join(os.path.dirname(__file__), f"{name}.css")
    with open(path, encoding="utf-8", newline="") as file:
        return f"\n{file.read()}"

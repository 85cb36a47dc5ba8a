"""How pages and terminals look: style sheets and colours, in files beside this module."""

from __future__ import annotations

import json
import os


def read_style(name: str) -> str:
    """A style sheet as it goes into a page, on lines of its own."""
    return f"\n{_read(f'{name}.css')}"


def _read(name: str) -> str:
    path = os.path.join(os.path.dirname(__file__), name)
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


# By the kind of a segment: codes of terminals, colours of pictures, and what else these have.
COLOURS: dict[str, dict[str, str]] = json.loads(_read("colours.json"))

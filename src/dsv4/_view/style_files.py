"""How pages and terminals look: style sheets and colours, in files beside this module."""

from __future__ import annotations

from dsv4._format.texts import read_table, read_text


def read_style(name: str) -> str:
    """A style sheet as it goes into a page, on lines of its own."""
    return f"\n{read_text(f'{name}.css', __file__)}"


# By the kind of a segment: codes of terminals, which have these colours in a shade that suits their
# background.
ANSI_CODES: dict[str, str] = read_table("colours", __file__)

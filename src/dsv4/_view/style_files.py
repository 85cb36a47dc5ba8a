"""The look of pages and terminals: style sheets and colours, in files beside this module."""

from __future__ import annotations

from dsv4._format.texts import read_table, read_text


def read_style(name: str) -> str:
    """A style sheet as it is put into a page, on lines of its own."""
    return f"\n{read_text(f'{name}.css', __file__)}"


# The colour codes by the kind of a segment. Terminals show these colours in a shade that suits
# their background.
ANSI_CODES: dict[str, str] = read_table("colours", __file__)

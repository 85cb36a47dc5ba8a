"""Draws the parser's states from their table into docs/parsing.md: python docs/draw_states.py"""

from __future__ import annotations

import sys
from pathlib import Path

from dsv4._parse.machine import NEXT, ParserState

PAGE = Path(__file__).with_name("parsing.md")
BEGIN, END = "<!-- states:begin -->\n", "<!-- states:end -->"


def drawing() -> str:
    """A Mermaid diagram, and what the states are."""
    arrows = [
        f"    {state.name} --> {after.name}"
        for state in ParserState
        for after in ParserState
        if after in NEXT[state]
    ]
    rows = [f"| `{state.name}` | {state.value} |" for state in ParserState]
    return "\n".join(
        [
            *("```mermaid", "stateDiagram-v2", "    [*] --> PROSE"),
            *arrows,
            *("```", "", "| state | what is read |", "|---|---|"),
            *rows,
            "",
        ]
    )


def drawn(page: str) -> str:
    """The page with the drawing as the table has it now."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + drawing() + END + after


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(drawn(page), encoding="utf-8")
    sys.stdout.write(drawing())

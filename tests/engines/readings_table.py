"""How many rows of each corpus the parsers of servers read right, for the end of a run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from corpus_rows import NAMES, Reading, Row, rows_for_parsers

# Of each reader: how many rows of a corpus it read right.
COUNTS: dict[str, dict[str, int]] = {}


def count(reader: str, readings: Iterable[tuple[Row, Reading | None]]) -> None:
    """Counts what a reader made of rows; None is a row that it failed at."""
    right: dict[str, int] = defaultdict(int)
    for row, reading in readings:
        right[row.corpus] += reading is not None and row.is_read_right(reading)
    COUNTS[reader] = dict(right)


def table() -> str:
    """The counts as a table in Markdown."""
    known = rows_for_parsers()
    heads = [f"{name} ({sum(row.corpus == name for row in known)})" for name in NAMES]
    lines = [_line("reader", *heads), _line("---", *["---"] * len(NAMES))]
    lines += [
        _line(reader, *(right.get(name, 0) for name in NAMES)) for reader, right in COUNTS.items()
    ]
    return "\n".join(lines)


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def reading_of(given: Any) -> Reading | None:
    """A reading of a script's, which has arguments as text."""
    if given is None:
        return None
    calls = [(name, loaded(arguments)) for name, arguments in given["calls"]]
    return Reading(given["reasoning"], given["content"], calls)


def loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments  # which no corpus wants


def differing(
    found: Sequence[Reading | None], known: Sequence[Row], *, blank: bool = True
) -> list[str]:
    """The rows that are not read as `dsv4.parse` reads them, each with both readings.

    Without `blank`, content of white space beside calls does not count: vLLM drops it.
    """
    wrong = []
    for row, reading in zip(known, found, strict=True):
        expected = row.parsed_inside()
        if not blank and expected.calls and not expected.content.strip():
            expected = Reading(expected.reasoning, "", expected.calls)
        same = reading is not None and (reading.reasoning, reading.content, reading.calls) == (
            expected.reasoning,
            expected.content,
            expected.calls,
        )
        if not same:
            wrong.append(f"{row.name}\n  {reading}\n  {expected}")
    return wrong

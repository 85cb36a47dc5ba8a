"""The catalogue of diagnostics in docs/parsing.md: every kind, with an example that gives it."""

from __future__ import annotations

import re
from pathlib import Path

from dsv4.parsing import diagnostics

PAGE = Path(__file__).parent.parent / "docs" / "parsing.md"
CATALOGUE = PAGE.read_text("utf-8").split("\n## Diagnostics\n")[1].split("\n## ")[0]

TABLE = re.compile(r"^\| kind \|.*\n\|---.*\n((?:\|.*\n)+)", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)

TABLES = [ROW.findall(rows) for rows in TABLE.findall(CATALOGUE)]
# What an example prints before the colon are the kinds it gives.
GIVEN = [
    [line.partition(":")[0].split() for line in text.splitlines()]
    for text in PRINTED.findall(CATALOGUE)
]


def test_it_lists_every_kind_once() -> None:
    kinds = [value for name, value in vars(diagnostics).items() if name.isupper()]
    assert sorted(kind for table in TABLES for kind in table) == sorted(kinds)


def test_each_kind_has_an_example_in_its_place() -> None:
    assert [len(table) for table in TABLES] == [len(lines) for lines in GIVEN]
    for table, lines in zip(TABLES, GIVEN, strict=True):
        for kind, given in zip(table, lines, strict=True):
            assert kind in given

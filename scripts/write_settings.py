"""Writes the table of settings into docs/serving.md, from the settings themselves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from dsv4.serve.settings import Settings

PAGE = Path(__file__).parent.parent / "docs" / "serving.md"
START, END = "<!-- settings -->", "<!-- /settings -->"


def table() -> str:
    """Every setting with its default and its help."""
    rows = ["| setting | default | |", "|---|---|---|"]
    for field in dataclasses.fields(Settings):
        rows.append(f"| `{field.name}` | {_default(field.default)} | {field.metadata['help']} |")
    return "\n".join(rows)


def _default(value: object) -> str:
    if value is None or value == ():
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")

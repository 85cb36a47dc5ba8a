"""What checks of answers, routes and caches may find: a table, in check_findings.json."""

from __future__ import annotations

from typing import Any

from dsv4._format.texts import read_table
from dsv4.verify.report import HEAL, ServerFinding

_ROWS: dict[str, dict[str, str]] = {
    row.pop("key"): row for row in read_table("check_findings", __file__)
}


def check_finding(
    key: str, *, expected: str = "", seen: str = "", probe: str = "", **values: Any
) -> ServerFinding:
    """The finding of a row. Its id is the `key`, up to a colon: what is found in one place may be
    good, or bad. `values` go into its message; `probe` is the request that shows it, where that is
    not always the same one."""
    row = _ROWS[key]
    message = row["message"].format(**values)
    mend = {"mend": HEAL} if row["verdict"] == "fault" else {}
    fields = {**mend, **row, "message": message, "probe": probe or row.get("probe", "")}
    return ServerFinding(id=key.partition(":")[0], expected=expected, seen=seen, **fields)  # type: ignore[arg-type]

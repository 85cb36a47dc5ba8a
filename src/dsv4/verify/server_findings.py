"""Findings as values, and the table of those that checks of answers, routes and caches may make,
which is in check_findings.json.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dsv4._format.texts import read_table
from dsv4.verify.server_client import Reply

Standing: TypeAlias = Literal["pass", "differs", "fault", "inconclusive", "not offered"]
NOT_EXPLAINED = "not-explained"
HEAL = "put `dsv4 heal` or `dsv4 serve` in front of it"
CHAT = "/chat/completions"
# Sends a body to a path.
Post: TypeAlias = Callable[[str, Mapping[str, Any]], Reply]


@dataclass(frozen=True)
class ServerFinding:
    """Something to know about a server.

    `id` is stable: that of a fault, several joined by `|` if it is one of them, "not-explained", or
    that of an output check. `expected` and `seen` are the evidence, with the request as a `curl`
    line; `shown_by` are all requests that show it.
    """

    id: str
    group: str
    verdict: Standing
    message: str
    effect: str = ""
    mend: str = ""
    probe: str = ""
    expected: str = ""
    seen: str = ""
    curl: str = ""
    shown_by: tuple[str, ...] = ()


_ROWS: dict[str, dict[str, str]] = {
    row.pop("key"): row for row in read_table("check_findings", __file__)
}


def check_finding(
    key: str, *, expected: str = "", seen: str = "", probe: str = "", **values: Any
) -> ServerFinding:
    """The finding of a row. Its id is the `key` up to a colon: one check may have a good and a bad
    finding. `values` go into its message; `probe` is the request that shows it, if that is not
    always the same one."""
    row = _ROWS[key]
    message = row["message"].format(**values)
    mend = {"mend": HEAL} if row["verdict"] == "fault" else {}
    fields = {**mend, **row, "message": message, "probe": probe or row.get("probe", "")}
    return ServerFinding(id=key.partition(":")[0], expected=expected, seen=seen, **fields)  # type: ignore[arg-type]


def curl_line(url: str, model: str, body: Mapping[str, Any], path: str = CHAT) -> str:
    """The request as a line for a shell, with the key as a variable."""
    short = {"max_tokens": 1} if path == CHAT else {}
    data = json.dumps({"model": model, **short, **body}, ensure_ascii=False)
    head = f"curl -s {shlex.quote(url + path)} -H 'content-type: application/json'"
    return f'{head} -H "authorization: Bearer $KEY" -d {shlex.quote(data)}'

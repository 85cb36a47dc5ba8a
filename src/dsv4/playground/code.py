"""Pieces of code that run as they are: literals, a test, a call with curl."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Mapping
from pprint import pformat
from typing import Any

from dsv4.playground.bench import Bench

WIDTH = 88
_HALVES = re.compile("[\ud800-\udfff]")


def curl(url: str, function: str, sent: Mapping[str, Any], bench: Bench) -> str:
    """A call of a function of the playground's."""
    return curl_to(f"{url}/playground/api/{function}", sent, bench)


def curl_to(address: str, sent: Mapping[str, Any], bench: Bench, options: str = "-s") -> str:
    """A call of any address. Its body is quoted for a shell."""
    key = " \\\n  -H 'authorization: Bearer KEY'" if bench.asks_for_key else ""
    # Half characters have no UTF-8, which a shell is written in.
    text = json.dumps(sent, ensure_ascii=False, indent=2)
    data = _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    head = f"curl {options} {shlex.quote(address)} \\\n  -H 'content-type: application/json'{key}"
    return f"{head} \\\n  --data-binary {shlex.quote(data)}\n"


def named(value: Any, name: str = "BODY") -> str:
    return f"{name} = {literal(value)}"


def literal(value: Any) -> str:
    """A JSON value as Python writes it; through JSON where Python has no literal for it (NaN)."""
    written = pformat(value, width=WIDTH, sort_dicts=False)
    try:
        if ast.literal_eval(written) == value:
            return written
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pass
    return f"__import__('json').loads({json.dumps(value)!r})"


def keywords(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={literal(value)}" for name, value in values.items())


def lines(text: str) -> str:
    """A text as a literal, a line of it in each line."""
    parts = text.splitlines(keepends=True) or [""]
    written = "\n".join(f"    {part!r}" for part in parts)
    return f"(\n{written}\n)"


def case(name: str, verb: str, made: str, expected: str, claim: str) -> str:
    """A test that runs what is `made`, and claims something of it."""
    statements = [*made.split("\n"), *expected.split("\n"), f"assert {claim}"]
    return f"def test_the_{name}_{verb}_as_expected() -> None:\n" + "".join(
        f"    {line}\n" if line else "\n" for line in statements
    )

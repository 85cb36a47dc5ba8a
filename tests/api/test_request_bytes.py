"""Bodies as bytes: whatever reads them, they say what Python's own reader says."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.api import ApiError
from dsv4.api.request_fields import parse_json
from rows import each_row

jiter = pytest.importorskip("jiter")

VALUES = [
    *("1" * 30, "-9223372036854775809", "18446744073709551616", "1" * 4000, "1" * 5000, "-0"),
    *("1e400", "-1e400", "-0.0", "1.50", "5e-324", "9007199254740993.0", "0." + "1" * 40, "1E5"),
    *(
        "NaN",
        "-Infinity",
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"a\\u0000"',
        '"\x00"',
        '"\x7f"',
        '"\n"',
    ),
    *('{"a": 1, "b": 2, "a": 3}', '{"z": 1, "a": 2}', "01", "+1", ".5", "1.", "[1,]", "{1: 2}"),
    *("[" * 150 + "]" * 150, "[" * 900 + "]" * 900, "[" * 9000, '"\\x"', "", "'a'", "nul"),
]


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types, in the same order; not a number is the same as itself."""
    return repr(one) == repr(other)


def own(data: bytes) -> Any:
    """A reader that reads nothing, and so leaves everything to Python's own."""
    raise ValueError


def outcome(data: bytes, loads: Any) -> Any:
    try:
        return parse_json(data, loads)
    except ApiError as error:
        return str(error)


@each_row("value", VALUES)
def test_odd_values(value: str) -> None:
    data = b'{"x": ' + value.encode() + b"}"
    assert same(outcome(data, jiter.from_json), outcome(data, own))
    assert same(outcome(data, None), outcome(data, own))


@given(st.dictionaries(st.text(), st.floats() | st.integers() | st.text(), max_size=3))
def test_any_values(body: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        try:
            data = json.dumps(body, ensure_ascii=ascii_only).encode()
        except UnicodeEncodeError:
            continue
        assert same(outcome(data, jiter.from_json), outcome(data, own))


def test_any_bytes() -> None:
    dice = random.Random(5)
    start = '{"a": [1, 2.5, -3e5, 1000000000000000000000, null, "é😀\\u00e9\\n"], "b": {"a": "x"}}'
    for _ in range(3000):
        data = bytearray(start.encode())
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(data))
            data[at : at + dice.randint(0, 2)] = dice.choice(
                [b"", b'"', b"{", b"}", b"\\", b"\\ud8", b",", b"1e9", b"\xed\xa0", b"\x00", b"-"]
            )
        assert same(outcome(bytes(data), jiter.from_json), outcome(bytes(data), own))

"""JSON text with places: every value is found where it stands, and bad text at its line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4._playground.page_problem import PageProblem
from dsv4._playground.provenance import MAX_DEPTH, JsonSource
from dsv4.errors import Location

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def all_values(value: Any, location: Location = ()) -> dict[Location, Any]:
    found = {location: value}
    steps = value.items() if isinstance(value, dict) else ()
    for step, inner in enumerate(value) if isinstance(value, list) else steps:
        found |= all_values(inner, (*location, step))
    return found


@given(VALUES, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_every_value_stands_where_it_is_said_to(value: Any, indent: Any, ascii: bool) -> None:
    text = f" \n{json.dumps(value, indent=indent, ensure_ascii=ascii)}\r\n"
    source = JsonSource(text)
    read = {at: json.loads(text[slice(*place)]) for at, place in source.ranges.items()}
    assert read == all_values(value)


@given(VALUES)
def test_places_are_counted_as_browsers_count(value: Any) -> None:
    source = JsonSource(json.dumps(value, ensure_ascii=False))
    units = source.text.encode("utf-16-le", "surrogatepass")
    for location, place in source.ranges.items():
        start, end = source.in_units(place)
        shown = units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass")
        assert shown == source.text[slice(*place)], location


def test_of_a_name_that_comes_twice_the_last_counts() -> None:
    source = JsonSource('{"a": 1, "a": 22}')
    assert source.text[slice(*source.ranges["a",])] == "22"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "found nothing, expected JSON"),
        ('{\n  "a": 1,\n  "b" 2\n}', 3, 7, "not JSON: expecting ':' delimiter"),
        ('["😀",\n "😀" x]', 2, 6, "not JSON: expecting ',' delimiter"),
        ('["a\n"]', 1, 4, "not JSON: invalid control character"),
        ('["a', 1, 2, "not JSON: unterminated string"),
        ("[1,]", 1, 4, "not JSON: a comma before ]"),
        ("'a'", 1, 1, "not JSON: expecting value"),
    ],
)
def test_text_that_is_no_json_is_refused_at_its_line(
    text: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(PageProblem) as caught:
        JsonSource(text)
    problem = caught.value
    if problem.message.startswith("not JSON: illegal trailing comma"):  # newer Pythons' words
        return
    assert (problem.line, problem.column) == (line, column)
    assert problem.message == words
    before = text.split("\n")[: line - 1]
    units = len("\n".join([*before, ""]).encode("utf-16-le")) // 2
    assert problem.start is not None
    assert problem.start >= units


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_what_is_nested_too_deep_is_refused(depth: int) -> None:
    with pytest.raises(PageProblem, match="nested too deep"):
        JsonSource("[" * depth + "]" * depth)


def test_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(PageProblem, match="not JSON"):
        JsonSource("9" * 5_000)


def test_a_problem_stands_at_the_nearest_value() -> None:
    source = JsonSource('{"messages": [\n {"role": 5}\n]}')
    problem = source.problem("found 5", ("messages", 0, "role"))
    assert (problem.line, problem.column) == (2, 11)
    assert source.text[problem.start : problem.end] == "5"
    around = source.problem("found nothing", ("messages", 0, "content"))
    assert source.text[around.start : around.end] == '{"role": 5}'

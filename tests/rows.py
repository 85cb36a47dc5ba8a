"""Tests over many recorded rows: one test that goes through all of them and names those that fail.

To collect and report thousands of tests takes longer than to run what is in them. Where a row needs
no fixture of its own, `each_row` takes the place of `pytest.mark.parametrize`. With DSV4_TESTS=rows
it is the same, so that one row can be chosen: `DSV4_TESTS=rows pytest -k v4:17 …`.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

import pytest

ONE_BY_ONE = os.environ.get("DSV4_TESTS") == "rows"
MOST_SHOWN = 5

Test = Callable[..., None]


def each_row(names: str, rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Runs a test with every row, as `pytest.mark.parametrize(names, rows)` would.

    All rows are run, even if some fail. A row that skips itself is passed over; where all do, the
    test is skipped.
    """
    listed = list(rows)
    if ONE_BY_ONE:
        return pytest.mark.parametrize(names, listed)
    arguments = [name.strip() for name in names.split(",")]

    def decorate(test: Test) -> Test:
        @wraps(test)
        def over_all_rows(*args: Any, **fixtures: Any) -> None:
            run_rows(
                listed,
                lambda values: test(*args, **dict(zip(arguments, values, strict=True)), **fixtures),
            )

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in arguments]
        over_all_rows.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        del over_all_rows.__wrapped__
        return over_all_rows

    return decorate


def run_rows(rows: Sequence[Any], run: Callable[[Sequence[Any]], None]) -> None:
    """Runs all rows, then fails with those that failed."""
    assert rows, "there are no rows"
    skipped, failed = [], []
    for id, values in identified(rows):
        try:
            run(values)
        except pytest.skip.Exception as reason:
            skipped.append(reason)
        except Exception:
            failed.append((id, traceback.format_exc()))
    if failed:
        shown = "\n".join(f"-- {id}\n{trace}" for id, trace in failed[:MOST_SHOWN])
        names = ", ".join(id for id, _ in failed)
        pytest.fail(f"{len(failed)} of {len(rows)} rows fail: {names}\n{shown}", pytrace=False)
    if len(skipped) == len(rows):
        raise skipped[0]


def identified(rows: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Each row with its id: that of `pytest.param`, a text itself, or its number."""
    for number, row in enumerate(rows):
        if isinstance(row, type(pytest.param())):
            assert not row.marks, "a row cannot be marked: what is true of one is true of all"
            yield str(row.id or number), row.values
        else:
            id = repr(row) if isinstance(row, str) else str(number)
            yield id, row if isinstance(row, tuple) else (row,)

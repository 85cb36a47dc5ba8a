"""Values go to other processes and come back: docs/compatibility.md promises it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import dsv4

MESSAGES = [{"role": "user", "content": "Hi<｜User｜>"}]
TEXT = 'Hm</think>Ok<｜DSML｜invoke name="f">'


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize(
    "value",
    [
        dsv4.Request(MESSAGES, tools=[{"name": "f"}], effort="max"),
        dsv4.encode(MESSAGES).pieces,
        dsv4.parse(TEXT, tools=[{"name": "f"}]),
        dsv4.StreamParser().feed(TEXT),
        *dsv4.DIALECTS.values(),
    ],
)
def test_values(value: Any) -> None:
    assert sent(value) == value


def test_a_prompt() -> None:
    prompt = dsv4.encode(MESSAGES, effort="max")
    assert str(sent(prompt)) == str(prompt)
    assert sent(prompt).pieces == prompt.pieces
    assert sent(prompt).special_text == prompt.special_text


@pytest.mark.parametrize(
    "fail",
    [
        lambda: dsv4.encode([{"role": "user", "content": 5}]),
        lambda: dsv4.parse("Hm", strict=True),
        lambda: dsv4.dialect_for("another model"),
    ],
)
def test_errors(fail: Callable[[], Any]) -> None:
    with pytest.raises(dsv4.Error) as caught:
        fail()
    error = sent(caught.value)
    assert type(error) is type(caught.value)
    assert str(error) == str(caught.value)
    assert vars(error) == vars(caught.value)

"""JSON without the standard encoder's preparations: what it would write, for any value."""

from __future__ import annotations

import enum
import json
from threading import Thread
from typing import Any

import pytest
from hypothesis import given

from dsv4._encode import tools
from dsv4._encode.tools import FAST_WRITERS, JSON_ERRORS, json_at, to_json
from strategies import json_values


class Level(enum.IntEnum):
    LOW = 1


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


class Half(float):
    def __repr__(self) -> str:
        return "1/2"


VALUES = [
    *(0, -1, 10**30, True, False, None, 0.0, -0.0, 1e300, 1e-7, 0.1, 3.0),
    *(float("nan"), float("inf"), -float("inf"), Level.LOW, Half(0.5), Loud("a"), "\ud800", "城\n"),
    *([], {}, (), [1, (2,)], {1: 2, None: True, 0.5: "x", "é": [Loud("b")]}),
]


@pytest.mark.parametrize("value", VALUES)
def test_as_python_writes_it(value: Any) -> None:
    expected = json.dumps(value, ensure_ascii=False)
    written = FAST_WRITERS.get(type(value), to_json)(value)
    assert written == to_json(value) == json_at(value, "here") == expected
    assert type(written) is type(to_json(value)) is str


@given(json_values)
def test_as_python_writes_any(value: Any) -> None:
    assert FAST_WRITERS.get(type(value), to_json)(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("write", [to_json, FAST_WRITERS[int]])
def test_a_number_of_too_many_digits_fails_in_the_same_way(write: Any) -> None:
    with pytest.raises(JSON_ERRORS):
        write(10**10_000)


@pytest.mark.parametrize("engine", [None, lambda: None])
def test_where_the_engine_is_another_the_encoder_writes(
    monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    monkeypatch.setattr(json.encoder, "c_make_encoder", engine)
    assert tools._fast_encode(tools._encoder) == tools._encoder.encode


def test_threads_may_write_the_same_value() -> None:
    value = [[{"a": list(range(50))}] * 20] * 20
    expected = json.dumps(value)
    written: list[str] = []
    threads = [Thread(target=lambda: written.append(to_json(value))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written == [expected] * 8

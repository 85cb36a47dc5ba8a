"""JSON without the standard encoder's preparations: what it would write, for any value."""

from __future__ import annotations

import enum
import json
from threading import Thread
from typing import Any

import pytest
from hypothesis import given

from dsv4 import EncodeError
from dsv4.encode import json_text
from dsv4.encode.json_text import json_at, to_json
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
    assert json_at(value, "here") == to_json(value) == expected
    assert type(json_at(value, "here")) is str


@given(json_values)
def test_as_python_writes_any(value: Any) -> None:
    assert json_at(value, "here") == json.dumps(value, ensure_ascii=False)


def test_a_path_in_parts_is_joined() -> None:
    with pytest.raises(EncodeError) as caught:
        json_at({1, 2}, "a", ".", "b")
    assert caught.value.path == "a.b"


def test_a_number_of_too_many_digits_is_an_error() -> None:
    with pytest.raises(EncodeError, match="cannot be written as JSON"):
        json_at(10**10_000, "here")


@pytest.mark.parametrize("engine", [None, lambda: None])
def test_where_the_engine_is_another_the_encoder_writes(
    monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    monkeypatch.setattr(json.encoder, "c_make_encoder", engine)
    assert json_text._quick(json_text._encoder) == json_text._encoder.encode


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

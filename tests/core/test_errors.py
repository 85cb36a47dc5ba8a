"""One exception tree. An error says where, what was found and what would be right."""

from __future__ import annotations

import pickle

import pytest

import dsv4
from dsv4.errors import refusal, short_repr


@pytest.mark.parametrize(
    "kind", [dsv4.OptionError, dsv4.EncodeError, dsv4.ParseError, dsv4.UnknownModel]
)
def test_every_error_is_a_value_error_of_ours(kind: type[Exception]) -> None:
    assert issubclass(kind, dsv4.Error)
    assert issubclass(dsv4.Error, ValueError)


def test_an_encoding_error_names_the_place() -> None:
    error = dsv4.EncodeError(("messages", 3, "content"), "found 5, expected text")
    assert error.location == ("messages", 3, "content")
    assert (error.path, error.problem) == ("messages[3].content", "found 5, expected text")
    assert str(error) == "messages[3].content: found 5, expected text"


def test_a_place_can_be_printed_whatever_its_name() -> None:
    error = dsv4.OptionError(("tools", 0, "\ud800城"), "found 5")
    assert str(error) == "tools[0].\\ud800城: found 5"
    assert error.location == ("tools", 0, "\ud800城")


def test_a_parsing_error_names_the_position() -> None:
    error = dsv4.ParseError(12, "found no end of the reasoning")
    assert (error.position, error.problem) == (12, "found no end of the reasoning")
    assert str(error) == "at character 12: found no end of the reasoning"


def test_an_option_may_be_named_simply() -> None:
    assert dsv4.OptionError("effort", "found 5").location == ("effort",)


def test_the_blame_is_told_by_the_place() -> None:
    assert type(refusal(("messages", 0), "found 5")) is dsv4.EncodeError
    assert type(refusal(("context", 0), "found 5")) is dsv4.EncodeError
    assert type(refusal(("tools", 0), "found 5")) is dsv4.OptionError


@pytest.mark.parametrize(
    "error",
    [
        dsv4.EncodeError(("messages", 0), "b"),
        dsv4.OptionError("a", "b"),
        dsv4.UnknownModel("model", "b"),
        dsv4.ParseError(1, "b"),
    ],
)
def test_errors_survive_pickling(error: dsv4.Error) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_values_are_quoted_short() -> None:
    assert short_repr("wizard") == "'wizard'"
    assert short_repr("x" * 100) == "'" + "x" * 58 + "…"
    assert len(short_repr("x" * 100)) == 60


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_values_without_a_repr_are_named_by_type() -> None:
    assert short_repr(Mute()) == "a value of type Mute"
    assert short_repr(10**5000) == "a value of type int"
    assert short_repr(nested(100_000)) == "a value of type list"

"""The forms in which callers give text."""

from __future__ import annotations

import enum
from typing import Any

import pytest

import dsv4
from builders import BOS, assistant, developer, reminder, result, system, text, user
from dsv4 import EncodeError


def encode(message: dict[str, Any]) -> str:
    return str(dsv4.encode([message], thinking=False)).removeprefix(BOS)


every_role = pytest.mark.parametrize(
    "message", [system, user, assistant, result, reminder, developer]
)


@every_role
def test_a_list_of_text_blocks_is_joined_with_blank_lines(message: Any) -> None:
    assert encode(message([text("a"), text("b"), "c"])) == encode(message("a\n\nb\n\nc"))


@every_role
def test_a_tuple_is_a_list(message: Any) -> None:
    assert encode(message((text("a"), text("b")))) == encode(message("a\n\nb"))


@every_role
def test_a_text_block_without_text_is_empty(message: Any) -> None:
    assert encode(message([text("a"), text(None), {"type": "text"}])) == encode(
        message("a\n\n\n\n")
    )


@pytest.mark.parametrize("message", [system, user, assistant, result, reminder])
def test_null_is_empty(message: Any) -> None:
    missing = {key: value for key, value in message().items() if key != "content"}
    assert encode(message(None)) == encode(message("")) == encode(missing)


def test_subclasses_of_str_are_written_by_their_value() -> None:
    class Color(str, enum.Enum):
        RED = "red"

        def __str__(self) -> str:
            return "not this"

    assert encode(system(Color.RED)) == "red"
    assert encode(assistant(Color.RED)).startswith("red")
    assert encode(system([Color.RED, text(Color.RED)])) == "red\n\nred"


class TestErrors:
    @every_role
    @pytest.mark.parametrize("content", [5, True, 1.5, b"Hi", {"type": "text"}, {"a"}])
    def test_content_of_a_wrong_type(self, message: Any, content: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user(), assistant(), user(), message(content)])
        assert str(caught.value) == (
            f"messages[3].content: found {content!r}, expected text, null or a list of text blocks"
        )

    @pytest.mark.parametrize("content", [5, [text("a"), text("b"), 5]])
    def test_reasoning_of_a_wrong_type(self, content: Any) -> None:
        for field in ("reasoning", "reasoning_content"):
            with pytest.raises(EncodeError, match=rf"^messages\[1\]\.{field}.*: found 5, expected"):
                dsv4.encode([user(), assistant(**{field: content})])

    @every_role
    @pytest.mark.parametrize(
        ("block", "place", "problem"),
        [
            (5, "", 'found 5, expected a block such as {"type": "text"}'),
            ([], "", 'found [], expected a block such as {"type": "text"}'),
            ({}, ".type", 'found None, expected a name such as "text"'),
            ({"type": 3}, ".type", 'found 3, expected a name such as "text"'),
            ({"type": "text", "text": 3}, ".text", "found 3, expected text"),
        ],
    )
    def test_what_is_no_block(self, message: Any, block: Any, place: str, problem: str) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user(), message([text("a"), block])])
        assert str(caught.value) == f"messages[1].content[1]{place}: {problem}"

    @pytest.mark.parametrize("message", [system, user, assistant, reminder, developer])
    def test_a_block_that_is_not_text(self, message: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([message([{"type": "video"}])])
        assert str(caught.value) == (
            "messages[0].content[0]: found a block of type 'video', expected type \"text\""
        )

    @pytest.mark.parametrize("dialect", dsv4.DIALECTS)
    def test_lists_without_end(self, dialect: str) -> None:
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(
            EncodeError, match=r"^messages\[0\]\.content\[0\]: found \[\[\.\.\.\]\]"
        ):
            dsv4.encode([user(endless)], dialect=dialect)

"""The raw text of a custom tool's call, out of arguments that come in pieces."""

from __future__ import annotations

import json
from itertools import product

import pytest

from dsv4.api.responses import CustomInputStream, custom_input
from rows import each_row


def pieces_of(arguments: str, size: int) -> list[str]:
    """What each piece of the arguments brings, and what is missing at their end."""
    reader = CustomInputStream()
    parts = [reader.feed(arguments[n : n + size]) for n in range(0, len(arguments), size)]
    parts.append(reader.rest(arguments))
    assert reader.text == "".join(parts)
    return parts


TEXTS = ("", "a", '"\\/\b\n\t\x01', "é\u2028", "😀 a 😀😀", "x" * 50)


@each_row("text, size, escaped", product(TEXTS, (1, 2, 3, 7, 1000), (True, False)))
def test_pieces_add_up_to_the_text(text: str, size: int, escaped: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=escaped)
    parts = pieces_of(arguments, size)
    assert "".join(parts) == custom_input(arguments) == text
    for part in parts:
        part.encode()  # which half of a character would not


@pytest.mark.parametrize("arguments", ["{}", '{"other": "x"}', "[1]", '{"input": 1}', "no JSON"])
def test_other_arguments_are_the_text_themselves(arguments: str) -> None:
    assert "".join(pieces_of(arguments, 1)) == custom_input(arguments) == arguments


def test_half_a_character_that_stays_alone() -> None:
    arguments = '{"input": "a\\ud83d b"}'
    assert "".join(pieces_of(arguments, 1)) == "a\ud83d b"

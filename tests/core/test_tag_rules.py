"""The table of what a tag means in each state: it is whole, and has a reader for every word."""

from __future__ import annotations

from itertools import product

import pytest

from dsv4._completion.declared import DeclaredTools
from dsv4._parse.blocks import BlockReader
from dsv4._parse.call_reader import CallReader
from dsv4._parse.lexer import read_tag
from dsv4._parse.prose import ProseReader
from dsv4._parse.tag import CALL_TAGS, TOKENS, Tag
from dsv4._parse.tag_rules import (
    IN_BLOCK,
    IN_CALL,
    IN_FENCE,
    IN_JUNK,
    IN_PROSE,
    IN_VALUE,
    TagRules,
)
from dsv4._parse.text_buffer import TextBuffer

COLUMNS = [IN_PROSE, IN_FENCE, IN_BLOCK, IN_JUNK, IN_CALL, IN_VALUE]
RULES = TagRules(TextBuffer(read_tag), DeclaredTools(None))


def marked_and_plain() -> list[Tag]:
    kinds, sides = sorted(CALL_TAGS | {"named"}), [False, True]
    return [
        Tag(kind, 0, f"<{kind}>", closing, kind, marked, broken=broken)
        for kind, closing, marked, broken in product(kinds, sides, sides, sides)
        if marked or not broken  # what begins without the token and breaks off is no tag
    ]


def tokens() -> list[Tag]:
    sides = {"think": [False, True], "native": [False, True]}
    return [
        Tag(kind, 0, f"<{kind}>", closing)
        for kind in sorted(TOKENS)
        for closing in sides.get(kind, [False])
    ]


@pytest.mark.parametrize("column", COLUMNS)
def test_every_tag_means_something_in_every_state(column: dict[str, str]) -> None:
    assert all(RULES.meaning(tag, column) for tag in marked_and_plain() + tokens())


@pytest.mark.parametrize("column", COLUMNS)
def test_no_row_is_for_nothing(column: dict[str, str]) -> None:
    rows = {*column}
    for tag in marked_and_plain() + tokens():
        broken = f"broken {tag.kind}"
        rows.discard(broken if tag.broken else RULES.role(tag))
    assert rows == set()


@pytest.mark.parametrize(
    ("reader", "column", "unread"),
    [
        (ProseReader, IN_PROSE, {"-"}),  # such tags are passed by before the table is asked
        (ProseReader, IN_FENCE, {"-"}),
        (BlockReader, IN_BLOCK, set()),
        (CallReader, IN_CALL, set()),
    ],
)
def test_every_word_has_its_method(reader: type, column: dict[str, str], unread: set[str]) -> None:
    for word in {*column.values()} - unread:
        assert callable(getattr(reader, f"_read_{word}"))


def test_the_words_that_readers_compare() -> None:
    assert {*IN_JUNK.values()} == {"text", "ends", "invoke"}
    assert {*IN_VALUE.values()} == {"text", "-", "outer", "next", "region"}

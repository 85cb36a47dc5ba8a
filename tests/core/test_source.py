"""The text that waits: what stood before a place, however much of it was forgotten."""

from __future__ import annotations

import tracemalloc

import pytest

from dsv4._parse.lexer import read_tag
from dsv4._parse.text_buffer import TextSource


def after(text: str, done: int) -> TextSource:
    """A source that has forgotten what it may of the first characters."""
    source = TextSource(read_tag)
    source.append(text)
    source.advance(done)
    source.trim()
    return source


@pytest.mark.parametrize("line", ["", "word " * 10, "word " * 100])
def test_a_line_is_known_after_its_start_is_done_with(line: str) -> None:
    text = f"{line}\n\n  <"
    for done in range(len(text)):
        source = after(text, done)
        assert source.opens_line(len(text) - 1)
        assert source.after_blank_line(len(text) - 1)
        assert source.waiting == text[done:]


@pytest.mark.parametrize("held", [1, 10, 1000])
def test_text_that_is_put_back_stands_after_what_stood_before_it(held: int) -> None:
    source = after("a\n" + "x" * held, 2)
    source.set_aside(source.end)
    source.trim()
    source.append("y")
    source.put_back()
    assert (source.pos, source.waiting) == (2, "x" * held + "y")
    assert source.char_before(2) == "\n"
    assert source.opens_line(2)


def test_nothing_is_put_back_where_nothing_was_held() -> None:
    source = after("ab", 1)
    source.put_back()
    assert (source.pos, source.waiting) == (1, "b")


@pytest.mark.repeats  # while lines are counted, Python lets no text grow in place
def test_a_long_text_that_waits_is_not_copied_for_each_piece() -> None:
    waiting = "\uff5c" * 1_000_000
    source = TextSource(read_tag)
    source.append(waiting)
    source.append("x")
    tracemalloc.start()
    try:
        source.append("y" * 4)  # the allocator may move it now, once
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            source.append("z")
        copied = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert source.end == len(waiting) + 105
    assert copied < len(waiting)

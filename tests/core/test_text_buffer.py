"""The text that waits: what stood before a place, however much of it was forgotten."""

from __future__ import annotations

import tracemalloc

import pytest

from dsv4._parse.lexer import read_tag
from dsv4._parse.text_buffer import TextBuffer


def after(text: str, done: int) -> TextBuffer:
    """A buffer that has forgotten what it may of the first characters."""
    buffer = TextBuffer(read_tag)
    buffer.append(text)
    buffer.trim(done)
    return buffer


@pytest.mark.parametrize("line", ["", "word " * 10, "word " * 1000])
def test_a_line_is_known_after_its_start_is_done_with(line: str) -> None:
    text = f"{line}\n\n  <"
    for done in range(0, len(text), 1 + len(text) // 100):
        buffer = after(text, done)
        assert buffer.opens_line(len(text) - 1)
        assert buffer.after_blank_line(len(text) - 1)
        assert buffer.slice(done, buffer.end) == text[done:]


def test_pieces_of_inert_text_are_inert_as_a_whole() -> None:
    buffer = TextBuffer(read_tag)
    for piece in ("<think>", "", " and ", "<thi", "nk>"):
        buffer.append(piece, inert=True)
    buffer.append("<think>")
    assert [buffer.is_inert(at, at + 7) for at in (0, 12, 19)] == [True, True, False]
    assert buffer.acting(0, buffer.end).find("think>") == 20


@pytest.mark.parametrize(("spaces", "end"), [(0, 0), (3, 3), (4, 4), (5, 5), (9, 5)])
def test_white_space_is_passed_up_to_one_character_beyond_a_limit(spaces: int, end: int) -> None:
    steps = after(" " * spaces + "x", 0).past_space(0, longest=4)
    with pytest.raises(StopIteration) as done:
        next(steps)
    assert done.value.value == end


def test_most_of_what_is_done_with_is_forgotten() -> None:
    assert len(after("x" * 10_000, 10_000).text) < 1000


@pytest.mark.repeats  # while lines are counted, Python lets no text grow in place
def test_a_long_text_that_waits_is_not_copied_for_each_piece() -> None:
    waiting = "\uff5c" * 1_000_000
    buffer = TextBuffer(read_tag)
    buffer.append(waiting)
    buffer.append("x")
    tracemalloc.start()
    try:
        buffer.append("y" * 4)  # the allocator may move it now, once
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            buffer.append("z")
        copied = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert buffer.end == len(waiting) + 105
    assert copied < len(waiting)

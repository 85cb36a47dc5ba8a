"""Turns that nothing parts from what stands before them.

An answer without its end leaves no trace of where it ends, and one without a header none of where
it begins; nor does a system text have a beginning. But where tokens are known to be tokens, the end
of reasoning and a block of calls are an answer's own, and a tools section is a system's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dsv4.decoding.reading import Found
from dsv4.decoding.turns import Turn
from dsv4.format import tokens


def unglued(turns: list[Turn], shown: list[bool], found: Found) -> list[Turn]:
    """The turns with such answers as turns of their own.

    `shown` says of each turn whether an answer in its place has a thinking part.
    """
    return [
        part
        for turn, reasons in zip(turns, shown, strict=True)
        for part in _parted(turn, reasons, found)
    ]


def _parted(turn: Turn, reasons: bool, found: Found) -> Iterator[Turn]:
    if turn.asked is not None:  # a header follows: all of it is the question
        yield turn
        return
    for part in _without_sections(turn, found):
        if part.role == "assistant":
            yield from _answers(part, reasons, found)
        else:
            yield from _without_answer(part, reasons, found)


def _without_sections(turn: Turn, found: Found) -> Iterator[Turn]:
    """A turn, and the system texts with tools or a format that follow it."""
    taken = found.sections_in(turn.start, turn.end)
    if turn.role == "system" or not taken or (turn.role == "user" and taken[-1].end == turn.end):
        yield turn
        return
    at = turn.start
    if turn.role != "assistant" or turn.header is not None or turn.after_task:
        yield replace(turn, end=taken[0].start, closed=False, task=None)
        at = taken[0].start
    for section in taken:
        yield Turn("system", at, section.end)
        at = section.end
    if turn.role == "assistant" and turn.closed:
        yield Turn("assistant", at, turn.end, task=turn.task)
    elif at < turn.end:
        yield Turn("system", at, turn.end)


def _without_answer(turn: Turn, reasons: bool, found: Found) -> Iterator[Turn]:
    """A turn, and the open answers that follow it."""
    taken = found.sections_in(turn.start, turn.end)
    begin = taken[-1].end if taken else turn.start
    at = _first_trace(begin, turn.end, reasons, found)
    if turn.task is not None or at is None:
        yield turn
        return
    yield replace(turn, end=at)
    if turn.role == "user":
        yield Turn("system", at, at)
    yield from _answers(Turn("assistant", at, turn.end, closed=False), reasons, found)


def _first_trace(start: int, end: int, reasons: bool, found: Found) -> int | None:
    """Where the first thing stands that only an answer writes."""
    thought = found.text.find(tokens.THINK_END, start, end) if reasons else -1
    block = found.blocks.next_in(start, end)
    places = [place for place in (thought, block) if place is not None and place >= 0]
    return min(places, default=None)


def _answers(turn: Turn, reasons: bool, found: Found) -> Iterator[Turn]:
    """One answer after the other, each but the last without its end."""
    at = turn.start
    while True:
        content = at
        if reasons:
            thought = found.text.find(tokens.THINK_END, at, turn.end)
            content = at if thought < 0 else thought + len(tokens.THINK_END)
        end = _end_of_content(content, turn.end, reasons, found)
        if end is None:
            yield replace(turn, start=at)
            return
        yield replace(turn, start=at, end=end, closed=False, task=None)
        turn = replace(turn, header=None, after_task=False)
        at = end


def _end_of_content(start: int, end: int, reasons: bool, found: Found) -> int | None:
    """Where an answer's content and calls end, if another answer follows."""
    thought = found.text.find(tokens.THINK_END, start, end) if reasons else -1
    block = found.blocks.next_in(start, end)
    if block is not None and (thought < 0 or block < thought):
        stop = found.blocks.found[block][0]
        return stop if stop < end else None
    return thought if thought >= 0 else None

"""The reasons why text waits, and the rules that hold it."""

from __future__ import annotations

from typing import NamedTuple

from dsv4._format.spellings import MARKS
from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.values import JsonBody, ParameterValue


class Hold(NamedTuple):
    """The reason why text waits.

    `rule` is the rule of docs/recovery.md that holds it, None if no rule does; `reason` says what
    is waited for.
    """

    rule: int | None
    reason: str


_HELD_BY_TAG = Hold(1, "the start of a tag, until it is one or is none")


def hold_of(reading: Reading, is_tried: bool) -> Hold | None:
    """The reason why text waits in a reading, or in an attempt on top of it if `is_tried`.

    None: nothing waits.
    """
    buffer, value, state = reading.buffer, reading.value, reading.state
    rest = buffer.slice(reading.pos, buffer.end)
    if not rest:
        return None
    if reading.settings.strict:
        return Hold(None, "a strict reading, which decides at the end")
    if is_tried:
        return _of_trial(reading)
    if isinstance(value, ParameterValue):
        return _in_parameter(reading, value)
    if isinstance(value, JsonBody):
        return Hold(8, "JSON in place of parameters, until it ends")
    if value is not None:
        return Hold(14, "JSON in place of calls, until it ends")
    if state.rule is not None:
        return Hold(state.rule, state.value)
    if not rest.isspace() and _is_partial(reading):
        return _HELD_BY_TAG
    if state is not ParserState.PROSE:
        return Hold(2, "white space and tags between calls, until it is clear what they are")
    if rest.isspace():
        return Hold(17, "line breaks, which belong to a block if one follows")
    if rest.lstrip()[0] in MARKS:
        return Hold(2, "a block or a call, until what follows makes it certain")
    return Hold(None, "the start of a stop string, until it is one or is none")


def _of_trial(reading: Reading) -> Hold:
    """The reason why calls are tried."""
    if reading.state.rule is not None:
        return Hold(reading.state.rule, reading.state.value)
    if reading.value is None:
        return Hold(29, "calls where a quotation is open, until it is closed or is over")
    return Hold(21, "calls behind a value that may not have ended, until their block has")


def _is_partial(reading: Reading) -> bool:
    """Whether the text ends in a part that may become a tag."""
    buffer, tag, at = reading.buffer, None, reading.pos
    while not isinstance(tag, PartialTag) and (at := buffer.next_mark(at)) < buffer.end:
        tag = buffer.tag_at(at)
        at = tag.end if isinstance(tag, Tag) else at + 1
    return isinstance(tag, PartialTag)


def _in_parameter(reading: Reading, value: ParameterValue) -> Hold:
    if value.may_hold_all:
        return Hold(8, "a parameter that may hold all arguments, until it ends")
    if not value.streams:
        return Hold(7, "a value that is no string, or whose type nothing says, until it ends")
    if not reading.buffer.slice(reading.pos, reading.buffer.end).strip():
        return Hold(3, "a line break in a string, which goes if the string's end is implied")
    if _is_partial(reading):
        return _HELD_BY_TAG
    return Hold(4, "a tag in a value, until what follows says whether the value ends at it")

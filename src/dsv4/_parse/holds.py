"""Why text waits: the rule that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.tag import PartialTag
from dsv4._parse.text_buffer import MARKS
from dsv4._parse.values import JsonBody, ParameterValue


class Hold(NamedTuple):
    """Why text waits.

    `rule` is the rule of docs/recovery.md that holds it, None where it is another's; `reason` says
    what is waited for.
    """

    rule: int | None
    reason: str


HELD_BY_STRICT = Hold(None, "a strict reading, which decides at the end")
HELD_BY_STOP = Hold(None, "the start of a stop string, until it is one or is none")
HELD_BY_TAG = Hold(1, "the start of a tag, until it is one or is none")
HELD_BY_CALL = Hold(2, "a block or a call, until what follows makes it certain")
HELD_BETWEEN_CALLS = Hold(
    2, "white space and tags between calls, until what follows says what they are"
)
HELD_VALUE_BREAK = Hold(3, "a line break in a string, which goes if the string's end is implied")
HELD_BY_CLOSER = Hold(4, "a tag in a value, until what follows says whether the value ends at it")
HELD_VALUE = Hold(7, "a value that is no string, or whose type nothing says, until it ends")
HELD_BODY = Hold(8, "JSON in place of parameters, until it ends")
HELD_JSON_CALLS = Hold(14, "JSON in place of calls, until it ends")
HELD_ARGUMENTS = Hold(8, "a parameter that may hold all arguments, until it ends")
HELD_IN_QUOTATION = Hold(29, "calls where a quotation is open, until it is closed or is over")
HELD_VALUE_END = Hold(21, "calls behind a value that may not have ended, until their block has")
HELD_PROSE_BREAK = Hold(17, "line breaks, which belong to a block if one follows")

# In these states all text waits, and for one reason.
HOLD_OF_STATE: Mapping[ParserState, Hold] = {
    ParserState.ORPHANS: Hold(
        17, "closing tags, until it is clear whether prose goes on after them"
    ),
    ParserState.STRAY: Hold(5, "a parameter without a call, until it ends"),
    ParserState.LOST: Hold(34, "parameters without a call, until it is clear whether it ends"),
    ParserState.NAMED: Hold(
        35, "text in a block, which may be the name of a tool and a fence with its arguments"
    ),
    ParserState.NESTED: Hold(32, "parameters in a parameter, until it ends"),
    ParserState.FENCED: Hold(15, "a block in a code fence, while it reads strictly"),
    ParserState.JUNK: Hold(5, "text in a block, until the block ends or a call begins"),
    ParserState.BROKEN: Hold(18, "text after a tag that breaks off, until a call begins"),
    ParserState.REMARK: Hold(11, "text in a call, until a parameter or the call's end"),
    ParserState.PLAIN: Hold(1, "a call without the DSML token, until it closes"),
    ParserState.NATIVE: Hold(13, "calls as older models write them, until they close"),
    ParserState.ROLE: Hold(
        27, "text behind a role token, until it is clear whether a turn was made up"
    ),
    ParserState.INVENTED: Hold(17, "a turn that the model made up, until the text ends"),
}


def hold_of(reading: Reading, is_tried: bool) -> Hold | None:
    """Why the text that waits in a reading does; or on top of it, where something is tried.

    None: nothing waits.
    """
    buffer, value = reading.buffer, reading.value
    if reading.pos == buffer.end:
        return None
    if reading.settings.strict:
        return HELD_BY_STRICT
    if is_tried:
        return HELD_IN_QUOTATION if value is None else HELD_VALUE_END
    if isinstance(value, ParameterValue):
        return _in_parameter(reading, value)
    if value is not None:
        return HELD_BODY if isinstance(value, JsonBody) else HELD_JSON_CALLS
    if reading.state in HOLD_OF_STATE:
        return HOLD_OF_STATE[reading.state]
    rest = buffer.slice(reading.pos, buffer.end).lstrip()
    in_prose = reading.state is ParserState.PROSE
    if not rest:
        return HELD_PROSE_BREAK if in_prose else HELD_BETWEEN_CALLS
    if _is_partial(reading):
        return HELD_BY_TAG
    if in_prose:
        return HELD_BY_CALL if rest[0] in MARKS else HELD_BY_STOP
    return HELD_BETWEEN_CALLS


def _is_partial(reading: Reading) -> bool:
    """Whether the text ends in what may become a tag."""
    buffer = reading.buffer
    at = reading.pos
    while (at := buffer.next_mark(at)) < buffer.end:
        found = buffer.tag_at(at)
        if isinstance(found, PartialTag):
            return True
        at = at + 1 if found is None else found.end
    return False


def _in_parameter(reading: Reading, value: ParameterValue) -> Hold:
    if value.may_hold_all:
        return HELD_ARGUMENTS
    if not value.streams:
        return HELD_VALUE
    if not reading.buffer.slice(reading.pos, reading.buffer.end).strip():
        return HELD_VALUE_BREAK
    return HELD_BY_TAG if _is_partial(reading) else HELD_BY_CLOSER

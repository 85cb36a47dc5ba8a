"""Why text waits: the rule of recovery.md that holds it, and until what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dsv4.parsing.machine import Machine
from dsv4.parsing.reading_values import Json, Text
from dsv4.parsing.states import State
from dsv4.parsing.values import Body, Parameter


class Hold(NamedTuple):
    """Why text waits.

    `rule` is the rule of docs/recovery.md that holds it, None where it is another's; `reason` says
    what is waited for.
    """

    rule: int | None
    reason: str


STRICT = Hold(None, "a strict reading, which decides at the end")
STOP = Hold(None, "the start of a stop string, until it is one or is none")
TAG = Hold(1, "the start of a tag, until it is one or is none")
CALL = Hold(2, "a block or a call, until what follows makes it certain")
BETWEEN = Hold(2, "white space and tags between calls, until what follows says what they are")
VALUE_BREAK = Hold(3, "a line break in a string, which goes if the string's end is implied")
CLOSER = Hold(4, "a tag in a value, until what follows says whether the value ends at it")
VALUE = Hold(7, "a value that is no string, or whose type nothing says, until it ends")
BODY = Hold(8, "JSON in place of parameters, until it ends")
CALLS = Hold(14, "JSON in place of calls, until it ends")
ARGUMENTS = Hold(8, "a parameter that may hold all arguments, until it ends")
PROSE_BREAK = Hold(17, "line breaks, which belong to a block if one follows")

# In these states all text waits, and for one reason.
OF_STATE: Mapping[State, Hold] = {
    State.ORPHANS: Hold(17, "closing tags, until it is clear whether prose goes on after them"),
    State.STRAY: Hold(5, "a parameter without a call, until it ends"),
    State.FENCED: Hold(15, "a block in a code fence, while it reads strictly"),
    State.JUNK: Hold(5, "text in a block, until the block ends or a call begins"),
    State.BROKEN: Hold(18, "text after a tag that breaks off, until a call begins"),
    State.REMARK: Hold(11, "text in a call, until a parameter or the call's end"),
    State.PLAIN: Hold(1, "a call without the DSML token, until it closes"),
    State.NATIVE: Hold(13, "calls as older models write them, until they close"),
    State.INVENTED: Hold(17, "a turn that the model made up, until the text ends"),
}


def hold_of(machine: Machine) -> Hold | None:
    """Why the text that waits in a machine does. None: nothing waits."""
    source, reader = machine.source, machine.reader
    if source.done == source.end:
        return None
    if isinstance(reader, (Text, Json)):
        if isinstance(reader.value, Parameter):
            return _in_parameter(machine, reader.value)
        return BODY if isinstance(reader.value, Body) else CALLS
    if machine.state in OF_STATE:
        return OF_STATE[machine.state]
    text = source.slice(source.pos, source.end)
    start = len(text) - len(text.lstrip())
    in_prose = machine.state is State.PROSE
    if start == len(text):
        return PROSE_BREAK if in_prose else BETWEEN
    if source.pending is not None:
        return TAG
    if in_prose:
        return CALL if source.is_mark(source.pos + start) else STOP
    return BETWEEN


def _in_parameter(machine: Machine, value: Parameter) -> Hold:
    if value.may_hold_all:
        return ARGUMENTS
    if not value.streams:
        return VALUE
    source = machine.source
    if not source.slice(source.pos, source.end).strip():
        return VALUE_BREAK
    return TAG if source.pending is not None else CLOSER

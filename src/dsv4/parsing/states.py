"""The states of the parser, and which may follow which.

A reader says which state comes next, and what that state has to know: the tag that opened it, the
value it is to read. The machine takes the reader for it from a table, and lets no move pass that is
not in `NEXT`. Which move is made depends on all a reader knows, and cannot stand in a table; that
there are no others can. docs/parsing.md draws its diagram from here.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    PROSE = "reasoning or content"
    ORPHANS = "closing tags in prose, until it is clear whether prose goes on after them"
    STRAY = "a parameter in prose, without a call around it"
    FENCED = "a block in a code fence, while it reads strictly: an example, or a call"
    AFTER = "after a block, or after a call without one"
    BLOCK = "inside a wrapper, between calls"
    JUNK = "text in a wrapper that is no call"
    BROKEN = "after a tag in a wrapper that breaks off"
    INVOKE = "inside a call, between parameters"
    REMARK = "text in a call that is no parameter"
    VALUE = "the value of a parameter, a text"
    JSON = "JSON: a value, all arguments of a call, or calls"
    PLAIN = "a call without the DSML token, held until it closes"
    NATIVE = "calls as older models write them, held until they close"
    INVENTED = "a turn that the model made up after its own"
    HALTED = "after a stop string"


NEXT: dict[State, frozenset[State]] = {
    State.PROSE: frozenset(
        {
            *(State.ORPHANS, State.FENCED, State.BLOCK, State.INVOKE, State.PLAIN, State.NATIVE),
            *(State.STRAY, State.INVENTED, State.HALTED),
        }
    ),
    State.ORPHANS: frozenset({State.PROSE}),
    State.STRAY: frozenset({State.PROSE}),
    State.FENCED: frozenset({State.PROSE, State.BLOCK}),
    State.AFTER: frozenset({State.PROSE}),
    State.BLOCK: frozenset(
        {State.AFTER, State.PROSE, State.INVOKE, State.JUNK, State.JSON, State.BROKEN}
    ),
    State.JUNK: frozenset({State.BLOCK, State.PROSE}),
    State.BROKEN: frozenset({State.BLOCK}),
    State.INVOKE: frozenset({State.VALUE, State.JSON, State.REMARK, State.BLOCK, State.AFTER}),
    State.REMARK: frozenset({State.INVOKE}),
    State.VALUE: frozenset({State.INVOKE, State.BLOCK, State.AFTER}),
    State.JSON: frozenset({State.VALUE, State.INVOKE, State.BLOCK, State.AFTER}),
    State.PLAIN: frozenset({State.PROSE, State.AFTER}),
    State.NATIVE: frozenset({State.PROSE, State.AFTER}),
    State.INVENTED: frozenset(),
    State.HALTED: frozenset(),
}

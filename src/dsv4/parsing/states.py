"""The states of the parser, and which may follow which.

`docs/parsing.md` draws its diagram from this table.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    PROSE = "reasoning or content"
    ORPHANS = "closing tags in prose, until it is clear whether prose goes on behind them"
    AFTER = "behind a block, or behind a call without one"
    BLOCK = "inside a wrapper, between calls"
    JUNK = "text in a wrapper that is no call"
    INVOKE = "inside a call, between parameters"
    STRAY = "text in a call that is no parameter"
    VALUE = "the value of a parameter"
    JSON = "a value, a body or a list of calls that is JSON"
    BODY_END = "behind a JSON body"
    PLAIN = "a call without the DSML token, held until it closes"
    STRICT = "everything, where the strict grammar is asked for"
    HALTED = "behind a stop string"


NEXT: dict[State, frozenset[State]] = {
    State.PROSE: frozenset({State.ORPHANS, State.BLOCK, State.INVOKE, State.PLAIN, State.HALTED}),
    State.ORPHANS: frozenset({State.PROSE}),
    State.AFTER: frozenset({State.PROSE}),
    State.BLOCK: frozenset({State.AFTER, State.INVOKE, State.JUNK, State.JSON}),
    State.JUNK: frozenset({State.BLOCK, State.PROSE}),
    State.INVOKE: frozenset({State.VALUE, State.JSON, State.STRAY, State.BLOCK, State.AFTER}),
    State.STRAY: frozenset({State.INVOKE}),
    State.VALUE: frozenset({State.INVOKE, State.BODY_END, State.BLOCK}),
    State.JSON: frozenset({State.VALUE, State.INVOKE, State.BODY_END, State.BLOCK}),
    State.BODY_END: frozenset({State.BLOCK, State.AFTER}),
    State.PLAIN: frozenset({State.PROSE, State.AFTER}),
    State.STRICT: frozenset({State.AFTER}),
    State.HALTED: frozenset(),
}

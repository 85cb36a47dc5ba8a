"""The reasons why a text ended: the meanings of servers' words, in one table for the parser and the
gateway (docs/recovery.md, rule 26).
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

# The reason that a caller has for the end of the text: any word that a server uses. `a call without
# its close` is a call at an "eos", but not at a "stop" or a "length".
Reason: TypeAlias = str


class Ended(Enum):
    """The meaning of a finish reason for the text."""

    END = "the model ended it"
    STOP = "a stop string may have ended it"
    LENGTH = "it reached its longest length"
    FILTER = "a filter ended it"
    FAILURE = "generation was given up"

    @property
    def is_cut(self) -> bool:
        """Whether the text is known to be shorter than the model would have made it."""
        return self in _CUTS


_CUTS = frozenset({Ended.LENGTH, Ended.FILTER, Ended.FAILURE})

_WORDS = {
    Ended.END: ("eos", "eos_token", "end_turn", "tool_calls", "function_call", "tool_use"),
    Ended.STOP: ("stop", "STOP", "COMPLETE"),
    Ended.LENGTH: ("length", "max_tokens", "model_length"),
    Ended.FILTER: ("content_filter", "refusal"),
}
_TABLE = {word: ended for ended, words in _WORDS.items() for word in words}


_CALLS = ("tool_calls", "function_call", "tool_use")


def ended_by(word: str | None) -> Ended | None:
    """The meaning of a server's word. None if it has none."""
    return _TABLE.get(word, Ended.FAILURE) if word else None


def calls_tools(word: str | None) -> bool:
    """Whether a server's word says that the text has calls."""
    return word in _CALLS

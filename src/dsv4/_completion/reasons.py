"""Why a text ended: what the words of servers mean, one table for the parser and the gateway
(docs/recovery.md, rule 26).
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

# What a caller knows about why the text ended: any word that a server uses. `a call without its
# close` is a call at an "eos", and none at a "stop" or a "length".
Reason: TypeAlias = str


class Ended(Enum):
    """What a finish reason says about the text."""

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
    """What a server's word says. None where it says nothing."""
    return _TABLE.get(word, Ended.FAILURE) if word else None


def calls_tools(word: str | None) -> bool:
    """Whether a server's word says that the text has calls."""
    return word in _CALLS

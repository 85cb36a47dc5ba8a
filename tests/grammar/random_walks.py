"""Random walks: completions that an engine writes where all that it allows is equally good."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy
from grammar_engines import END_ID, LLGuidance, XGrammar, ids_of, token_bytes

# A walk that ended itself by luck alone would take forever. So tokens that lead on are taken more
# often: tags, signs, digits, names.
_LEADING = (
    *("</think>", "｜DSML｜", "<", "</", "\n\n", "\n", ">", '">', '"', '",', '":', "]", "}", "]}"),
    *(",", ":", "0", "1", "-", ".", "e", " string", '="', "true", "false", "invoke", " name"),
    *("parameter", "tool", "_calls", "a", "t", " ", "[", "{", "GET", "/", "@", "#"),
)
# What ends a text: a tag. By luck one follows the other once in a thousand steps, and most walks
# came to no end.
_TAGS, _MARKER = ("<", "</"), "｜DSML｜"
MOST_TOKENS = 600


@cache
def _leading_ids() -> Any:
    ids = {ids[0] for text in _LEADING if len(ids := ids_of(text)) == 1}
    return numpy.array(sorted(ids))


@cache
def _tag_ids() -> tuple[list[int], int]:
    (marker,) = ids_of(_MARKER)
    return [ids_of(tag)[0] for tag in _TAGS], marker


def text_of(ids: list[int]) -> str:
    return b"".join(token_bytes(id) for id in ids).decode("utf-8", "replace")


def walk(engine: XGrammar | LLGuidance, random: Random) -> list[int] | None:
    """The ids of a completion, without its EOS. None where it came to no end."""
    matcher = engine.matcher()
    taken: list[int] = []
    for step in range(MOST_TOKENS):
        allowed = engine.allowed(matcher)
        hurry = step > 60
        tag = _tag(allowed, taken, random) if hurry else None
        id = _chosen(allowed, random, hurry) if tag is None else tag
        if id == END_ID:
            return taken
        assert engine.take(matcher, id)
        taken.append(id)
    return None


def _tag(allowed: Any, taken: list[int], random: Random) -> int | None:
    """The token that leads to the end of a text, half of the time; None where there is none."""
    tags, marker = _tag_ids()
    id = marker if taken[-1] in tags else random.choice(tags)
    return id if allowed[id] and random.random() < 0.5 else None


def _chosen(allowed: Any, random: Random, hurry: bool) -> int:
    if allowed[END_ID] and random.random() < (0.5 if hurry else 0.2):
        return END_ID
    leading = _leading_ids()[allowed[_leading_ids()]]
    if len(leading) and random.random() < (0.95 if hurry else 0.6):
        return int(leading[random.randrange(len(leading))])
    anything = numpy.flatnonzero(allowed)
    assert len(anything), "a dead end"
    return int(anything[random.randrange(len(anything))])

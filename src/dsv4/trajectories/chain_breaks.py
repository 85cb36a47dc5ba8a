"""Explains why a prompt does not continue the sequence before it, as `why_not_prefix` puts it."""

from __future__ import annotations

from collections.abc import Sequence

from dsv4._decode import decode
from dsv4.errors import Error
from dsv4.request import Request
from dsv4.tokens import Difference, Tokenizer, why_not_prefix
from dsv4.tokens.prefix_difference import DROPPED, ENDS, TOOLS
from dsv4.trajectories.trajectory_builder import COMPACTED, BreakCause

SHORTENED = "the conversation was shortened: earlier messages are gone"
_KINDS = {TOOLS: "tools_changed", DROPPED: "reasoning_dropped"}


def explain_break(
    tokenizer: Tokenizer, old: Sequence[int], new: Sequence[int]
) -> BreakCause | None:
    """The reason why the prompt `new` does not begin with `old`; None if they cannot be read.
    `tokenizer` is that of the ids."""
    try:
        before, now = (decode(tokenizer.prompt(ids)).request for ids in (old, new))
        difference = why_not_prefix(before.encode(), now.encode(), tokenizer)
    except Error:  # malformed turns are in prompts as they were sampled
        return None
    return None if difference is None else _cause(difference, before, now)


def _cause(difference: Difference, before: Request, now: Request) -> BreakCause:
    at = difference.message
    where = "" if at is None else f"messages[{at}].{difference.field}: "
    if difference.cause in _KINDS:
        return BreakCause(_KINDS[difference.cause], where + difference.cause)
    if at is not None and _is_system(before, at):
        return BreakCause("new_conversation", where + difference.cause)
    if difference.cause == ENDS or len(list(now.messages)) < len(list(before.messages)):
        return BreakCause(COMPACTED, where + SHORTENED)
    return BreakCause("rewritten", where + difference.cause)


def _is_system(request: Request, at: int) -> bool:
    message = dict(enumerate(request.messages)).get(at)
    return isinstance(message, dict) and message.get("role") == "system"

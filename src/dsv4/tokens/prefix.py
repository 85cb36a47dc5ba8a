"""Why one prompt does not go on where another ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dsv4.encode.prompt import Piece, Prompt
from dsv4.tokens.tokenizer import Tokenizer, same_start


class Difference(NamedTuple):
    """The first token in which two prompts differ: whose it is in each, and the cause."""

    token: int
    message: int | None
    field: str
    cause: str


def why_not_prefix(a: Prompt, b: Prompt, tokenizer: Tokenizer | None = None) -> Difference | None:
    """Where `b` leaves `a`, and why. None if all of `a` is the start of `b`."""
    tokenizer = tokenizer or Tokenizer.load()
    return difference_between(*tokenizer.owned(a), *tokenizer.owned(b))


def difference_between(
    ids: Sequence[int],
    owners: Sequence[Piece],
    other_ids: Sequence[int],
    other_owners: Sequence[Piece],
    before: int = 0,
) -> Difference | None:
    """The same of ids and the pieces they belong to, with `before` tokens in front of both."""
    token = same_start(ids, other_ids)
    if token == len(ids):
        return None
    new = other_owners[token] if token < len(other_owners) else None
    return _difference(before + token, owners[token], new)


def _difference(token: int, old: Piece, new: Piece | None) -> Difference:
    message = old.message if old.message is not None else new.message if new is not None else None
    return Difference(token, message, old.field, _cause(old, new))


def _cause(old: Piece, new: Piece | None) -> str:
    if new is None:
        return "the second prompt ends here"
    fields = {old.field, new.field}
    if old.field == "header" and new.field == "header":
        return "reasoning is dropped once another user turn follows"
    if old.field == "reasoning" or (old.field == "header" and new.field == "content"):
        return "reasoning is dropped once another user turn follows"
    if old.message is None and old.field == "header":
        return "a message joined the last turn, which had asked for an answer"
    if "tool_result" in fields or (old.field == "content" and old.message != new.message):
        return "tool results are put in the order of their calls"
    for field, cause in _CAUSES.items():
        if field in fields:
            return cause
    return f"the {old.field} of the message differs"


_CAUSES = {
    "effort": "the reasoning effort differs",
    "tools": "the tools differ",
    "response_format": "the response format differs",
    "bos": "one prompt has no BOS",
}

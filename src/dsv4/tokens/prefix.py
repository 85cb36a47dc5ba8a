"""Why one prompt does not go on where another ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dsv4.encoding.pieces import Piece
from dsv4.encoding.prompt import Prompt
from dsv4.format import tokens
from dsv4.tokens.masks import Owned
from dsv4.tokens.tokenizer import Tokenizer, same_start

ENDS = "the second prompt ends here"
DROPPED = "reasoning is dropped once another user turn follows"
KEPT = "reasoning is kept once there are tools"
THINKING = "one prompt thinks and the other does not"
INSTEAD = "another message came where an answer was asked for"
VANISHED = "a developer turn vanishes once another user turn follows"
ORDER = "tool results are put in the order of their calls"
OPEN = "one prompt leaves the turn open"
MERGED = "text follows text without a special token between, and their tokens merged"
BOS = "one prompt has no BOS"
EFFORT = "the reasoning effort differs"
TOOLS = "the tools differ, or stand elsewhere"
FORMAT = "the response format differs, or stands elsewhere"


class Difference(NamedTuple):
    """The first token of a prompt that another does not have: whose it is, and the cause."""

    token: int
    message: int | None
    field: str
    cause: str


def why_not_prefix(a: Prompt, b: Prompt, tokenizer: Tokenizer | None = None) -> Difference | None:
    """Where `b` leaves `a`, and why. None if all of `a` is the start of `b`.

    `tokenizer` is that of the bundled vocabulary unless it is given. Raises what encoding the two
    prompts raises.
    """
    tokenizer = tokenizer or Tokenizer.load()
    return difference_between(tokenizer.owned(a), tokenizer.owned(b))


def difference_between(old: Owned, new: Owned, before: int = 0) -> Difference | None:
    """The same of ids and their pieces, with `before` tokens in front of both."""
    token = same_start(old.ids, new.ids)
    if token == len(old.ids):
        return None
    was = old.owner(token)
    now = new.owner(token) if token < len(new.ids) else None
    message = was.message if was.message is not None or now is None else now.message
    cause = ENDS if now is None else _cause(_Change(was, now, token, old, new))
    return Difference(before + token, message, was.field, cause)


class _Change(NamedTuple):
    """Two pieces that stand in the same place of two prompts."""

    was: Piece
    now: Piece
    token: int
    old: Owned
    new: Owned

    @property
    def fields(self) -> set[str]:
        return {self.was.field, self.now.field}

    def comes_later(self, message: int | None) -> bool:
        """Whether the second prompt has something of this message from here on."""
        return any(p.message == message for _, end, p in self.new if end > self.token)

    def is_present(self, message: int | None) -> bool:
        return any(piece.message == message for piece in self.new.pieces)

    def asked_again(self) -> bool:
        """Whether somebody else than the model speaks in the second prompt from here on."""
        return any(p.origin == "caller" for _, end, p in self.new if end > self.token)


def _cause(change: _Change) -> str:
    found = next((cause for cause, is_it in _CAUSES.items() if is_it(change)), None)
    return found or f"the {' or '.join(sorted(change.fields))} of the message differs"


def _loses_reasoning(c: _Change) -> bool:
    if c.was.text is tokens.THINK_START or c.now.text is tokens.THINK_END:
        return c.fields == {"header"}
    return c.was.field == "reasoning" and c.now.field != "reasoning"


def _gets_reasoning(c: _Change) -> bool:
    if c.was.text is tokens.THINK_END and c.now.text is tokens.THINK_START:
        return True
    return c.now.field == "reasoning" and c.was.field != "reasoning"


def _had_asked(c: _Change) -> bool:
    """Whether the first prompt has its last question here."""
    if c.was.message is None:
        return c.was.field == "header"
    return c.was.field == "task" and c.was is c.old.pieces[-1]


def _is_moved(c: _Change) -> bool:
    return c.was.message != c.now.message and c.comes_later(c.was.message)


def _is_gone(c: _Change) -> bool:
    return c.was.message is not None and not c.is_present(c.was.message)


def _meet(c: _Change) -> bool:
    return c.was.message != c.now.message and not c.was.special and not c.now.special


# The first that is true is the cause.
_CAUSES: dict[str, Callable[[_Change], bool]] = {
    BOS: lambda c: "bos" in c.fields,
    EFFORT: lambda c: "effort" in c.fields,
    TOOLS: lambda c: "tools" in c.fields,
    FORMAT: lambda c: "response_format" in c.fields,
    DROPPED: lambda c: _loses_reasoning(c) and c.asked_again(),
    KEPT: lambda c: _gets_reasoning(c) and any(p.field == "tools" for p in c.new.pieces),
    THINKING: lambda c: _loses_reasoning(c) or _gets_reasoning(c),
    INSTEAD: _had_asked,
    VANISHED: lambda c: _is_gone(c) and c.asked_again(),
    ORDER: _is_moved,
    OPEN: lambda c: "eos" in c.fields and c.was.message == c.now.message,
    MERGED: _meet,
}

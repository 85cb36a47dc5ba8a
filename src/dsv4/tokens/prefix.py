"""Why one prompt does not go on where another ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from dsv4.encoding.omissions import Omission
from dsv4.encoding.pieces import Piece
from dsv4.encoding.prompt import Prompt
from dsv4.format import tokens
from dsv4.tokens.masks import Owned
from dsv4.tokens.tokenizer import Tokenizer, same_start

ENDS = "the second prompt ends here"
MERGED = "text follows text without a special token between, and their tokens merged"
BOS = "one prompt has no BOS"
EFFORT = "the reasoning effort differs"
TOOLS = "the tools differ, or stand elsewhere"
FORMAT = "the response format differs, or stands elsewhere"
DROPPED = "reasoning is dropped once another user turn follows"
KEPT = "reasoning is kept once there are tools"
THINKING = "one prompt thinks and the other does not"
DROPPING = "one prompt drops old reasoning and the other does not"
INSTEAD = "another message came where an answer was asked for"
RETURNED = "a developer turn is kept once there are tools"
VANISHED = "a developer turn vanishes once another user turn follows"
ORDER = "tool results are put in the order of their calls"
OPEN = "one prompt leaves the turn open"
OTHER = "another message stands here"


class Difference(NamedTuple):
    """The first token of a prompt that another does not have: whose it is, and the cause.

    `token` is its index; `message` the index of its message, None where it is of none; `field` the
    part of the message; `cause` one of the texts of this module.
    """

    token: int
    message: int | None
    field: str
    cause: str


def why_not_prefix(a: Prompt, b: Prompt, tokenizer: Tokenizer | None = None) -> Difference | None:
    """Where `b` leaves `a`, and why.

    `a` and `b` are what encoding gave, `tokenizer` makes their ids; without one the bundled
    vocabulary does. Returns None if all of `a` is the start of `b`.
    """
    tokenizer = tokenizer or Tokenizer.load()
    return difference_between(
        Side(tokenizer.owned(a), lambda: a.dropped), Side(tokenizer.owned(b), lambda: b.dropped)
    )


class Side:
    """One of two prompts: its ids, its pieces, and what the format left out of it."""

    def __init__(self, owned: Owned, dropped: Callable[[], Iterable[Omission]]) -> None:
        self.owned = owned
        self._dropped = dropped

    # What follows is asked for only where two prompts part.

    @cached_property
    def rules(self) -> set[Omission]:
        return set(self._dropped())

    @cached_property
    def messages(self) -> set[int | None]:
        return {piece.message for piece in self.owned.pieces}

    @cached_property
    def text(self) -> str:
        return "".join(piece.text for piece in self.owned.pieces)

    def of(self, field: str) -> list[tuple[int | None, str]]:
        """All that there is of a field: message and text."""
        return [(piece.message, piece.text) for piece in self.owned.pieces if piece.field == field]

    def has(self, message: int | None, field: str) -> bool:
        return any(p.message == message and p.field == field for p in self.owned.pieces)

    def comes_after(self, token: int, message: int | None) -> bool:
        """Whether there is something of a message from a token on."""
        return any(piece.message == message for _, end, piece in self.owned if end > token)

    def asks_after(self, token: int) -> bool:
        """Whether a turn that asks for an answer begins after a token."""
        opening = (tokens.USER, tokens.SYSTEM)
        return any(
            start > token and piece.special and piece.field == "header" and piece.text in opening
            for start, _, piece in self.owned
        )

    @cached_property
    def thinks(self) -> bool | None:
        """Whether this is a prompt of thinking mode. None where nothing in it says."""
        heads = {piece.text for piece in self.owned.pieces if piece.field == "header"}
        if tokens.THINK_START in heads or any(p.field == "reasoning" for p in self.owned.pieces):
            return True
        ruled = {omission.rule for omission in self.rules}
        if "chat_mode" in ruled or "old_reasoning" in ruled:
            return "old_reasoning" in ruled
        last = next((p for p in reversed(self.owned.pieces) if p.field == "header"), None)
        # Only the last question of a prompt is never answered without thinking in thinking mode.
        ends_asking = last is not None and last.message is None and last.text is tokens.THINK_END
        return False if ends_asking else None


def difference_between(old: Side, new: Side, before: int = 0) -> Difference | None:
    """The same of ids and their pieces, with `before` tokens in front of both."""
    token = same_start(old.owned.ids, new.owned.ids)
    if token == len(old.owned.ids):
        return None
    was = old.owned.owner(token)
    now = new.owned.owner(token) if token < len(new.owned.ids) else None
    message = was.message if was.message is not None or now is None else now.message
    cause = ENDS if now is None else _cause(_Change(was, now, token, old, new))
    return Difference(before + token, message, was.field, cause)


class _Change(NamedTuple):
    """Two pieces that stand in the same place of two prompts."""

    was: Piece
    now: Piece
    token: int
    old: Side
    new: Side

    @property
    def fields(self) -> set[str]:
        return {self.was.field, self.now.field}


def _cause(change: _Change) -> str:
    found = next((cause for cause, is_it in _CAUSES.items() if is_it(change)), None)
    if found is not None:
        return found
    if change.was.message != change.now.message:
        return OTHER
    return f"the {' or '.join(sorted(change.fields))} of the message differs"


def _differs(field: str) -> Callable[[_Change], bool]:
    """Whether a field that stands here is another one in the other prompt."""

    def differs(c: _Change) -> bool:
        here = field in c.fields or (_is_preamble(c.was) and c.old.has(None, field))
        return here and c.old.of(field) != c.new.of(field)

    return differs


def _is_preamble(piece: Piece) -> bool:
    """Whether a piece opens what no message brings: the request's own tools and format."""
    return piece.message is None and piece.special and piece.text == tokens.SYSTEM


# Reasoning that one prompt shows and the other does not.


def _loses_reasoning(c: _Change) -> bool:
    if c.was.text is tokens.THINK_START and c.now.text is tokens.THINK_END:
        return c.fields == {"header"}
    return (
        c.was.field == "reasoning"
        and c.was.message in c.new.messages
        and not c.new.has(c.was.message, "reasoning")
    )


def _gets_reasoning(c: _Change) -> bool:
    if c.was.text is tokens.THINK_END and c.now.text is tokens.THINK_START:
        return c.fields == {"header"}
    return (
        c.now.field == "reasoning"
        and c.now.message in c.old.messages
        and not c.old.has(c.now.message, "reasoning")
    )


def _is_dropped(c: _Change) -> bool:
    """Whether what the first prompt shows comes before a question that only the second has."""
    return (
        _loses_reasoning(c)
        and c.new.thinks is not False
        and c.new.asks_after(c.token)
        and not c.old.asks_after(c.token)
    )


def _is_kept(c: _Change) -> bool:
    return _gets_reasoning(c) and bool(c.new.of("tools")) and not c.old.of("tools")


def _thinks_otherwise(c: _Change) -> bool:
    if not (_loses_reasoning(c) or _gets_reasoning(c)):
        return False
    return None not in (c.old.thinks, c.new.thinks) and c.old.thinks != c.new.thinks


# Messages that came, went or moved.


def _is_instead(c: _Change) -> bool:
    """Whether the first prompt has its last question here, and the second a new message."""
    asked = c.was.message is None and c.was.field == "header"
    last = c.old.owned.pieces[-1]
    tasked = c.was.field in ("task", "header") and last.field == "task"
    if tasked and c.was.field == "header":
        tasked = not c.old.has(c.was.message, "content") or c.was.message == last.message
    answers = c.now.special and c.now.text in (tokens.THINK_START, tokens.THINK_END)
    return (asked or tasked) and not answers and c.now.message not in (None, *c.old.messages)


def _is_moved(c: _Change) -> bool:
    """Whether a later message comes first: only the results of calls change places."""
    if c.was.message is None or c.now.message is None or c.now.message <= c.was.message:
        return False
    return c.new.comes_after(c.token, c.was.message)


def _is_vanished(c: _Change) -> bool:
    return any(
        omission.rule == "vanished" and omission.message == c.was.message
        for omission in c.new.rules
    )


def _is_back(c: _Change) -> bool:
    """Whether a message stands here that the first prompt has left out for want of tools."""
    if c.was.message is None or c.now.message is None or c.now.message >= c.was.message:
        return False
    return c.now.message not in c.old.messages and bool(c.new.of("tools")) and not c.old.of("tools")


def _is_open(c: _Change) -> bool:
    if "eos" not in c.fields or c.was.message != c.now.message:
        return False
    return c.old.has(c.was.message, "eos") != c.new.has(c.was.message, "eos")


# The first that is true is the cause.
_CAUSES: dict[str, Callable[[_Change], bool]] = {
    MERGED: lambda c: c.new.text.startswith(c.old.text),
    INSTEAD: _is_instead,
    BOS: lambda c: (c.was.field == "bos") != (c.now.field == "bos"),
    EFFORT: _differs("effort"),
    TOOLS: _differs("tools"),
    FORMAT: _differs("response_format"),
    DROPPED: _is_dropped,
    KEPT: _is_kept,
    THINKING: _thinks_otherwise,
    DROPPING: lambda c: _loses_reasoning(c) or _gets_reasoning(c),
    VANISHED: _is_vanished,
    RETURNED: _is_back,
    ORDER: _is_moved,
    OPEN: _is_open,
}

"""Which token came from which message and field, and what weight it has in training."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple, TypeAlias

from dsv4.encode.prompt import Piece
from dsv4.errors import EncodeError, shown

# What a policy says of a piece: its tokens' weight.
Weigh: TypeAlias = Callable[[Piece], float]
# A policy by name, or a function of message index and field.
Policy: TypeAlias = str | Callable[[int | None, str], float]


class Span(NamedTuple):
    """Tokens from `start` to `end` that came from one field of one message."""

    start: int
    end: int
    origin: str
    message: int | None
    field: str


def owners(pieces: Sequence[Piece], lengths: Sequence[int]) -> list[Piece]:
    """The piece that each token of a run of text belongs to; `lengths` are the tokens' bytes.

    A token that crosses a border belongs to the later piece: to whoever wrote its last byte.
    """
    if len(pieces) == 1:
        return [pieces[0]] * len(lengths)
    ends = list(accumulate(len(piece.text.encode("utf-8", "surrogatepass")) for piece in pieces))
    return [pieces[bisect_left(ends, last)] for last in accumulate(lengths)]


def spans_of(tokens: Iterable[Piece]) -> list[Span]:
    spans = []
    start = 0
    for (origin, message, field), group in groupby(
        tokens, lambda p: (p.origin, p.message, p.field)
    ):
        end = start + sum(1 for _ in group)
        spans.append(Span(start, end, origin, message, field))
        start = end
    return spans


def weigher(policy: Policy, pieces: Sequence[Piece]) -> Weigh:
    """A policy as a function of pieces."""
    if callable(policy):
        return lambda piece: policy(piece.message, piece.field)
    if policy not in _POLICIES:
        found, expected = shown(policy), ", ".join(_POLICIES)
        raise EncodeError("policy", f"found {found}, expected a function or one of {expected}")
    return _POLICIES[policy](pieces)


def _assistant(pieces: Sequence[Piece]) -> Weigh:
    """All that the model writes."""
    return lambda piece: float(piece.origin == "model")


def _last_turn(pieces: Sequence[Piece]) -> Weigh:
    """What the model writes in its last message."""
    last = max(
        (p.message for p in pieces if p.origin == "model" and p.message is not None), default=-1
    )
    return lambda piece: float(piece.origin == "model" and piece.message == last)


def _answers(pieces: Sequence[Piece]) -> Weigh:
    """What the model writes but for its reasoning."""
    return lambda piece: float(piece.origin == "model" and piece.field != "reasoning")


def _calls(pieces: Sequence[Piece]) -> Weigh:
    """Tool calls alone."""
    return lambda piece: float(piece.origin == "model" and piece.field == "tool_calls")


_POLICIES: dict[str, Callable[[Sequence[Piece]], Weigh]] = {
    "assistant": _assistant,
    "last_turn": _last_turn,
    "answers": _answers,
    "calls": _calls,
}

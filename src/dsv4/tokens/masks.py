"""The message and field that each token came from, and its weight in training."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from dsv4._encode.prompt import Piece
from dsv4.errors import OptionError, mismatch

# A policy as a function: piece -> weight of its tokens.
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


class AttributedIds:
    """Ids, and the pieces they came from.

    The tokens of each piece follow those of the piece before it, up to its place in `ends`.
    """

    __slots__ = ("ends", "ids", "pieces")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.ends: list[int] = []
        self.pieces: list[Piece] = []

    def add(self, ids: Sequence[int], piece: Piece) -> None:
        """Adds ids, all of one piece."""
        self.ids += ids
        self.ends.append(len(self.ids))
        self.pieces.append(piece)

    def add_run(self, ids: Sequence[int], pieces: Sequence[Piece], ends: Iterable[int]) -> None:
        """Adds ids of several pieces; `ends` are counted from the first of these ids."""
        start = len(self.ids)
        self.ids += ids
        self.ends += (start + end for end in ends)
        self.pieces += pieces

    def owner(self, token: int) -> Piece:
        return self.pieces[bisect_right(self.ends, token)]

    def expanded(self, token: str, counts: Sequence[int]) -> AttributedIds:
        """The same, with each image's only id repeated as often as the image has tokens."""
        longer, following = AttributedIds(), iter(counts)
        for start, end, piece in self:
            times = next(following) if piece.special and piece.text == token else 1
            longer.add(self.ids[start:end] * times, piece)
        return longer

    def counted_from(self, start: int) -> AttributedIds:
        """The same, with messages counted from `start` on."""
        if start:
            self.pieces = [
                p if p.message is None else p._replace(message=p.message + start)
                for p in self.pieces
            ]
        return self

    def parted(self, message: int) -> tuple[AttributedIds, AttributedIds]:
        """The part before a message, and the rest."""
        at = next(n for n, piece in enumerate(self.pieces) if piece.message == message)
        token = self.ends[at - 1] if at else 0
        head, tail = AttributedIds(), AttributedIds()
        head.add_run(self.ids[:token], self.pieces[:at], self.ends[:at])
        tail.add_run(self.ids[token:], self.pieces[at:], (end - token for end in self.ends[at:]))
        return head, tail

    def __iter__(self) -> Iterator[tuple[int, int, Piece]]:
        """Start, end and piece, for each piece that has tokens."""
        start = 0
        for end, piece in zip(self.ends, self.pieces, strict=True):
            if end > start:
                yield start, end, piece
                start = end

    def weights(self, weigh: Weigh) -> list[float]:
        weights: list[float] = []
        for start, end, piece in self:
            # No model writes an image, whatever weight a policy gives to its place.
            weight = 0.0 if piece.field == "image" else float(weigh(piece))
            weights += [weight] * (end - start)
        return weights

    def spans(self) -> list[Span]:
        spans: list[Span] = []
        for start, end, piece in self:
            span = Span(start, end, piece.origin, piece.message, piece.field)
            if spans and spans[-1][2:] == span[2:]:
                span = spans.pop()._replace(end=end)
            spans.append(span)
        return spans


def piece_token_ends(pieces: Sequence[Piece], lengths: Iterable[int]) -> list[int]:
    """The end of the tokens of each piece in a run of text; `lengths` are the tokens' bytes.

    A token that crosses a border belongs to the later piece: to the author of its last byte.
    """
    reached = list(accumulate(lengths))
    ends = accumulate(_byte_length(piece.text) for piece in pieces[:-1])
    return [*(bisect_right(reached, end) for end in ends), len(reached)]


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def weigher(policy: Policy, pieces: Sequence[Piece]) -> Weigh:
    """A policy as a function of pieces."""
    if callable(policy):
        return lambda piece: policy(piece.message, piece.field)
    if not isinstance(policy, str) or policy not in POLICIES:
        expected = f"a function or one of {', '.join(POLICIES)}"
        raise OptionError("policy", mismatch(policy, expected))
    return POLICIES[policy](pieces)


def _assistant(pieces: Sequence[Piece]) -> Weigh:
    """Everything that the model writes."""
    return lambda piece: piece.origin == "model"


def _last_turn(pieces: Sequence[Piece]) -> Weigh:
    """Everything that the model writes in its last message."""
    last = next((p.message for p in reversed(pieces) if p.origin == "model"), None)
    return lambda piece: piece.origin == "model" and piece.message == last


def _answers(pieces: Sequence[Piece]) -> Weigh:
    """Everything that the model writes but its reasoning."""
    return lambda piece: piece.origin == "model" and piece.field != "reasoning"


def _calls(pieces: Sequence[Piece]) -> Weigh:
    """Only tool calls."""
    return lambda piece: piece.origin == "model" and piece.field == "tool_calls"


POLICIES: dict[str, Callable[[Sequence[Piece]], Weigh]] = {
    "assistant": _assistant,
    "last_turn": _last_turn,
    "answers": _answers,
    "calls": _calls,
}

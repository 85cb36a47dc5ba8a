"""A radix tree of prompts, as tokens: what a prompt has in common with all that came before it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dsv4.tokens.coder import common_prefix_length


class _Edge:
    """Tokens that all prompts below have in common, and the number of the last one of them."""

    __slots__ = ("below", "last", "tokens")

    def __init__(self, tokens: Sequence[Hashable], last: int) -> None:
        self.tokens, self.last = tokens, last
        self.below: dict[Hashable, _Edge] = {}


class PrefixTree:
    """Prompts that were added, each with a number that is higher than all before it.

    What prompts share is kept once. A prompt is looked up and added in time that grows with its
    length, however many there are.
    """

    def __init__(self) -> None:
        self._root = _Edge((), 0)

    def add(
        self, tokens: Sequence[Hashable], number: int, oldest: int = 0
    ) -> tuple[int, int | None]:
        """Adds a prompt: how many of its tokens an earlier one begins with, and the number of the
        last one that does; None where none does. Those before the `oldest` do not count."""
        edge, at = self._root, 0
        before: int | None = None
        while at < len(tokens):
            child = edge.below.get(tokens[at])
            if child is None or child.last < oldest:
                edge.below[tokens[at]] = _Edge(tokens[at:], number)
                break
            same = common_prefix_length(child.tokens, tokens[at : at + len(child.tokens)])
            before, at = child.last, at + same
            if same < len(child.tokens):
                child = _split(edge, child, same)
            child.last = number
            edge = child
        return at, before

    def forget(self, oldest: int) -> None:
        """Removes what only prompts before this number have."""
        edges = [self._root]
        while edges:
            edge = edges.pop()
            edge.below = {key: each for key, each in edge.below.items() if each.last >= oldest}
            edges += edge.below.values()


def _split(above: _Edge, edge: _Edge, at: int) -> _Edge:
    """The first part of an edge, with the rest of it below."""
    first = _Edge(edge.tokens[:at], edge.last)
    above.below[first.tokens[0]] = first
    edge.tokens = edge.tokens[at:]
    first.below[edge.tokens[0]] = edge
    return first

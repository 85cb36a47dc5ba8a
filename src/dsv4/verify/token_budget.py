"""The prompt tokens that a run may cost: it never sends more than was announced."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from dsv4._format.dialects import V4_0731, V4_1, Dialect
from dsv4.errors import Error
from dsv4.profiles.gateway_prompts import prompt_of
from dsv4.verify.token_counts import PromptCounter

# Requests under way may cost so many times their forecast without changing what is sent later.
MOST_SURPRISE = 4
# Requests differ in size if one is at least so many times as long as the other.
TWO_SIZES = 2


class TokensSpent(Exception):
    """Raised where a request is not sent because it would pass the budget."""


class TokenBudget:
    """A budget of at most `most` prompt tokens.

    The cost of a request is forecast before it is sent: by our own count, and by how much more than
    that the server has counted so far. The server's own counts are what was spent.
    """

    def __init__(self, most: int, counter: PromptCounter) -> None:
        self.most, self._counter = most, counter
        self.spent = self._reserved = 0
        self._excess: dict[int, int] = {}  # by our own count, the tokens that the server adds
        self._lock = threading.Lock()

    def reserve(self, body: Mapping[str, Any]) -> tuple[int, int]:
        """Reserves the tokens of a request. Returns our own count, and the one expected from this
        server. Raises `TokensSpent` if the request may not be sent."""
        own = forecast_tokens(body, self._counter)
        with self._lock:
            expected = self._expected(own)
            if self.spent + self._reserved + expected > self.most:
                raise TokensSpent
            self._reserved += expected
        return own, expected

    def has_room(self, bodies: Sequence[Mapping[str, Any]]) -> bool:
        """Whether all of these requests may be sent, even if the server counts them far higher
        than forecast."""
        own = [forecast_tokens(body, self._counter) for body in bodies]
        with self._lock:
            return self.spent + sum(map(self._most_expected, own)) <= self.most

    def settle(self, own: int, expected: int, counted: int | None) -> None:
        """Records the count of a request that was reserved; None where the server did not say, so
        that the forecast stands."""
        with self._lock:
            self._reserved -= expected
            self.spent += expected if counted is None else counted
            if counted:
                self._excess[own] = max(counted - own, self._excess.get(own, 0))

    def _most_expected(self, own: int) -> int:
        """The most that a request may cost once others under way are counted: a short one may show
        that a hidden text, or an odd counter, changes any request by as much as the most changed
        one so far."""
        most = max(self._excess.values(), default=0)
        return max(MOST_SURPRISE * self._expected(own), own + most)

    def _expected(self, own: int) -> int:
        """The count to expect from the server. A hidden text adds the same to every prompt; an odd
        counter multiplies counts. For a prompt shorter than the longest so far, the smaller of both
        is the limit. For a longer one, requests of two sizes tell which of them applies."""
        if not self._excess:
            return own
        short, long = min(self._excess), max(self._excess)
        steepest = max(excess / size for size, excess in self._excess.items())
        most = min(max(self._excess.values()), ceil(steepest * max(own, short)))
        if long >= TWO_SIZES * short:
            growth = (self._excess[long] - self._excess[short]) / (long - short)
        else:
            growth = self._excess[long] / long
        return own + max(most, 0) + round(max(growth, 0.0) * max(own - long, 0))


def forecast_tokens(body: Mapping[str, Any], counter: PromptCounter) -> int:
    """The tokens of the prompt of a request, with its pictures. A body that is not a Chat request,
    or that we would refuse, is counted as JSON, which is longer."""
    # The first has the longer texts, the second takes pictures.
    counts = [_tokens_in(body, dialect, counter) for dialect in (V4_0731, V4_1)]
    return max(counts) or counter.tokens_of(json.dumps(body, ensure_ascii=False))


def _tokens_in(body: Mapping[str, Any], dialect: Dialect, counter: PromptCounter) -> int:
    try:
        prompt = prompt_of(dict(body), dialect)
    except Error:
        return 0
    pictures = sum(grid.tokens for grid in prompt.image_grids if grid is not None)
    return counter.count(str(prompt), dialect, frozenset()) + pictures

"""The prompt tokens that a run may cost: what was announced is what is sent at most."""

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

# What is under way may cost so many times its forecast, and change none of what is sent after it.
MOST_SURPRISE = 4
# Requests have two sizes where one is so many times as long as the other.
TWO_SIZES = 2


class TokensSpent(Exception):
    """A request was not sent: it would have passed the budget."""


class TokenBudget:
    """At most so many tokens of prompts.

    What a request costs is forecast before it is sent: by our own count, and by how much more than
    that the server has counted so far. What the server says it counted is what was spent.
    """

    def __init__(self, most: int, counter: PromptCounter) -> None:
        self.most, self._counter = most, counter
        self.spent = self._reserved = 0
        self._excess: dict[int, int] = {}  # by our own count, what the server counts more
        self._lock = threading.Lock()

    def reserve(self, body: Mapping[str, Any]) -> tuple[int, int]:
        """Our own count of a request that may be sent, and what this server may count. Raises
        `TokensSpent` where it may not be sent."""
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
        """What came of a request that was reserved; None where the server did not say, so that
        the forecast stands."""
        with self._lock:
            self._reserved -= expected
            self.spent += expected if counted is None else counted
            if counted:
                self._excess[own] = max(counted - own, self._excess.get(own, 0))

    def _most_expected(self, own: int) -> int:
        """What may be expected of a request when others that are under way are counted: a short one
        may show that a hidden text, or an odd counter, changes any by as much as the one that it
        has changed most so far."""
        most = max(self._excess.values(), default=0)
        return max(MOST_SURPRISE * self._expected(own), own + most)

    def _expected(self, own: int) -> int:
        """What the server may count. A hidden text adds the same to every prompt, an odd counter
        multiplies them: what is shorter than the longest so far has no more than either would
        make of it. For what is longer, requests of two sizes tell which it is."""
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
    """The tokens of the prompt of a request, with its pictures. What is no Chat request, or one
    that we would refuse, is counted as JSON, which is longer."""
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

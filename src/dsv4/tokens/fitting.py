"""What must go so that a conversation fits a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from dsv4.encoding.door import as_message, maybe_list
from dsv4.encoding.prompt import Prompt
from dsv4.encoding.turns import call_places
from dsv4.errors import OptionError, shown
from dsv4.request import Request

# Roles whose message begins a round.
_ASKING = ("user", "developer")


class Fitted(NamedTuple):
    """A request that fits: `request`, the indices of the messages that were taken out of it, in
    order, and how many tokens its prompt has."""

    request: Request
    removed: list[int]
    tokens: int


def fit(count_of: Callable[[Prompt], int], request: Request, limit: int) -> Fitted:
    """The request without its oldest rounds, as few of them as will do.

    `count_of` says how many tokens a prompt has.
    """
    if not isinstance(request, Request):
        raise OptionError("request", f"found {shown(request)}, expected a Request")
    if limit.__class__ is not int or limit < 1:
        raise OptionError("limit", f"found {shown(limit)}, expected a number of tokens")
    messages = list(request.messages)
    groups = _removable([as_message(m, ("messages", n)) for n, m in enumerate(messages)])

    def without(count: int) -> Fitted:
        removed = sorted(index for group in groups[:count] for index in group)
        gone = set(removed)
        kept = [message for n, message in enumerate(messages) if n not in gone]
        fitted = replace(request, messages=kept) if removed else request
        return Fitted(fitted, removed, count_of(fitted.encode()))

    whole = without(0)
    if whole.tokens <= limit:
        return whole
    smallest = without(len(groups))
    if smallest.tokens > limit:
        problem = f"found {limit}, expected at least the {smallest.tokens} tokens of what must stay"
        raise OptionError("limit", problem)
    # Each group that goes makes the prompt shorter, so half of what is left need not be tried.
    low, high, best = 0, len(groups), smallest
    while high - low > 1:
        middle = (low + high) // 2
        tried = without(middle)
        if tried.tokens <= limit:
            high, best = middle, tried
        else:
            low = middle
    return best


def _removable(messages: Sequence[dict[str, Any]]) -> list[list[int]]:
    """What can go, the first to go first: whole rounds, then the calls of the last round."""
    together = _between_call_and_result(messages)
    roles = [message.get("role") for message in messages]
    rounds = [
        n
        for n, role in enumerate(roles)
        if role in _ASKING and n not in together and not (n and roles[n - 1] == role == "user")
    ]
    if not rounds:
        return []
    last = rounds[-1]
    # The last answer or call of the last round stays: the model goes on from there.
    calls = [
        n for n in range(last + 1, len(roles)) if roles[n] == "assistant" and n not in together
    ]
    stretches = [*pairwise(rounds), *pairwise(calls)]
    groups = [[n for n in range(*stretch) if roles[n] != "system"] for stretch in stretches]
    return [group for group in groups if group]


def _between_call_and_result(messages: Sequence[dict[str, Any]]) -> set[int]:
    """The messages before which nothing can be cut: a call is before them, its result is not."""
    made: dict[Any, int] = {}
    latest: int | None = None
    last_result: dict[int, int] = {}  # of the calls of a message
    for n, message in enumerate(messages):
        if message.get("role") == "assistant" and (calls := maybe_list(message.get("tool_calls"))):
            latest = n
            made |= dict.fromkeys(call_places(calls), n)
        elif message.get("role") == "tool":
            id = message.get("tool_call_id")
            call = made.get(id, latest) if isinstance(id, (str, int)) else latest
            if call is not None:
                last_result[call] = n
    reached = accumulate((last_result.get(n, -1) for n in range(len(messages))), max, initial=-1)
    return {n for n, result in enumerate(reached) if n <= result}

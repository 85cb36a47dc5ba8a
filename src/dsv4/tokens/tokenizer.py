"""`Tokenizer`: ids of prompts, training examples, and conversations cut to fit a limit.

When reasoning is dropped from earlier turns, no single prompt contains everything that was sampled:
a conversation is then grown turn by turn, and each prompt that a later turn would rewrite becomes
an example.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dsv4._encode.inputs import MessageFields, as_message, maybe_list
from dsv4._encode.prompt import Piece, Prompt
from dsv4._encode.turns import call_places
from dsv4.errors import OptionError, mismatch
from dsv4.request import Request, RequestOptions
from dsv4.tokens.coder import Coder, common_prefix_length
from dsv4.tokens.masks import AttributedIds, Weigh
from dsv4.tokens.session import Session
from dsv4.types import MessageInput

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Example(NamedTuple):
    """One training example: a prompt, its ids, and weights for the sampled ones.

    `shared` is the number of ids that it has in common with the example before it, from the start.
    The sampled turns are in the messages from `start` on, up to `end`.
    """

    prompt: Prompt
    ids: list[int]
    weights: list[float]
    shared: int
    start: int
    end: int


def sampled_stretches(
    tokenizer: Coder, request: Request, messages: list[Any]
) -> Iterator[tuple[int, int, AttributedIds]]:
    """The prompts that together have every assistant turn as it was sampled, in order.

    For each prompt: the index of its first message whose turn is in no earlier prompt, the end of
    its messages, and its ids. The conversation is grown turn by turn in a session. If a turn would
    rewrite the prompt so far, that prompt is one of them. So everything is encoded once, however
    long it is.
    """
    session = Session(tokenizer, replace(request, messages=()))
    start = end = 0
    before = session.snapshot()
    for stop in _sampled_ends(messages):
        for message in messages[end:stop]:
            session.append(message)
        now = session.snapshot()
        if session.rewritten is not None:
            yield start, end, before.attributed
            start = end
        before, end = now, stop
    if end:
        yield start, end, before.attributed


def _sampled_ends(messages: list[Any]) -> Iterator[int]:
    """The ends of stretches of assistant turns."""
    sampled = [
        as_message(message, ("messages", n)).get("role") == "assistant"
        for n, message in enumerate(messages)
    ]
    for end in range(1, len(sampled) + 1):
        if sampled[end - 1] and not any(sampled[end : end + 1]):
            yield end


def model_from(start: int) -> Weigh:
    """A weight of 1 for everything that the model wrote from the message `start` on."""

    def weigh(piece: Piece) -> float:
        return piece.origin == "model" and (piece.message or 0) >= start

    return weigh


# Removing messages so that a conversation fits a window.


# Roles whose message begins a round.
_ASKING = ("user", "developer")


class Fitted(NamedTuple):
    """A request that fits: `request`, the indices of the messages that were removed from it, in
    order, and the number of tokens in its prompt."""

    request: Request
    removed: list[int]
    tokens: int


def fit(count_of: Callable[[Prompt], int], request: Request, limit: int) -> Fitted:
    """The request without its oldest rounds, as few of them as possible.

    `count_of` gives the number of tokens in a prompt.
    """
    if not isinstance(request, Request):
        raise OptionError("request", mismatch(request, "a Request"))
    if limit.__class__ is not int or limit < 1:
        raise OptionError("limit", mismatch(limit, "a number of tokens"))
    messages = list(request.messages)
    groups = _removable([as_message(m, ("messages", n)) for n, m in enumerate(messages)])

    @cache
    def without(count: int) -> Fitted:
        removed = sorted(index for group in groups[:count] for index in group)
        indices = set(removed)
        others = [message for n, message in enumerate(messages) if n not in indices]
        fitted = replace(request, messages=others) if removed else request
        return Fitted(fitted, removed, count_of(fitted.encode()))

    whole = without(0)
    if whole.tokens <= limit:
        return whole
    smallest = without(len(groups))
    if smallest.tokens > limit:
        problem = f"found {limit}, expected at least the {smallest.tokens} tokens of what must stay"
        raise OptionError("limit", problem)
    # Each group that is removed makes the prompt shorter.
    counts = range(1, len(groups) + 1)
    return without(counts[bisect_left(counts, True, key=lambda n: without(n).tokens <= limit)])


def _removable(messages: Sequence[MessageFields]) -> list[list[int]]:
    """Groups of messages that can be removed, in that order: whole rounds, then the calls of the
    last round."""
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


def _between_call_and_result(messages: Sequence[MessageFields]) -> set[int]:
    """The messages before which no cut is possible: a call is before them, its result is not."""
    callers: dict[Any, int] = {}
    latest: int | None = None
    last_result: dict[int, int] = {}  # of the calls of a message
    for n, message in enumerate(messages):
        if message.get("role") == "assistant" and (calls := maybe_list(message.get("tool_calls"))):
            latest = n
            callers |= dict.fromkeys(call_places(calls), n)
        elif message.get("role") == "tool":
            id = message.get("tool_call_id")
            call = callers.get(id, latest) if isinstance(id, (str, int)) else latest
            if call is not None:
                last_result[call] = n
    reached = accumulate((last_result.get(n, -1) for n in range(len(messages))), max, initial=-1)
    return {n for n, result in enumerate(reached) if n <= result}


class Tokenizer(Coder):
    """The ids of prompts. Special tokens come only from the format, whatever a text spells.

    Nothing is loaded before it is needed. One tokenizer may be used from many threads.
    """

    def expand(
        self, messages: Iterable[MessageInput] | Request, **options: Unpack[RequestOptions]
    ) -> list[Example]:
        """A conversation as training examples, each turn as it was sampled.

        When reasoning is dropped from earlier turns, no single prompt has all sampled turns: each
        stretch of assistant turns is an example with the reasoning it had. `options` are those of
        `Request`, which may also be given in place of the messages.
        """
        request = _as_request(messages, options)
        listed = list(request.messages)
        examples: list[Example] = []
        for start, end, attributed in sampled_stretches(self, request, listed):
            prompt = replace(request, messages=listed[:end]).encode()
            shared = common_prefix_length(examples[-1].ids, attributed.ids) if examples else 0
            weights = attributed.weights(model_from(start))
            examples.append(Example(prompt, attributed.ids, weights, shared, start, end))
        return examples

    def fit(self, request: Request, limit: int) -> Fitted:
        """`request` with at most `limit` tokens in its prompt, and the messages removed for that.

        The oldest rounds are removed first: a round is a user's or developer's message, and all up
        to the next one. Within the last round the oldest calls are removed, with their results.
        System messages and the last question stay. Raises an `OptionError` if even that is too
        long, and for anything but a `Request`, and an `ImageError` for an image whose size is not
        known.
        """
        return fit(self.count, request, limit)


def _as_request(messages: Iterable[MessageInput] | Request, options: RequestOptions) -> Request:
    if not isinstance(messages, Request):
        return Request(messages, **options)
    if options:
        problem = f"found {', '.join(options)} beside a request, expected the options on it"
        raise OptionError("messages", problem)
    return messages

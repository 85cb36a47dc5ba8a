"""A conversation as training examples, each turn as it was sampled.

When reasoning is dropped from earlier turns, what was sampled is in no single prompt. The
conversation is grown stretch by stretch, and wherever a stretch would rewrite what was there, what
was there is an example. A session does the growing: so all of it is encoded once, however long it
is, and an example costs what it is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from dsv4.encoding.door import as_message
from dsv4.encoding.pieces import Piece
from dsv4.encoding.prompt import Prompt
from dsv4.request import Request
from dsv4.tokens.coder import Coder, same_start
from dsv4.tokens.masks import Owned, Weigh
from dsv4.tokens.session import Session


class Example(NamedTuple):
    """One training example: a prompt, its ids, and weights for what was sampled in it.

    `shared` is how many ids it has in common with the example before it, from the start.
    """

    prompt: Prompt
    ids: list[int]
    weights: list[float]
    shared: int


def expand(tokenizer: Coder, request: Request) -> list[Example]:
    """The examples of a request's messages, the first turns first."""
    messages = list(request.messages)
    examples: list[Example] = []
    for start, end, owned in _stretches(tokenizer, request, messages):
        prompt = replace(request, messages=messages[:end]).encode()
        shared = same_start(examples[-1].ids, owned.ids) if examples else 0
        examples.append(Example(prompt, owned.ids, owned.weights(_model_from(start)), shared))
    return examples


def _stretches(
    tokenizer: Coder, request: Request, messages: list[Any]
) -> Iterator[tuple[int, int, Owned]]:
    """The prompts in which every assistant turn is as it was sampled: where the messages begin
    whose turns are in no prompt before it, where its messages end, and its ids."""
    session = Session(tokenizer, replace(request, messages=()))
    start = end = 0
    before = session.snapshot()
    for stop in _sampled_ends(messages):
        for message in messages[end:stop]:
            session.append(message)
        now = session.snapshot()
        if session.rewritten is not None:
            yield start, end, before.owned
            start = end
        before, end = now, stop
    if end:
        yield start, end, before.owned


def _sampled_ends(messages: list[Any]) -> Iterator[int]:
    """Where stretches of assistant turns end."""
    sampled = [
        as_message(message, ("messages", n)).get("role") == "assistant"
        for n, message in enumerate(messages)
    ]
    for end in range(1, len(sampled) + 1):
        if sampled[end - 1] and not any(sampled[end : end + 1]):
            yield end


def _model_from(start: int) -> Weigh:
    """Weighs what the model wrote from the message `start` on."""

    def weigh(piece: Piece) -> float:
        return piece.origin == "model" and (piece.message or 0) >= start

    return weigh

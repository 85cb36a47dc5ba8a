"""Log probabilities on their way from tokens to the texts that the tokens became.

A backend gives them with its tokens. The parser shows some of these later than they came, and some,
the markup, not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dsv4._parse.events import ContentDelta, Event, ReasoningDelta
from dsv4.serve.backend import Logprob


class TokenLogprobs:
    """Those of one completion, each until the text of its token is shown."""

    def __init__(self) -> None:
        self._waiting: list[Logprob] = []
        # By the event, which must be kept as long as this is.
        self._given: dict[int, list[dict[str, Any]]] = {}

    def give(self, logprobs: Iterable[Logprob], events: Iterable[Event]) -> None:
        """Takes those of a piece, and gives what waits to the events that the piece brought."""
        self._waiting += logprobs
        for event in events:
            if isinstance(event, (ReasoningDelta, ContentDelta)) and event.text:
                self._given[id(event)] = [_as_json(known) for known in self._taken(event.text)]

    def of(self, event: Event) -> list[dict[str, Any]] | None:
        """Those of an event, as Chat Completions writes them; None if it has none."""
        return self._given.get(id(event)) or None

    def _taken(self, text: str) -> list[Logprob]:
        """The tokens of a text. Those before it were markup, those after it are yet to be shown."""
        tokens, self._waiting = self._waiting, []
        at = "".join(known.token for known in tokens).find(text)
        if at < 0:  # characters that are cut between tokens have no text of their own
            return tokens
        taken, place = [], 0
        for n, known in enumerate(tokens):
            if place >= at + len(text):
                self._waiting = tokens[n:]
                break
            place += len(known.token)
            if place > at:
                taken.append(known)
        return taken


def _as_json(known: Logprob) -> dict[str, Any]:
    top = [_token(token, logprob) for token, logprob in known.top]
    return {**_token(known.token, known.logprob), "top_logprobs": top}


def _token(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8", "replace"))}

"""Prompts -> ids and back, and what is made of whole conversations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dsv4.errors import OptionError
from dsv4.request import Request
from dsv4.tokens.coder import Coder
from dsv4.tokens.expanding import Example, expand
from dsv4.tokens.fitting import Fitted, fit
from dsv4.tokens.options import Options

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Tokenizer(Coder):
    """The ids of prompts. Special tokens come from the format alone, whatever a text spells.

    Nothing is loaded before it is needed. One tokenizer may be used from many threads.
    """

    def expand(
        self, messages: Iterable[Any] | Request, **options: Unpack[Options]
    ) -> list[Example]:
        """A conversation as training examples, each turn as it was sampled.

        When reasoning is dropped from earlier turns, what was sampled is in no single prompt: each
        stretch of assistant turns is an example with the reasoning it had. `options` are those of
        `Request`, which may also be given in place of the messages.
        """
        return expand(self, _as_request(messages, options))

    def fit(self, request: Request, limit: int) -> Fitted:
        """`request` with at most `limit` tokens in its prompt, and what was taken out for it.

        The oldest rounds go first: a round is what follows a user's or developer's message up to
        the next. Within the last round the oldest calls go, with their results. System messages
        and the last question stay. Raises an `OptionError` where even that is too long, and for
        what is no `Request`.
        """
        return fit(self.count, request, limit)


def _as_request(messages: Iterable[Any] | Request, options: Options) -> Request:
    if not isinstance(messages, Request):
        return Request(messages, **options)
    if options:
        problem = f"found {', '.join(options)} beside a request, expected the options on it"
        raise OptionError("messages", problem)
    return messages

"""A request on its way to the backend: as it was read, and with its prompt and options."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from dsv4._completion.random_ids import new_id
from dsv4._encode.prompt import Prompt
from dsv4.api import ApiRequest, Usage
from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import Options

# The most unread fields that are named, and the most characters of each name.
_MOST_NAMES, _LONGEST_NAME = 20, 64


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that was read: its body with everything that it refers to, the approximate size of
    that in bytes, the fields that were not read, and the time when it had been read."""

    body: JsonObject
    call: ApiRequest
    size: int
    unread: tuple[str, ...] = ()
    began: float = field(default_factory=time.monotonic)

    @property
    def ignored(self) -> str:
        """The fields that were not read, for a header and the log. Clients make up names, so they
        are limited to ASCII and in length."""
        names = self.unread[:_MOST_NAMES]
        labels = [quote(name, "[]", errors="replace")[:_LONGEST_NAME] for name in names]
        more = len(self.unread) - len(labels)
        return ", ".join([*labels, f"+{more}"] if more else labels)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The images of a request: the numbers of those that were sent and of those that a text
    replaced, and the tokens of its prompt with them by the gateway's own count, where that is
    exact."""

    sent_count: int = 0
    replaced_count: int = 0
    token_count: int | None = None

    def fields(self, usage: Usage | None) -> dict[str, int | None]:
        """The fields for the log, with the gateway's own count if the engine's differs."""
        differs = self.sent_count and usage is not None and usage.prompt != self.token_count
        return {
            "images": self.sent_count or None,
            "replaced_images": self.replaced_count or None,
            "counted_tokens": self.token_count if differs else None,
        }


NO_IMAGES = ImageFacts()


class EncodedPrompt(NamedTuple):
    """A prompt, its ids, and its number of tokens, which is an estimate if there are no ids. An
    image counts with all of its tokens, or with the most possible where its size is unknown;
    `is_exact` says that nothing is estimated."""

    prompt: Prompt
    ids: list[int] | None
    tokens: int
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request with its prompt and the options for the backend.

    `shared` is the number of tokens that the prompt shares with an earlier one of the same client;
    `recalled` is the number of its turns that stand as they were sampled; `opening_size` is the
    number of its last tokens that open the call that the model must write; `images` counts its
    images; `adapted` are the ids of the adaptations for a chat server.
    """

    received: ReceivedRequest
    call: ApiRequest
    encoded: EncodedPrompt
    options: Options
    turn_ids: tuple[str, ...]
    shared: int | None
    recalled: int = 0
    opening_size: int = 0
    images: ImageFacts = NO_IMAGES
    adapted: tuple[str, ...] = ()


def new_turn_ids(count: int) -> tuple[str, ...]:
    """New ids for so many turns."""
    return tuple(new_id("turn_") for _ in range(count))

"""A request on its way to what generates: as it was read, and with its prompt and options."""

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

# Of the fields that were not read, so many are named, each with so many characters.
_MOST_NAMES, _LONGEST_NAME = 20, 64


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that was read: its body with all that it refers to, about how many bytes that is,
    the fields that were not read, and when it had been read."""

    body: JsonObject
    call: ApiRequest
    size: int
    unread: tuple[str, ...] = ()
    began: float = field(default_factory=time.monotonic)

    @property
    def ignored(self) -> str:
        """The fields that were not read, for a header and the log. Clients make up names: in ASCII,
        and not too long."""
        names = self.unread[:_MOST_NAMES]
        labels = [quote(name, "[]", errors="replace")[:_LONGEST_NAME] for name in names]
        more = len(self.unread) - len(labels)
        return ", ".join([*labels, f"+{more}"] if more else labels)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What became of the images of a request: how many were sent, how many a text replaced; and how
    many tokens its prompt has with them by our own count, where that is exact."""

    sent_count: int = 0
    replaced_count: int = 0
    token_count: int | None = None

    def fields(self, usage: Usage | None) -> dict[str, int | None]:
        """What the log says of them: our own count where the engine's is another."""
        differs = self.sent_count and usage is not None and usage.prompt != self.token_count
        return {
            "images": self.sent_count or None,
            "replaced_images": self.replaced_count or None,
            "counted_tokens": self.token_count if differs else None,
        }


NO_IMAGES = ImageFacts()


class EncodedPrompt(NamedTuple):
    """A prompt, its ids, and how many tokens it has: about as many, where there are no ids. An
    image counts with all of its tokens, and with the most that one can have where its size is not
    known; `is_exact` says that neither is guessed."""

    prompt: Prompt
    ids: list[int] | None
    tokens: int
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request with its prompt and the options for the backend.

    `shared` is how many tokens of the prompt an earlier one of the same client had; `recalled` is
    how many of its turns stand as they were sampled; `opening_size` is how many of its last tokens
    open the call that the model must write; `images` is what became of its images; `adapted` are
    the ids of what was changed for a chat server.
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
    """The ids of so many turns."""
    return tuple(new_id("turn_") for _ in range(count))

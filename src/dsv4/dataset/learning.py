"""What is learned from an example, besides what its mask says: messages have weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4.errors import EncodeError, short_repr
from dsv4.tokens.masks import AttributedIds

# What training code ignores, in the labels of PyTorch's cross entropy.
IGNORED = -100


def weightless(messages: Sequence[Any]) -> set[int]:
    """The messages that are not to be learned from: those with a `weight` of 0.

    A weight is 0 or 1, as in OpenAI's files for fine-tuning.
    """
    found: set[int] = set()
    for index, message in enumerate(messages):
        weight = message.get("weight") if isinstance(message, dict) else None
        if weight is None:
            continue
        if isinstance(weight, bool) or weight not in (0, 1):
            location = ("messages", index, "weight")
            raise EncodeError(location, f"found {short_repr(weight)}, expected 0 or 1")
        if weight == 0:
            found.add(index)
    return found


def without(mask: Sequence[int], owned: AttributedIds, messages: set[int]) -> list[int]:
    """The mask with nothing to learn in some messages."""
    mask = list(mask)
    for start, end, piece in owned:
        if piece.message in messages:
            mask[start:end] = [0] * (end - start)
    return mask


def labels(ids: Sequence[int], mask: Sequence[int]) -> list[int]:
    """The ids that are learned, and -100 for all others."""
    return [id if learned else IGNORED for id, learned in zip(ids, mask, strict=True)]

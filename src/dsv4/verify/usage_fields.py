"""What the usage of an answer says, under each name that servers have for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.verify.answers import value_at
from dsv4.verify.server_client import Reply

MOST_TOKENS = 1_000_000_000


def usage_of(reply: Reply) -> Mapping[str, Any]:
    """The usage of a reply, whole or streamed; empty where it has none."""
    for body in (reply.body, *reversed(reply.events)):
        usage = body.get("usage") if isinstance(body, dict) else None
        if isinstance(usage, dict):
            return usage
    return {}


def counted_tokens(reply: Reply) -> int | None:
    """The tokens of the prompt that a reply answers, as it says it; None where it refuses it."""
    return None if reply.refused else prompt_tokens(usage_of(reply))


def prompt_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens of a prompt, under each name that servers have for them. Messages counts what a
    cache knew, or was told to keep, apart."""
    whole = token_number(usage.get("prompt_tokens"))
    if whole is not None:
        return whole
    own = token_number(usage.get("input_tokens"))
    cached = (usage.get(f"cache_{action}_input_tokens") for action in ("read", "creation"))
    return None if own is None else own + sum(token_number(each) or 0 for each in cached)


def cached_tokens(usage: Mapping[str, Any]) -> int | None:
    """How many tokens of the prompt a cache knew, under each name that servers have for it."""
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = usage.get(name)
        count = token_number(details.get("cached_tokens")) if isinstance(details, dict) else None
        if count is not None:
            return count
    read = token_number(usage.get("cache_read_input_tokens"))
    return token_number(usage.get("prompt_cache_hit_tokens")) if read is None else read


def completion_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens of an answer, under both names that servers have for them."""
    counts = (token_number(usage.get(f"{name}_tokens")) for name in ("completion", "output"))
    return next((count for count in counts if count is not None), None)


def token_number(value: object) -> int | None:
    """A number of tokens, which some write as 84.0; None for anything that cannot be one."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def finishes(reply: Reply) -> set[str]:
    """Why the answer ends, as the reply says it, whole or streamed."""
    bodies = (reply.body, *reply.events)
    return {str(value_at(body, "choices", 0, "finish_reason")) for body in bodies}

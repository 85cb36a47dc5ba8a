"""Fields of a request that are not read, so that the answer can name them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dsv4.api.chat_requests import FIELDS as CHAT
from dsv4.api.chat_requests import TEMPLATE_OPTIONS
from dsv4.api.messages_requests import FIELDS as MESSAGES
from dsv4.api.messages_requests import OUTPUT_FIELDS
from dsv4.api.responses_requests import FIELDS as RESPONSES
from dsv4.api.responses_requests import REASONING, TEXT

# What a server stores responses by, or repeats in them.
_STORED = ("previous_response_id", "conversation", "prompt", "store", "metadata")

FIELDS_READ: dict[str, frozenset[str]] = {
    "chat": frozenset({"messages", *CHAT}),
    "responses": frozenset({*RESPONSES, *_STORED}),
    "messages": frozenset(MESSAGES),
}
# Of fields that hold options.
OPTION_FIELDS_READ: dict[str, dict[str, Collection[str]]] = {
    "chat": {
        "stream_options": {"include_usage"},
        "thinking": {"type"},
        "chat_template_kwargs": TEMPLATE_OPTIONS,
    },
    "responses": {"reasoning": REASONING, "text": TEXT},
    "messages": {"thinking": {"type"}, "output_config": OUTPUT_FIELDS, "metadata": {"user_id"}},
}

# Those that clients are known to send. They say nothing that a prompt could hold, or give advice
# that the format has no words for; none of them takes anything away from what the model sees.
_OPENAI = (
    *("safety_identifier", "service_tier", "moderation", "prompt_cache_options"),
    *("prompt_cache_retention", "stream_options.include_obfuscation"),
)
HARMLESS_FIELDS: dict[str, frozenset[str]] = {
    "chat": frozenset(
        {
            *_OPENAI,
            *("audio", "logit_bias", "metadata", "modalities", "prediction", "store", "verbosity"),
            *("thinking.budget_tokens",),
        }
    ),
    "responses": frozenset(
        {
            *_OPENAI,
            *("access_programs", "client_metadata", "context_management", "image"),
            *("max_tool_calls", "stream_options", "truncation", "reasoning.generate_summary"),
            *("reasoning.mode", "reasoning.summary", "text.verbosity"),
        }
    ),
    "messages": frozenset(
        {
            *("cache_control", "context_management", "diagnostics", "fallback_credit_token"),
            *("fallbacks", "inference_geo", "output_config.task_budget", "service_tier", "speed"),
            *("thinking.block_binding", "thinking.budget_tokens", "thinking.display"),
            *("user_profile_id",),
        }
    ),
}


def unread_fields(protocol: str, body: dict[str, Any]) -> list[str]:
    """The fields of a body, and of its options, that are not read. Null is absent."""
    read, inside = FIELDS_READ[protocol], OPTION_FIELDS_READ[protocol]
    unread = [name for name, value in body.items() if name not in read and value is not None]
    for field, known in inside.items():
        options = body.get(field)
        if isinstance(options, dict):
            unread += [
                f"{field}.{name}"
                for name, value in options.items()
                if name not in known and value is not None
            ]
    return unread

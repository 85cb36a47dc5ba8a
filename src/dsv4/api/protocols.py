"""The protocols by name: the functions that each has, and the fields of its requests that are
read, so that an answer can name those that are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from dsv4._format.dialects import Dialect
from dsv4.api import chat, messages, responses
from dsv4.api.api_request import ApiRequest, ApiSettings, ProtocolName
from dsv4.api.chat_requests import FIELDS as CHAT
from dsv4.api.chat_requests import TEMPLATE_OPTIONS
from dsv4.api.event_writer import (
    ChoiceEvents,
    EventWriter,
    FinishReason,
    ProtocolEvent,
    Seal,
    Usage,
)
from dsv4.api.messages_requests import FIELDS as MESSAGES
from dsv4.api.messages_requests import OUTPUT_FIELDS
from dsv4.api.request_fields import Body, JsonObject
from dsv4.api.responses_requests import FIELDS as RESPONSES
from dsv4.api.responses_requests import REASONING, TEXT


class ApiProtocol(Protocol):
    """What the module of each protocol has."""

    @property
    def Writer(self) -> type[EventWriter]:
        """Makes protocol events of the parser's."""
        ...

    def read(
        self, body: Body, *, dialect: str | Dialect = "v4", settings: ApiSettings | None = None
    ) -> ApiRequest:
        """The request of a body."""
        ...

    def frames(self, events: Iterable[ProtocolEvent]) -> bytes:
        """Protocol events as bytes of server-sent events."""
        ...

    def fold(self, events: Iterable[ProtocolEvent]) -> dict[str, Any]:
        """The whole response that the events of a stream make."""
        ...

    def whole(
        self,
        call: ApiRequest,
        events: ChoiceEvents,
        *,
        usage: Usage | None = None,
        reason: FinishReason = None,
        id: str | None = None,
        created: int | None = None,
        model: str | None = None,
        seal: Seal | None = None,
    ) -> dict[str, Any]:
        """The response to a request that does not stream."""
        ...

    def error(self, exception: BaseException) -> tuple[int, dict[str, Any]]:
        """The HTTP status and the body of the response to a request that failed."""
        ...


PROTOCOLS: Mapping[ProtocolName, ApiProtocol] = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
}


def protocol_of_client(headers: Mapping[str, str], otherwise: ProtocolName = "chat") -> ApiProtocol:
    """The protocol of a client, on a path that several have: Anthropic's clients send a version."""
    return PROTOCOLS["messages" if "anthropic-version" in headers else otherwise]


# Which fields of a request are read.

# What a server stores responses by, or repeats in them.
_STORED = ("previous_response_id", "conversation", "prompt", "store", "metadata")

FIELDS_READ: Mapping[ProtocolName, frozenset[str]] = {
    "chat": frozenset({"messages", *CHAT}),
    "responses": frozenset({*RESPONSES, *_STORED}),
    "messages": frozenset(MESSAGES),
}
# Of fields that hold options.
OPTION_FIELDS_READ: Mapping[ProtocolName, Mapping[str, Collection[str]]] = {
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
HARMLESS_FIELDS: Mapping[ProtocolName, frozenset[str]] = {
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


def unread_fields(protocol: ProtocolName, body: JsonObject) -> list[str]:
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

"""Rules on names of fields: fields that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from dsv4._check.checked_conversation import CheckedConversation
from dsv4._check.findings import RuleFinding
from dsv4._encode.turn_rules import NATIVE
from dsv4._inputs.request_bodies import CHAT_FIELDS_READ, role_of
from dsv4._inputs.sharegpt import is_sharegpt

# What a message of each role has. What the format leaves out of these is
# reported by other rules.
_COMMON = {"role", "content", "content_blocks", "task", "tools", "response_format"}
_FIELDS: dict[str, set[str]] = {
    "system": _COMMON,
    "developer": _COMMON,
    "user": {*_COMMON, str(NATIVE.url_field)},
    "assistant": {
        *_COMMON,
        *NATIVE.reasoning_fields,
        *NATIVE.open_turn_fields,
        "tool_calls",
    },
    "tool": {*_COMMON, "tool_call_id"},
    "latest_reminder": _COMMON,
}
_EVERY = set[str]().union(*_FIELDS.values())

# Fields that clients and data sets add, and that say nothing to the model.
_HARMLESS = {
    *("name", "id", "type", "index", "status", "object", "created", "created_at", "timestamp"),
    *("model", "refusal", "annotations", "audio", "logprobs", "finish_reason", "stop_reason"),
    *("weight", "metadata", "source", "cache_control", "provider_specific_fields"),
}

# Other people's names for what a message has.
_MEANT = {
    **dict.fromkeys(("contents", "text", "message", "value", "body"), "content"),
    "from": "role",
    **dict.fromkeys(("function_call", "tool_call", "toolCalls", "tool_use"), "tool_calls"),
    **dict.fromkeys(("toolCallId", "call_id", "tool_use_id", "tool_id"), "tool_call_id"),
    **dict.fromkeys(
        ("thinking", "thought", "thoughts", "reasoning_text", "reasoning_details"),
        "reasoning_content",
    ),
    "functions": "tools",
    "prefill": "prefix",
    "continue_final_message": "prefix",
}

# The same for a request. What is not here may be anything: sampling, or somebody's own notes.
_MEANT_OF_REQUEST = {
    **dict.fromkeys(("enable_thinking", "thinking_mode", "thinking_enabled"), "thinking"),
    "chat_template_kwargs": "thinking",
    "extra_body": "its fields in the request itself",
    **dict.fromkeys(("effort", "reasoning", "thinking_effort"), "reasoning_effort"),
    "functions": "tools",
    "function_call": "tool_choice",
    **dict.fromkeys(("response_schema", "guided_json", "json_schema"), "response_format"),
    **dict.fromkeys(("system", "system_prompt", "instructions"), "a message of role system"),
}
_OF_REQUEST = {
    *CHAT_FIELDS_READ,
    *("temperature", "top_p", "top_k", "n", "stream", "stream_options", "max_tokens", "seed"),
    *("max_completion_tokens", "user", "logprobs", "top_logprobs", "parallel_tool_calls"),
    *("presence_penalty", "frequency_penalty", "logit_bias", "metadata", "store", "messages"),
}


def unread_fields(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for index, message in enumerate(conversation.messages):
        for field, value in message.items():
            if not isinstance(field, str) or not _is_given(value):
                continue
            found = _of_message(field, role_of(message))
            if found:
                kind, problem = found
                yield RuleFinding(kind, ("messages", index, field), problem)


def _is_given(value: object) -> bool:
    """Clients write null, and empty lists, for what is not there."""
    return value is not None and value != [] and value != {} and value != ""


def _of_message(field: str, role: object) -> tuple[str, str] | None:
    known = _FIELDS.get(role, _EVERY) if isinstance(role, str) else _EVERY
    if field in known or field in _HARMLESS:
        return None
    if field in _EVERY:
        return "unread_field", f"messages of role {role} have no {field}: it is not read"
    meant = _MEANT.get(field) or _closest_name(field, _EVERY)
    if meant:
        return "unread_field", f"{field} is not read: did you mean {meant}?"
    return "unknown_field", f"{field} is not read"


def unread_options(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    body = conversation.body
    if not isinstance(body, dict) or is_sharegpt(body):
        return
    for field, value in body.items():
        if not isinstance(field, str) or field in _OF_REQUEST or not _is_given(value):
            continue
        meant = _MEANT_OF_REQUEST.get(field) or _closest_name(field, set(_OF_REQUEST))
        if meant:
            yield RuleFinding(
                "unread_field", (field,), f"{field} is not read: did you mean {meant}?"
            )


def _closest_name(field: str, known: set[str]) -> str | None:
    """The name that was probably meant: the same but for capitals and signs, or nearly so."""
    from difflib import get_close_matches  # few conversations need it, and every program imports

    plain = _plain(field)
    same = next((name for name in sorted(known) if _plain(name) == plain), None)
    return same or next(iter(get_close_matches(field, sorted(known), n=1, cutoff=0.84)), None)


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


FIELD_RULES = (unread_fields, unread_options)

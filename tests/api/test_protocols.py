"""Fields that nobody reads are named, and fields that change what the model sees are refused."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from anthropic.types.beta import BetaOutputConfigParam, BetaThinkingConfigEnabledParam
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses import ResponseTextConfigParam
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from openai.types.shared_params import Reasoning
from request_bodies import PROTOCOLS, body

import dsv4
from dsv4.api import ApiError
from dsv4.api.ignored_fields import (
    FIELDS_READ,
    HARMLESS_FIELDS,
    OPTION_FIELDS_READ,
    ignored_fields,
)
from dsv4.errors import path_of
from rows import each_row

EVERY = pytest.mark.parametrize("protocol", PROTOCOLS)

# The requests of the newest SDKs, and those of their fields that hold options. What goes out as a
# header is no field.
REQUESTS: dict[str, Any] = {
    "chat": CompletionCreateParamsNonStreaming,
    "responses": ResponseCreateParamsNonStreaming,
    "messages": MessageCreateParamsNonStreaming,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "chat": {},
    "responses": {"reasoning": Reasoning, "text": ResponseTextConfigParam},
    "messages": {
        "output_config": BetaOutputConfigParam,
        "thinking": BetaThinkingConfigEnabledParam,
    },
}
HEADERS = {"betas", "workspace_id"}


@EVERY
def test_every_field_that_the_newest_sdk_knows_has_been_decided_on(protocol: str) -> None:
    known = set(get_type_hints(REQUESTS[protocol])) - HEADERS
    assert known <= FIELDS_READ[protocol] | HARMLESS_FIELDS[protocol]
    for field, options in OPTIONS[protocol].items():
        inside = OPTION_FIELDS_READ[protocol][field]
        unread = {f"{field}.{name}" for name in get_type_hints(options) if name not in inside}
        assert unread <= HARMLESS_FIELDS[protocol]


@EVERY
def test_what_is_called_harmless_is_not_read(protocol: str) -> None:
    assert not FIELDS_READ[protocol] & HARMLESS_FIELDS[protocol]


def unread(protocol: str, given: dict[str, Any]) -> list[str]:
    dialect = dsv4.DIALECTS["v4"]
    fields: Any = ignored_fields(given, protocol, "body", dialect, own=False)  # type: ignore[arg-type]
    return list(map(path_of, fields))


@EVERY
def test_fields_that_are_not_read_are_named(protocol: str) -> None:
    given = body(protocol, model="m", stream=True, future={"a": 1}, later=None, newer=0)
    assert unread(protocol, given) == ["future", "newer"]


@pytest.mark.parametrize(
    ("protocol", "options", "named"),
    [
        ("chat", {"chat_template_kwargs": {"thinking": True, "x": 1}}, ["chat_template_kwargs.x"]),
        ("chat", {"thinking": {"type": "enabled"}, "stream_options": {"include_usage": True}}, []),
        ("responses", {"text": {"verbosity": "low", "format": {}}}, ["text.verbosity"]),
        ("responses", {"reasoning": {"effort": "high", "summary": None}}, []),
        ("messages", {"output_config": {"effort": "high", "y": 1}}, ["output_config.y"]),
        ("messages", {"thinking": "yes"}, []),
    ],
)
def test_options_that_are_not_read_are_named(
    protocol: str, options: dict[str, Any], named: list[str]
) -> None:
    assert unread(protocol, body(protocol, **options)) == named


@each_row(
    "protocol, field, value",
    [
        ("chat", "web_search_options", {}),
        ("chat", "documents", [{"text": "A"}]),
        ("chat", "chat_template", "{{ messages }}"),
        ("chat", "continue_final_message", True),
        ("chat", "add_generation_prompt", False),
        ("messages", "thread", {"type": "create"}),
        ("messages", "compaction", {"type": "summarize"}),
        ("messages", "mcp_servers", [{"type": "url", "url": "https://a", "name": "a"}]),
        ("messages", "container", {"skills": [{"skill_id": "pdf"}]}),
        ("responses", "reasoning", {"context": "all_turns"}),
    ],
)
def test_what_changes_what_the_model_sees_is_refused(protocol: str, field: str, value: Any) -> None:
    with pytest.raises(ApiError, match=f"^{field}.*: found .*, expected ") as caught:
        PROTOCOLS[protocol].read(body(protocol, **{field: value}))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("protocol", "field", "value"),
    [
        ("chat", "web_search_options", None),
        ("chat", "documents", []),
        ("chat", "continue_final_message", False),
        ("chat", "add_generation_prompt", True),
        ("messages", "thread", None),
        ("messages", "mcp_servers", []),
        ("responses", "reasoning", {"context": "auto"}),
    ],
)
def test_the_same_field_is_read_where_it_asks_for_nothing(
    protocol: str, field: str, value: Any
) -> None:
    given = body(protocol, **{field: value})
    assert PROTOCOLS[protocol].read(given) == PROTOCOLS[protocol].read(body(protocol))
    assert unread(protocol, given) == []


def test_a_thread_is_refused_by_the_word_that_its_client_knows() -> None:
    module = PROTOCOLS["messages"]
    with pytest.raises(ApiError) as caught:
        module.read(body("messages", thread={"type": "create"}))
    status, answer = module.error(caught.value)
    assert status == 400
    assert answer["error"]["details"] == {"error_code": "thread_unsupported_request"}

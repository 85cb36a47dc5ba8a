"""Requests of any protocol, written in Chat Completions."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from captured import PROTOCOLS, REQUESTS
from request_bodies import PIXEL, body, tools, user

from dsv4.api import ApiError, Settings, convert
from rows import each_row

# What only Responses can say.
PARTICULAR = ("namespace", "custom")
SETTINGS = [Settings(), Settings(later_system="in_place")]


def says(request: dict[str, Any], *kinds: str) -> bool:
    return any(tool.get("type") in kinds for tool in request["body"].get("tools", ()))


def prompts(protocol: str, request: Any) -> list[str]:
    return [
        str(PROTOCOLS[protocol].read(request, dialect=dialect, settings=settings).request.encode())
        for dialect in ("v4", "v4-0731", "v4.1")
        for settings in SETTINGS
    ]


@each_row("name", [pytest.param(name, id=name) for name in REQUESTS])
def test_a_request_and_its_translation_have_one_prompt(name: str) -> None:
    request = REQUESTS[name]
    source, before = request["protocol"], copy.deepcopy(request["body"])
    if says(request, *PARTICULAR):
        with pytest.raises(ApiError, match="cannot say"):
            convert(request["body"], source)
        return
    there = convert(json.dumps(request["body"]).encode(), source)
    assert convert(request["body"], source) == there
    assert request["body"] == before
    assert prompts("chat", there) == prompts(source, request["body"])


@each_row("source", PROTOCOLS)
def test_what_both_can_say_is_kept(source: str) -> None:
    length = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
    request = body(
        source, model="m", temperature=0.5, top_p=0.25, stream=True, tools=tools(source, "f")
    )
    request[length[source]] = 77
    request["metadata" if source == "messages" else "user"] = (
        {"user_id": "u"} if source == "messages" else "u"
    )
    call = PROTOCOLS["chat"].read(convert(request, source))
    assert (call.model, call.max_tokens, call.stream, call.user) == ("m", 77, True, "u")
    assert (call.sampling.temperature, call.sampling.top_p) == (0.5, 0.25)
    assert call.request == PROTOCOLS[source].read(request).request


SCHEMA = {"type": "array"}
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"thinking": {"type": "disabled"}}),
    ("messages", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
    ("messages", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    ("messages", {"tool_choice": {"type": "none"}}),
    ("messages", {"tool_choice": {"type": "any"}}),
    ("messages", {"tool_choice": {"type": "tool", "name": "g"}}),
    ("messages", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
    ("messages", {"stop_sequences": ["x"]}),
    ("responses", {"reasoning": {"effort": "none"}}),
    ("responses", {"reasoning": {"effort": "low"}}),
    ("responses", {"text": {"format": {"type": "json_object"}}}),
    (
        "responses",
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
    ),
    ("responses", {"tool_choice": "required"}),
    ("responses", {"tool_choice": {"type": "function", "name": "g"}}),
    (
        "responses",
        {
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "g"}],
            }
        },
    ),
    ("responses", {"parallel_tool_calls": False}),
    ("chat", {"seed": 1, "n": 2, "logprobs": True, "prompt_cache_key": "k", "stop": "END"}),
]


@each_row("source, fields", OPTIONS)
def test_options_are_kept(source: str, fields: Any) -> None:
    request = body(source, tools=tools(source, "f", "g"), **fields)
    first = PROTOCOLS[source].read(request)
    second = PROTOCOLS["chat"].read(convert(request, source))
    assert str(second.request.encode()) == str(first.request.encode())
    assert second.request.tool_choice == first.request.tool_choice
    for name in ("parallel", "sampling", "n", "logprobs", "cache_key"):
        assert getattr(second, name) == getattr(first, name)
    assert second.request.stop == first.request.stop


@pytest.mark.parametrize(
    "last", [{"content": "It is"}, {"content": "", "reasoning_content": "Let me"}]
)
def test_a_prefix_is_continued(last: Any) -> None:
    request = body("chat", user("Q"), {"role": "assistant", **last, "prefix": True})
    assert prompts("chat", convert(request, "chat")) == prompts("chat", request)


def test_a_prefix_of_messages_is_continued() -> None:
    request = body("messages", user("Q"), {"role": "assistant", "content": "It is"})
    assert prompts("chat", convert(request, "messages")) == prompts("messages", request)


@pytest.mark.parametrize("source", PROTOCOLS)
def test_an_empty_answer_stays_a_turn(source: str) -> None:
    request = body(source, user("Hi"), {"role": "assistant", "content": ""}, user("And?"))  # type: ignore[arg-type]
    assert prompts("chat", convert(request, source)) == prompts(source, request)


def test_images_survive() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    result = {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": [{"type": "image", "source": source}],
    }
    turns = (
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        },
        {"role": "user", "content": [result]},
    )
    request = body("messages", *turns)
    there = convert(request, "messages")
    assert prompts("chat", there) == prompts("messages", request)
    assert PIXEL in json.dumps(there)


def test_what_cannot_be_read_or_named_is_refused() -> None:
    for given, source in (
        ({"messages": 5}, "chat"),
        (body("chat", user("Q"), {"role": "assistant", "content": "A"}), "chat"),
        (body("chat"), "morse"),
    ):
        with pytest.raises(ApiError) as caught:
            convert(given, source)  # type: ignore[arg-type]
        assert caught.value.path

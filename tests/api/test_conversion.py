"""Requests of one protocol, written in another."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from anthropic.types import MessageCreateParams
from captured import PROTOCOLS, REQUESTS
from openai.types.chat import CompletionCreateParams
from openai.types.responses import ResponseCreateParams
from request_bodies import PIXEL, body, tools, user

from dsv4.api import ApiError, Settings, convert, left_out
from rows import each_row

PARAMS = {
    "chat": CompletionCreateParams,
    "responses": ResponseCreateParams,
    "messages": MessageCreateParams,
}
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


@pytest.mark.parametrize("target", PROTOCOLS)
@each_row("name", [pytest.param(name, id=name) for name in REQUESTS])
def test_a_request_and_its_translation_have_one_prompt(name: str, target: str) -> None:
    request = REQUESTS[name]
    source, before = request["protocol"], copy.deepcopy(request["body"])
    if target != "responses" and says(request, *PARTICULAR):
        with pytest.raises(ApiError, match="cannot say"):
            convert(request["body"], source, target)
        return
    there = convert(request["body"], source, target)
    json.dumps(there)
    assert request["body"] == before
    assert prompts(target, there) == prompts(source, request["body"])
    back = convert(json.dumps(there).encode(), target, source)
    assert prompts(source, back) == prompts(source, request["body"])


@pytest.mark.parametrize("target", PROTOCOLS)
@each_row("source", PROTOCOLS)
def test_what_both_can_say_is_kept(source: str, target: str) -> None:
    length = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
    request = body(
        source, model="m", temperature=0.5, top_p=0.25, stream=True, tools=tools(source, "f")
    )
    request[length[source]] = 77
    request["metadata" if source == "messages" else "user"] = (
        {"user_id": "u"} if source == "messages" else "u"
    )
    call = PROTOCOLS[target].read(convert(request, source, target))
    assert (call.model, call.max_tokens, call.stream, call.user) == ("m", 77, True, "u")
    assert (call.sampling.temperature, call.sampling.top_p) == (0.5, 0.25)
    assert call.request == PROTOCOLS[source].read(request).request


CHAT: list[dict[str, Any]] = [
    {"thinking": {"type": "disabled"}},
    {"thinking": {"type": "enabled"}},
    {"reasoning_effort": "none"},
    {"reasoning_effort": "low"},
    {"reasoning_effort": "max"},
    {"response_format": {"type": "json_object"}},
    {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "array"}},
        }
    },
    {"tool_choice": "none"},
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "g"}}},
    {
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": "g"}}],
            },
        }
    },
    {"parallel_tool_calls": False},
    {"stop": ["x"]},
]


@pytest.mark.parametrize("target", ["messages", "responses"])
@each_row("fields", CHAT)
def test_options_survive_the_way_there_and_back(fields: Any, target: str) -> None:
    if "stop" in fields and target == "responses":
        pytest.skip("Responses has no stop strings")
    request = body("chat", tools=tools("chat", "f", "g"), max_tokens=5, **fields)
    there = convert(request, "chat", target)
    first, second = PROTOCOLS["chat"].read(request), PROTOCOLS[target].read(there)
    third = PROTOCOLS["chat"].read(convert(there, target, "chat"))
    for other in (second, third):
        assert str(other.request.encode()) == str(first.request.encode())
        assert other.request.tool_choice == first.request.tool_choice
        assert (other.parallel, other.request.stop) == (first.parallel, first.request.stop)


@pytest.mark.parametrize("target", ["messages", "responses"])
@pytest.mark.parametrize(
    "last", [{"content": "It is"}, {"content": "", "reasoning_content": "Let me"}]
)
def test_a_prefix_is_continued_everywhere(last: Any, target: str) -> None:
    request = body("chat", user("Q"), {"role": "assistant", **last, "prefix": True})
    there = convert(request, "chat", target)
    assert prompts(target, there) == prompts("chat", request)
    assert prompts("chat", convert(there, target, "chat")) == prompts("chat", request)


@pytest.mark.parametrize("target", PROTOCOLS)
def test_an_empty_answer_stays_a_turn(target: str) -> None:
    request = body("chat", user("Hi"), {"role": "assistant", "content": ""}, user("And?"))
    assert prompts(target, convert(request, "chat", target)) == prompts("chat", request)


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
    for target in ("chat", "responses"):
        there = convert(request, "messages", target)
        assert prompts(target, there) == prompts("messages", request)
        assert PIXEL in json.dumps(there)
        back = convert(there, target, "messages")
        assert back["messages"][2]["content"][0]["content"] == [{"type": "image", "source": source}]


def test_what_cannot_be_read_or_named_is_refused() -> None:
    for given, source, target in (
        ({"messages": 5}, "chat", "messages"),
        (body("chat", user("Q"), {"role": "assistant", "content": "A"}), "chat", "messages"),
        (body("chat"), "chat", "smoke signals"),
        (body("chat"), "morse", "chat"),
    ):
        with pytest.raises(ApiError) as caught:
            convert(given, source, target)  # type: ignore[arg-type]
        assert caught.value.path


LOGGED = ("logprobs", "prompt_cache_key")


@each_row(
    "source, fields, target, names",
    [
        ("chat", {"stop": "END", "seed": 1, "n": 2}, "responses", ("stop", "n", "seed")),
        ("chat", {"stop": "END", "seed": 1, "n": 2}, "messages", ("n", "seed")),
        ("chat", {"stop": "END", "seed": 1, "n": 1, "top_p": 0.5}, "chat", ()),
        ("chat", {"logprobs": True, "prompt_cache_key": "k"}, "messages", LOGGED),
        (
            "messages",
            {"stop_sequences": ["END"], "top_k": 4},
            "responses",
            ("stop_sequences", "top_k"),
        ),
        ("messages", {"stop_sequences": ["END"], "top_k": 4}, "chat", ()),
        ("responses", {"temperature": 0.5}, "messages", ()),
    ],
)
def test_what_is_left_out_has_a_name(
    source: Any, fields: dict[str, Any], target: Any, names: tuple[str, ...]
) -> None:
    given = body(source, user("Hi"), **fields)
    assert left_out(given, source, target) == names
    converted = convert(given, source, target)
    assert not set(names) & set(converted)


@each_row(
    "arguments, kind",
    [
        ('{"input": "ls"}', "custom_tool_call"),
        # What is no call of a custom tool, although it has the name of one.
        ('{"input": "ls", "more": 1}', "function_call"),
        ('{"other": "ls"}', "function_call"),
        ("{}", "function_call"),
    ],
)
def test_a_call_of_a_custom_tool_has_its_input_alone(arguments: str, kind: str) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "run", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "c", "output": "r"}
    request = body("responses", user("q"), call, result, tools=[{"type": "custom", "name": "run"}])
    assert convert(request, "responses", "responses")["input"][1]["type"] == kind

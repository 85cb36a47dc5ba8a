"""Every captured request is read and encoded, and nothing of it is lost."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from captured import PROTOCOLS, REQUESTS, read

from dsv4.api import Settings
from rows import each_row

DIALECTS = ("v4", "v4-0731", "v4.1")
SYSTEM, USER, RESULT, ASSISTANT, REASONING, CALL, TOOL = range(7)
Leaf = tuple[int, str]


# What the model must see of a body: each text with the part of the conversation it belongs to.


def leaves(protocol: str, body: dict[str, Any]) -> Iterator[Leaf]:
    if protocol == "responses":
        yield from items(body)
    else:
        for block in blocks(body.get("system")):
            yield from system(block)
        for message in body["messages"]:
            yield from (chat_message if protocol == "chat" else message_blocks)(message)
    for tool in body.get("tools", ()):
        yield from tool_leaves(tool)


def blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def system(block: dict[str, Any]) -> Iterator[Leaf]:
    text = block["text"]
    if text.startswith("x-anthropic-billing-header"):
        text = text.partition("\n")[2]
    yield SYSTEM, text


def said(role: str, block: Any) -> Iterator[Leaf]:
    kind = block["type"]
    if kind in ("image", "image_url", "input_image"):
        yield {"tool": RESULT}.get(role, USER), "[Unsupported Image]"
    elif kind == "tool_reference":
        yield RESULT, block["tool_name"]
    elif role in ("system", "developer"):
        yield from system(block)
    else:
        yield {"user": USER, "assistant": ASSISTANT, "tool": RESULT}[role], block["text"]


def chat_message(message: dict[str, Any]) -> Iterator[Leaf]:
    if message.get("reasoning_content"):
        yield REASONING, message["reasoning_content"]
    for block in blocks(message["content"]):
        yield from said(message["role"], block)
    for call in message.get("tool_calls", ()):
        yield from call_leaves(call["function"]["name"], json.loads(call["function"]["arguments"]))


def message_blocks(message: dict[str, Any]) -> Iterator[Leaf]:
    for block in blocks(message["content"]):
        if block["type"] == "tool_result":
            for inner in blocks(block["content"]):
                yield from said("tool", inner)
        elif block["type"] == "thinking":
            yield REASONING, block["thinking"]
        elif block["type"] == "tool_use":
            yield from call_leaves(block["name"], block["input"])
        else:
            yield from said(message["role"], block)


def items(body: dict[str, Any]) -> Iterator[Leaf]:
    for block in blocks(body.get("instructions")):
        yield from system(block)
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            for block in blocks(item["content"]):
                yield from said(item["role"], block)
        elif kind == "reasoning":
            for part in item.get("content") or item["summary"]:
                yield REASONING, part["text"]
        elif kind == "function_call":
            yield from call_leaves(item["name"], json.loads(item["arguments"]))
        elif kind == "custom_tool_call":
            yield from call_leaves(item["name"], {"input": item["input"]})
        else:
            for block in blocks(item["output"]):
                yield from said("tool", block)


def call_leaves(name: str, arguments: dict[str, Any]) -> Iterator[Leaf]:
    yield CALL, name
    for key, value in arguments.items():
        yield CALL, key
        yield CALL, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


HOSTED = ("web_search", "tool_search", "web_search_20250305")


def tool_leaves(tool: dict[str, Any]) -> Iterator[Leaf]:
    if tool.get("type") in HOSTED:
        return
    function = tool.get("function", tool)
    for inner in function.get("tools", ()):
        yield TOOL, function["description"]
        yield from tool_leaves(inner)
    yield TOOL, function["name"]
    if "description" in function:
        yield TOOL, function["description"]
    if "format" in function:
        yield TOOL, function["format"]["definition"]
    schema = function.get("parameters", function.get("input_schema"))
    if schema is not None:
        yield TOOL, json.dumps(schema, ensure_ascii=False)


def test_the_walk_finds_what_a_request_says() -> None:
    found = list(leaves("messages", REQUESTS["cc-14-compact"]["body"]))
    assert {kind for kind, _ in found} == {SYSTEM, USER, RESULT, REASONING, CALL, TOOL}
    assert (USER, "User text 1.") in found


@pytest.mark.parametrize("dialect", DIALECTS)
@each_row("name", [pytest.param(name, id=name) for name in REQUESTS])
def test_nothing_is_lost(name: str, dialect: str) -> None:
    request = REQUESTS[name]
    settings = Settings(read_images=False, drop_thinking=False)
    prompt = str(read(name, dialect=dialect, settings=settings).request.encode())
    found = dict.fromkeys(range(7), 0)
    for kind, text in leaves(request["protocol"], request["body"]):
        # Schemas are one line of JSON each, in which a text has its escapes.
        shown = (
            json.dumps(text, ensure_ascii=False)[1:-1] if kind == TOOL and text[:1] != "{" else text
        )
        start = 0 if kind == TOOL and text[:1] != "{" else found[kind]
        place = prompt.find(shown, start)
        assert place >= 0, f"{text!r} is not in the prompt, or not in its place"
        found[kind] = max(found[kind], place + len(shown)) if kind != TOOL else 0


@each_row("name", [pytest.param(name, id=name) for name in REQUESTS])
def test_bytes_and_a_dict_are_the_same_and_stay_as_they_are(name: str) -> None:
    request = REQUESTS[name]
    before = copy.deepcopy(request["body"])
    protocol = PROTOCOLS[request["protocol"]]
    from_dict = protocol.read(request["body"])
    assert protocol.read(json.dumps(request["body"]).encode()) == from_dict
    assert protocol.read(json.dumps(request["body"])) == from_dict
    assert request["body"] == before


def test_one_conversation_in_two_protocols_of_a_client_is_one_prompt() -> None:
    for one, other in (
        ("pi-01-chat", "pi-02-responses"),
        ("qw-02-chat-other-model", "qw-03-messages"),
    ):
        # Their models have names that stand for two releases.
        prompts = [str(read(name, dialect="v4").request.encode()) for name in (one, other)]
        assert prompts[0] == prompts[1]


@each_row("name", [pytest.param(name, id=name) for name in REQUESTS])
def test_what_is_read_is_what_constructors_would_make(name: str) -> None:
    call = read(name)
    for value in (call, call.request):
        options = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        messages = {"messages": options.pop("messages")} if "messages" in options else {}
        again = type(value)(**messages, **options)
        assert again == value
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.model = "other"
    assert str(again.encode()) == str(call.request.encode())

"""What goes wrong in the histories of clients, whatever wrote them.

Messages are lost, doubled, exchanged or put between others; fields are empty, null or of another
kind.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Dice = random.Random
URL = "https://example.com/a.png"
SPOKEN = ("", " ", "hi", "json", "a\n\nb")
MOST_CHANGES = 4


def muddled(body: Body, protocol: str, dice: Dice) -> Body:
    """The request with a few things wrong in its history and in its tools."""
    body = copy.deepcopy(body)
    field = "input" if protocol == "responses" else "messages"
    for _ in range(dice.randint(0, MOST_CHANGES)):
        change = dice.choice((_moved, _moved, *CHANGES[protocol]))
        change(body[field], body, dice)
    return body


def _moved(entries: list[Any], body: Body, dice: Dice) -> None:
    """One entry lost, doubled, or exchanged with another; never the last."""
    if len(entries) < 2:
        return
    here, there = (dice.randrange(len(entries) - 1) for _ in range(2))
    how = dice.randrange(3)
    if how == 0:
        del entries[here]
    elif how == 1:
        entries.insert(there, copy.deepcopy(entries[here]))
    else:
        entries[here], entries[there] = entries[there], entries[here]


def _between(entries: list[Any], made: Any, dice: Dice) -> None:
    entries.insert(dice.randrange(len(entries)), made)


def _any_of(entries: list[Any], dice: Dice, *roles: str) -> Body:
    """A message of one of the roles; one that nobody sends, where there is none."""
    found = [entry for entry in entries if not roles or entry.get("role") in roles]
    return dice.choice(found) if found else {}


# Chat Completions.


def _chat_message(entries: list[Any], body: Body, dice: Dice) -> None:
    role = dice.choice(("system", "developer", "user", "assistant", "latest_reminder", "tool"))
    _between(entries, {"role": role, "content": dice.choice(SPOKEN)}, dice)


def _chat_content(entries: list[Any], body: Body, dice: Dice) -> None:
    text = {"type": "text", "text": dice.choice(SPOKEN)}
    image = {"type": "image_url", "image_url": {"url": URL, "detail": dice.choice(("low", "auto"))}}
    file = {"type": "file", "file_id": "file-api-1"}
    audio = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    refusal = {"type": "refusal", "refusal": "no"}
    lists: tuple[Any, ...] = ([], [text], [image], [text, image, text], [file], [audio], [refusal])
    _any_of(entries, dice)["content"] = dice.choice((*SPOKEN, None, *lists))


def _chat_field(entries: list[Any], body: Body, dice: Dice) -> None:
    fields: tuple[tuple[str, Any], ...] = (
        *(("tool_calls", None), ("tool_calls", []), ("function_call", None), ("name", None)),
        *(("reasoning_content", None), ("reasoning_content", ""), ("reasoning", "r")),
        *(("refusal", None), ("annotations", []), ("audio", None), ("prefix", True)),
        *(("prefix", False), ("prefix", None), ("name", "user 1")),
    )
    name, value = dice.choice(fields)
    _any_of(entries, dice, "assistant")[name] = value


def _chat_call(entries: list[Any], body: Body, dice: Dice) -> None:
    calling = [entry for entry in entries if entry.get("tool_calls")]
    if not calling:
        return
    call = dice.choice(dice.choice(calling)["tool_calls"])
    changes: tuple[Callable[[], Any], ...] = (
        lambda: call.update(id=dice.choice(("", "c1", "dup"))),
        lambda: call.pop("type", None),
        lambda: call.update(type=dice.choice((None, "function_call"))),
        lambda: call["function"].update(arguments=dice.choice(("", "[]", "null", [], 5, "{"))),
        lambda: call["function"].update(name=dice.choice(("nobody", "a b", "x" * 140))),
        lambda: call.update(index=0),
    )
    dice.choice(changes)()


def _chat_result(entries: list[Any], body: Body, dice: Dice) -> None:
    result = _any_of(entries, dice, "tool")
    result["tool_call_id"] = dice.choice(("c1", "dup", "nobody", ""))
    result["name"] = dice.choice(("f", None, ""))


def _chat_tools(entries: list[Any], body: Body, dice: Dice) -> None:
    function: Body = {"name": dice.choice(("h", "f", "a b")), "strict": dice.choice((True, None))}
    function["description"] = dice.choice(("d", "", None))
    function["parameters"] = {
        "type": "object",
        "properties": {"x": dice.choice(({}, True, {"type": ["string", "null"]}, {"enum": []}))},
        "additionalProperties": dice.choice((False, None)),
    }
    body["tools"] = [*(body.get("tools") or ()), {"type": "function", "function": function}]
    body["parallel_tool_calls"] = dice.choice((True, False, None))


def _chat_option(entries: list[Any], body: Body, dice: Dice) -> None:
    options: tuple[tuple[str, Any], ...] = (
        *((name, None) for name in ("temperature", "stop", "tools", "tool_choice", "thinking")),
        *(("top_p", 0), ("top_p", 0.0), ("seed", -1), ("stop", [""] * 20), ("stop", "")),
        *(("top_logprobs", 30), ("logprobs", True), ("presence_penalty", 9), ("max_tokens", 0)),
        *(("user", "u"), ("stream_options", {"include_usage": True}), ("logit_bias", {"1": 1})),
        *(("stream_options", None), ("response_format", None), ("metadata", {"a": "b"})),
    )
    name, value = dice.choice(options)
    body[name] = value


# Messages.


def _blocks(entries: list[Any], dice: Dice, *roles: str) -> list[Any]:
    message = _any_of(entries, dice, *roles)
    if isinstance(message.get("content"), str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    blocks: list[Any] = message.get("content", [])
    return blocks


def _messages_message(entries: list[Any], body: Body, dice: Dice) -> None:
    role = dice.choice(("system", "user", "assistant", "latest_reminder"))
    _between(entries, {"role": role, "content": dice.choice(SPOKEN)}, dice)


def _messages_user_block(entries: list[Any], body: Body, dice: Dice) -> None:
    data = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    made: tuple[Body, ...] = (
        {"type": "image", "source": {"type": "url", "url": URL}},
        {"type": "document", "source": data},
        {"type": "document", "source": {"type": "text", "data": "t", "media_type": "text/plain"}},
        {"type": "text", "text": dice.choice(SPOKEN), "cache_control": {"type": "ephemeral"}},
    )
    blocks = _blocks(entries, dice, "user")
    blocks.insert(dice.randint(0, len(blocks)), dice.choice(made))


def _messages_answer_block(entries: list[Any], body: Body, dice: Dice) -> None:
    made: tuple[Body, ...] = (
        {"type": "text", "text": dice.choice(SPOKEN)},
        {"type": "thinking", "thinking": dice.choice(("", "r")), "signature": ""},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use", "id": dice.choice(("c1", "dup", "new")), "name": "f", "input": {}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    )
    blocks = _blocks(entries, dice, "assistant")
    blocks.insert(dice.randint(0, len(blocks)), dice.choice(made))


def _messages_result(entries: list[Any], body: Body, dice: Dice) -> None:
    blocks = _blocks(entries, dice, "user")
    text, image = {"type": "text", "text": ""}, {"type": "image", "source": {"type": "url"}}
    image["source"] = {"type": "url", "url": URL}
    result: Body = {"type": "tool_result", "tool_use_id": dice.choice(("c1", "dup", "nobody"))}
    contents: tuple[Any, ...] = ("", "r", [], [text], [image], [text, image])
    if dice.random() < 0.8:
        result["content"] = dice.choice(contents)
    result["is_error"] = dice.choice((True, False))
    blocks.insert(dice.randint(0, len(blocks)), result)


def _messages_tools(entries: list[Any], body: Body, dice: Dice) -> None:
    schema = {"type": "object", "properties": {}}
    made: tuple[Body, ...] = (
        {"name": "g", "input_schema": schema, "description": ""},
        {"name": "f", "input_schema": schema, "type": "custom"},
        {"name": "late", "input_schema": schema, "defer_loading": True},
        {"name": "mcp.y", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
        {"name": "bash", "type": "bash_20250124"},
    )
    body["tools"] = [*(body.get("tools") or ()), dice.choice(made)]


def _messages_option(entries: list[Any], body: Body, dice: Dice) -> None:
    options: tuple[tuple[str, Any], ...] = (
        *(("temperature", 1.0), ("top_p", 0.0), ("top_k", 5), ("stop_sequences", ["x"] * 20)),
        *(("metadata", {"user_id": "u"}), ("service_tier", "auto"), ("system", [])),
        *(("thinking", {"type": "adaptive"}), ("output_config", {"effort": "xhigh"})),
        *(("stop_sequences", []), ("tools", []), ("container", None), ("mcp_servers", [])),
    )
    name, value = dice.choice(options)
    body[name] = value


# Responses.


def _responses_item(entries: list[Any], body: Body, dice: Dice) -> None:
    content = [{"type": "input_text", "text": dice.choice(SPOKEN)}]
    id, text = dice.choice(("c1", "dup", "p")), dice.choice(SPOKEN)
    made: tuple[Body, ...] = (
        *({"role": role, "content": text} for role in ("system", "developer", "user")),
        {"type": "message", "role": "system", "content": content},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "n"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "reasoning", "summary": [], "content": None},
        {"type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": text},
        {"type": "custom_tool_call_output", "call_id": id, "output": text},
        {"type": "function_call", "call_id": id, "name": "f", "arguments": "", "id": "fc_1"},
        {"type": "function_call_output", "call_id": id, "output": content},
        {"type": "function_call_output", "call_id": id, "output": []},
    )
    _between(entries, dice.choice(made), dice)


def _responses_content(entries: list[Any], body: Body, dice: Dice) -> None:
    image = {"type": "input_image", "image_url": URL, "detail": "auto"}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,"}
    text = {"type": "input_text", "text": dice.choice(SPOKEN)}
    lists: tuple[Any, ...] = ([], [text], [image], [text, image], [file])
    _any_of(entries, dice, "user", "developer")["content"] = dice.choice((*SPOKEN, *lists))


def _responses_call(entries: list[Any], body: Body, dice: Dice) -> None:
    calls = [entry for entry in entries if entry.get("type") == "function_call"]
    call = dice.choice(calls) if calls else {}
    changes: tuple[Body, ...] = (
        *({"arguments": text} for text in ("", "[]", "{", '{"x": 1}')),
        *({"call_id": "dup"}, {"name": "nobody"}, {"namespace": "mcp__a"}, {"status": None}),
    )
    call.update(dice.choice(changes))


def _responses_tools(entries: list[Any], body: Body, dice: Dice) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    plain: Body = {"type": "function", "name": dice.choice(("g", "a b")), "parameters": schema}
    made: tuple[Body, ...] = (
        {**plain, "strict": dice.choice((True, False, None)), "description": None},
        {**plain, "parameters": dice.choice((None, {}))},
        {"type": "custom", "name": "apply_patch", "description": "d"},
        {"type": "custom", "name": "zz", "format": {"type": "text"}},
        {"type": "namespace", "name": "mcp__a", "description": "", "tools": [plain]},
        {"type": "local_shell"},
    )
    body["tools"] = [*(body.get("tools") or ()), dice.choice(made)]
    body["parallel_tool_calls"] = dice.choice((True, False))


def _responses_option(entries: list[Any], body: Body, dice: Dice) -> None:
    options: tuple[tuple[str, Any], ...] = (
        *(("temperature", 0.3), ("top_p", 0.0), ("store", False), ("include", [])),
        *(("instructions", ""), ("instructions", None), ("metadata", {}), ("tools", [])),
        *(("reasoning", None), ("reasoning", {"effort": None, "summary": "auto"})),
        *(("text", {"verbosity": "low"}), ("truncation", "auto"), ("prompt_cache_key", "k")),
        *(("user", "u"), ("service_tier", "auto"), ("max_output_tokens", None)),
    )
    name, value = dice.choice(options)
    body[name] = value


CHANGES: dict[str, tuple[Callable[[list[Any], Body, Dice], None], ...]] = {
    "chat": (
        *(_chat_message, _chat_content, _chat_field, _chat_call),
        *(_chat_result, _chat_tools, _chat_option),
    ),
    "messages": (
        *(_messages_message, _messages_user_block, _messages_answer_block),
        *(_messages_result, _messages_tools, _messages_option),
    ),
    "responses": (
        *(_responses_item, _responses_content, _responses_call),
        *(_responses_tools, _responses_option),
    ),
}

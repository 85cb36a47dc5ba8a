"""A user's program without mistakes: type checkers must find nothing in it."""

from __future__ import annotations

import json

import dsv4
import encoding_dsv4
import encoding_dsv32
import encoding_dsv41
from dsv4.compat import vllm
from dsv4.tokens import Session, Tokenizer
from dsv4.types import Effort, MessageInput, MessageParam, ToolParam

SEARCH: ToolParam = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches the web.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}


def dicts() -> str:
    prompt = dsv4.encode(
        [
            {"role": "system", "content": "Be brief.", "tools": [SEARCH]},
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "They greet me.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "search", "arguments": "{}"},
                    },
                    {"function": {"name": "search", "arguments": {"query": "x"}}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Nothing."},
            {"role": "latest_reminder", "content": "Today is Monday."},
            {"role": "developer", "content": "Go on.", "task": "action"},
        ],
        effort="max",
        dialect="v4-0731",
    )
    return prompt.text


def blocks() -> dsv4.Prompt:
    return dsv4.encode(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "Done."},
                ],
            }
        ],
        dialect="v4.1",
        effort=60,
    )


def options(effort: Effort | None) -> dsv4.Request:
    return dsv4.Request(
        [{"role": "user", "content": "Hi"}],
        tools=[SEARCH, {"name": "bare", "parameters": {}}],
        tool_choice={"type": "function", "function": {"name": "search"}},
        response_format={"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
        thinking=False,
        effort=effort,
        drop_thinking=False,
        bos=True,
        context=({"role": "system", "content": "Be brief."},),
        dialect=dsv4.V3_2_SERVED,
        stop=["\n"],
        prefix="Well",
    )


def what_the_model_wrote(request: dsv4.Request, text: str) -> list[MessageInput]:
    message = dsv4.parse(text, thinking=True)
    answered: list[MessageInput] = [*request.messages, message]
    answered.append(dsv4.Sampled(message, text=text, ids=[1, 2]))
    answered.append(dsv4.Sampled({"role": "assistant", "content": "Hi"}, text="Hi"))
    return answered


def from_a_file(line: str) -> dsv4.Prompt:
    body = json.loads(line)
    dsv4.check(body)
    return dsv4.Request(
        body["messages"], tools=body["tools"], dialect=body["dialect"], effort=body["effort"]
    ).encode()


def checked(messages: list[MessageParam]) -> list[str]:
    found = dsv4.check(messages, purpose="training", profile="vllm")
    found += dsv4.check({"model": "m", "messages": messages}) + dsv4.check(dsv4.Request(messages))
    return [finding.message for finding in found]


def ids(tokenizer: Tokenizer, messages: list[MessageParam]) -> list[int]:
    session = Session(tokenizer, tools=[SEARCH], thinking=False)
    session.append({"role": "user", "content": "Hi"})
    session.append(session.append_sampled([1]))
    tokenizer.expand(messages, dialect="v4", tool_choice="search")
    tokenizer.fit(dsv4.Request(messages), 1000)
    return session.prompt_ids()


def drop_ins(messages: list[MessageParam]) -> list[str]:
    return [
        encoding_dsv4.encode_messages(messages, "thinking", reasoning_effort="max"),
        encoding_dsv4.encode_messages([{"role": "user", "content": "Hi"}], thinking_mode="chat"),
        encoding_dsv32.encode_messages(messages, "chat", context=messages),
        encoding_dsv41.encode_messages(messages, "chat", None, True, True, 75),
        encoding_dsv41.encode_messages(messages, "chat", return_multi_modal_data=True)[0],
        vllm.encode_messages(messages, "chat", drop_thinking=False),
    ]


def decoded(prompt: dsv4.Prompt) -> list[MessageInput]:
    return [*dsv4.decode(prompt, dialect=prompt.dialect).request.messages]

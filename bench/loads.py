"""Conversations to measure with. Made up, always the same, and fresh objects at each call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

_CODE = """\
def load(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
"""


def chat(messages: int) -> list[Message]:
    """Short questions and answers, with reasoning that a new question drops. An even number."""
    conversation: list[Message] = [{"role": "system", "content": "You are a helpful assistant."}]
    for n in range(messages // 2 - 1):
        conversation += (
            {"role": "user", "content": f"Question {n}: which river runs through city {n}?"},
            {
                "role": "assistant",
                "reasoning_content": "A question of geography. I know this one.",
                "content": f"City {n} lies on river {n}, close to where it meets the sea.",
            },
        )
    conversation.append({"role": "user", "content": "And which of them is the longest?"})
    return conversation


def agent(messages: int, tools: int = 20) -> list[Message]:
    """An agent at work: about 1 KB a message, every call with arguments of its own."""
    conversation: list[Message] = [
        {
            "role": "system",
            "content": "You are a careful programmer who works in a repository. " * 18,
            "tools": [tool(n) for n in range(tools)],
        },
        {"role": "user", "content": "The loader fails on empty files. Find out why. " * 20},
    ]
    for n in range((messages - 1) // 2):
        conversation += (
            {
                "role": "assistant",
                "reasoning_content": f"Step {n}: the caller may pass an empty path. " * 11,
                "content": "",
                "tool_calls": [_call(n, tools)],
            },
            _result(n),
        )
    return conversation[:messages]


def parallel_agent(messages: int, tools: int = 20) -> list[Message]:
    """The same, with two calls in each turn; the later one is answered first."""
    conversation = agent(2, tools)
    for n in range(0, 2 * messages // 3, 2):
        first, second = n, n + 1
        conversation += (
            {
                "role": "assistant",
                "reasoning_content": f"Step {n}: the caller may pass an empty path. " * 11,
                "content": "",
                "tool_calls": [_call(first, tools), _call(second, tools)],
            },
            _result(second),
            _result(first),
        )
    return conversation[:messages]


def _result(n: int) -> Message:
    content = f"src/loader_{n}.py:\n{_CODE * 10}"
    return {"role": "tool", "tool_call_id": f"call_{n}", "content": content}


def tool(n: int) -> dict[str, Any]:
    """An OpenAI tool of about 800 characters."""
    properties = {
        f"argument_{k}": {"type": "string", "description": "What it is, in a sentence or so."}
        for k in range(6)
    }
    function = {
        "name": f"tool_{n}",
        "description": "Reads or changes files of the repository and says what came of it. " * 2,
        "parameters": {"type": "object", "properties": properties, "required": ["argument_0"]},
    }
    return {"type": "function", "function": function}


def _call(n: int, tools: int) -> dict[str, Any]:
    arguments = {
        "argument_0": f"src/loader_{n}.py",
        "argument_1": _CODE * 4,
        "argument_2": n,
        "argument_3": [n, None, {"recursive": True}],
    }
    function = {"name": f"tool_{n % tools}", "arguments": json.dumps(arguments)}
    return {"id": f"call_{n}", "type": "function", "function": function}


def chat_4() -> list[Message]:
    return chat(4)


def chat_102() -> list[Message]:
    return chat(102)


def agent_200() -> list[Message]:
    return agent(200)


def agent_400() -> list[Message]:
    return agent(400)


def parallel_200() -> list[Message]:
    return parallel_agent(200)


LOADS: dict[str, Callable[[], list[Message]]] = {
    "chat, 4 messages": chat_4,
    "chat, 102 messages": chat_102,
    "agent, 200 messages": agent_200,
    "agent, 400 messages": agent_400,
    "agent, 200 messages, two calls a turn": parallel_200,
}

"""What is asked for -> a Messages body."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from dsv4.api.asked import Asked, Choice, Format, Message, Tool
from dsv4.api.content import Block, Content
from dsv4.api.ids import mark_id
from dsv4.api.saying import (
    arguments_object,
    flat_calls,
    flat_tools,
    switched,
    turns,
    without_nothing,
)
from dsv4.api.settings import DEFAULTS
from dsv4.api.thinking import OFF

NAME = "Messages"
MODES = {"auto": "auto", "none": "none", "required": "any", "tool": "tool"}
_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def say(asked: Asked) -> dict[str, Any]:
    """The body. Raises `ApiError` for what Messages cannot say."""
    system, messages = _conversation(list(turns(asked)))
    thinking = switched(asked)
    switch = None if thinking is None else {"type": "adaptive" if thinking else "disabled"}
    output = without_nothing(
        effort=None if asked.effort == OFF or thinking is False else asked.effort,
        format=_format(asked.format),
    )
    return without_nothing(
        model=asked.model,
        system=system or None,
        messages=messages,
        max_tokens=asked.max_tokens or _most_tokens(asked, thinking),
        tools=[_tool(tool) for tool in flat_tools(asked, NAME)] or None,
        tool_choice=_choice(asked.choice, asked.parallel),
        thinking=switch,
        output_config=output or None,
        stop_sequences=list(asked.stop) or None,
        stream=asked.stream or None,
        temperature=asked.sampling.temperature,
        top_p=asked.sampling.top_p,
        top_k=asked.sampling.top_k,
        metadata={"user_id": asked.user} if asked.user is not None else None,
    )


def _most_tokens(asked: Asked, thinking: bool | None) -> int:
    """Messages has no default for it: so it says ours."""
    if thinking is False:
        return DEFAULTS.max_tokens
    most = asked.effort in ("max", "ultra")
    return DEFAULTS.max_tokens_max_effort if most else DEFAULTS.max_tokens_thinking


def _conversation(messages: list[Message]) -> tuple[list[Block], list[Message]]:
    """System texts of the beginning, and everything else: one message for each turn."""
    first = 0
    while first < len(messages) - 1 and messages[first]["role"] == "system":
        first += 1
    system = [{"type": "text", "text": message["content"]} for message in messages[:first]]
    said: list[Message] = []
    for role, run in groupby(messages[first:], _role):
        if role == "user":
            said.append({"role": "user", "content": _user(run)})
        elif role == "assistant":
            said += ({"role": "assistant", "content": _assistant(m)} for m in run)
        else:
            said += ({"role": "system", "content": m["content"]} for m in run)
    return system, said


def _role(message: Message) -> str:
    return "user" if message["role"] == "tool" else str(message["role"])


def _user(run: Iterable[Message]) -> list[Block]:
    blocks: list[Block] = []
    for message in run:
        content = _content(message["content"])
        if message["role"] == "user":
            blocks += content
        else:
            result = {"type": "tool_result", "content": content}
            if message["tool_call_id"] is not None:
                result["tool_use_id"] = message["tool_call_id"]
            blocks.append(result)
    return blocks


def _content(content: Content) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block if block["type"] == "text" else _image(block) for block in content]


def _image(block: Block) -> Block:
    url = block["image_url"]["url"]
    data = _DATA_URL.fullmatch(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    source = {"type": "base64", "media_type": data.group(1), "data": data.group(2)}
    return {"type": "image", "source": source}


def _assistant(message: Message) -> list[Block]:
    blocks: list[Block] = []
    if message.get("reasoning_content"):
        signature = (message.get("marks") or (mark_id(""),))[0]
        thinking = message["reasoning_content"]
        blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
    if message.get("content"):
        blocks.append({"type": "text", "text": message["content"]})
    for call in flat_calls(message, NAME):
        function = call["function"]
        given = arguments_object(function["arguments"])
        block = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}
        blocks.append({field: value for field, value in block.items() if value is not None})
    return blocks


def _tool(tool: Tool) -> dict[str, Any]:
    return without_nothing(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        strict=tool.strict,
    )


def _choice(choice: Choice, parallel: bool | None) -> dict[str, Any] | None:
    if choice.mode == "auto" and parallel is not False:
        return None
    said: dict[str, Any] = {"type": MODES[choice.mode]}
    if choice.tool is not None:
        said["name"] = choice.tool[1]
    if parallel is False:
        said["disable_parallel_tool_use"] = True
    return said


def _format(form: Format | None) -> dict[str, Any] | None:
    if form is None:
        return None
    return {"type": "json_schema", "schema": form.schema or {"type": "object"}}

"""What is asked for -> a Responses body."""

from __future__ import annotations

from typing import Any

from dsv4.api.asked import Asked, Message
from dsv4.api.content import Block, Content
from dsv4.api.responses.echoing import choice_of, format_of, tools_of
from dsv4.api.saying import arguments_object, arguments_text, switched, turns, without_nothing
from dsv4.api.settings import DEFAULTS
from dsv4.api.thinking import OFF
from dsv4.api.tools import INPUT


def say(asked: Asked) -> dict[str, Any]:
    """The body. Raises `ApiError` for what Responses cannot say."""
    items = [item for message in turns(asked) for item in _items(message, asked)]
    effort = _effort(asked)
    return without_nothing(
        model=asked.model,
        input=items,
        tools=tools_of(asked.declared) or None,
        tool_choice=choice_of(asked.choice),
        parallel_tool_calls=asked.parallel,
        text=None if asked.format is None else {"format": format_of(asked.format)},
        reasoning=None if effort is None else {"effort": effort},
        max_output_tokens=asked.max_tokens,
        stream=asked.stream or None,
        include=["message.output_text.logprobs"] if asked.logprobs else None,
        top_logprobs=asked.top_logprobs or None,
        temperature=asked.sampling.temperature,
        top_p=asked.sampling.top_p,
        user=asked.user,
        prompt_cache_key=asked.cache_key,
    )


def _effort(asked: Asked) -> str | int | None:
    """The effort is the only switch that Responses has."""
    thinking = switched(asked)
    if thinking is False:
        return OFF
    return DEFAULTS.effort if thinking and asked.effort is None else asked.effort


def _items(message: Message, asked: Asked) -> list[Block]:
    role = message["role"]
    if role == "assistant":
        return _assistant(message, asked)
    if role == "tool":
        output = _content(message["content"])
        return [
            {"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}
        ]
    return [{"type": "message", "role": role, "content": _content(message["content"])}]


def _content(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [_part(block) for block in content]


def _part(block: Block) -> Block:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block["image_url"]
    return {
        "type": "input_image",
        "image_url": source["url"],
        "detail": source.get("detail", "auto"),
    }


def _assistant(message: Message, asked: Asked) -> list[Block]:
    items: list[Block] = []
    if message.get("reasoning_content"):
        content = [{"type": "reasoning_text", "text": message["reasoning_content"]}]
        items.append({"type": "reasoning", "summary": [], "content": content})
    if message.get("content"):
        content = [{"type": "output_text", "text": message["content"], "annotations": []}]
        items.append({"type": "message", "role": "assistant", "content": content})
    return [*items, *(_call(call, asked) for call in message.get("tool_calls", ()))]


def _call(call: dict[str, Any], asked: Asked) -> Block:
    function = call["function"]
    head = {"call_id": call["id"], "name": function["name"]}
    if "namespace" in call:
        head["namespace"] = call["namespace"]
    given = arguments_object(function["arguments"])
    if (call.get("namespace"), function["name"]) in _custom(asked) and [*given] == [INPUT]:
        return {"type": "custom_tool_call", **head, "input": given[INPUT]}
    return {"type": "function_call", **head, "arguments": arguments_text(function["arguments"])}


def _custom(asked: Asked) -> set[Any]:
    return {tool.key for tool in asked.declared.tools if tool.kind == "custom"}

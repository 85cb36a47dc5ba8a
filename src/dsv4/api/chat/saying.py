"""What is asked for -> a Chat Completions body."""

from __future__ import annotations

from typing import Any

from dsv4.api.asked import Asked, Choice, Format, Message, Tool
from dsv4.api.content import Content
from dsv4.api.saying import arguments_text, flat_calls, flat_tools, switched, turns, without_nothing
from dsv4.api.thinking import OFF

NAME = "Chat Completions"


def say(asked: Asked) -> dict[str, Any]:
    """The body. Raises `ApiError` for what Chat Completions cannot say."""
    messages = [_message(message) for message in turns(asked)]
    if messages[-1]["role"] == "assistant":
        messages[-1]["prefix"] = True
    tools = [_tool(tool) for tool in flat_tools(asked, NAME)]
    sampling, thinking = asked.sampling, switched(asked)
    return without_nothing(
        model=asked.model,
        messages=messages,
        tools=tools or None,
        tool_choice=_choice(asked.choice),
        parallel_tool_calls=asked.parallel,
        response_format=_format(asked.format),
        thinking=None if thinking is None else {"type": "enabled" if thinking else "disabled"},
        reasoning_effort=None if asked.effort == OFF or thinking is False else asked.effort,
        max_tokens=asked.max_tokens,
        stop=list(asked.stop) or None,
        stream=asked.stream or None,
        stream_options={"include_usage": True} if asked.include_usage else None,
        n=asked.n if asked.n > 1 else None,
        logprobs=asked.logprobs or None,
        top_logprobs=asked.top_logprobs or None,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=sampling.seed,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        user=asked.user,
        prompt_cache_key=asked.cache_key,
    )


def _message(message: Message) -> Message:
    role = message["role"]
    if role == "assistant":
        return _assistant(message)
    said = {"role": role, "content": _content(message["content"])}
    if role == "tool":
        said["tool_call_id"] = message["tool_call_id"]
    return said


def _assistant(message: Message) -> Message:
    said: Message = {"role": "assistant", "content": message.get("content") or ""}
    if message.get("reasoning_content"):
        said["reasoning_content"] = message["reasoning_content"]
    calls = [_call(call) for call in flat_calls(message, NAME)]
    if calls:
        said["tool_calls"] = calls
    return said


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = arguments_text(function["arguments"])
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _content(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [{field: block[field] for field in block if field != "path"} for block in content]


def _tool(tool: Tool) -> dict[str, Any]:
    function = without_nothing(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        strict=tool.strict,
    )
    return {"type": "function", "function": function}


def _choice(choice: Choice) -> Any:
    if choice.tool is not None:
        return {"type": "function", "function": {"name": choice.tool[1]}}
    return None if choice.mode == "auto" else choice.mode


def _format(form: Format | None) -> dict[str, Any] | None:
    if form is None:
        return None
    if form.schema is None:
        return {"type": "json_object"}
    schema = without_nothing(name=form.name or "response", schema=form.schema, strict=form.strict)
    return {"type": "json_schema", "json_schema": schema}

"""The released module's functions: same names, parameters and results.

Functions whose names end in `_by` take whose rules they follow first: others follow them too.

The top-level module `encoding_dsv4` is this one under its released name. Where the results differ
on purpose, format.md, section 10, says how and docs/encoding.md says why.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dsv4.encoding import json_text
from dsv4.encoding.calls import parameters_writer
from dsv4.encoding.content import text_of
from dsv4.encoding.conventions import RELEASED, Conventions
from dsv4.encoding.conversation import effort_prefix, render_conversation
from dsv4.encoding.render import NOWHERE, Renderer
from dsv4.encoding.tools import function_of, schemas_text
from dsv4.encoding.turns import (
    as_dict,
    as_dicts,
    call_order,
    in_call_order,
    lasts,
)
from dsv4.errors import EncodeError, ParseError, shown
from dsv4.format import tokens
from dsv4.format.dialects import V4
from dsv4.parsing.strict import arguments_text, read_calls, read_strictly

bos_token = str(tokens.BOS)
eos_token = str(tokens.EOS)
thinking_start_token = str(tokens.THINK_START)
thinking_end_token = str(tokens.THINK_END)
dsml_token = str(tokens.DSML)
USER_SP_TOKEN = str(tokens.USER)
ASSISTANT_SP_TOKEN = str(tokens.ASSISTANT)
LATEST_REMINDER_SP_TOKEN = str(tokens.LATEST_REMINDER)
DS_TASK_SP_TOKENS = {task: str(token) for task, token in tokens.TASK_TOKENS.items()}
VALID_TASKS = set(DS_TASK_SP_TOKENS)
_MODES = ("thinking", "chat")


def encode_messages(
    messages: list[dict[str, Any]],
    thinking_mode: str,
    context: list[dict[str, Any]] | None = None,
    drop_thinking: bool = True,
    add_default_bos_token: bool = True,
    reasoning_effort: str | None = None,
) -> str:
    """The prompt of a conversation, as text."""
    return _encode_by(
        RELEASED,
        messages,
        thinking_mode,
        context,
        drop_thinking,
        add_default_bos_token,
        reasoning_effort,
    )


def _encode_by(
    rules: Conventions,
    messages: list[dict[str, Any]],
    thinking_mode: str,
    context: list[dict[str, Any]] | None,
    drop_thinking: bool,
    bos: bool,
    effort: str | None,
) -> str:
    if messages.__class__ is not list:
        messages = _listed(messages, "messages")
    if context:
        _listed(context, "context")
    if thinking_mode not in _MODES:
        raise _unknown_mode(thinking_mode)
    thinking = thinking_mode == "thinking"
    renderer = render_conversation(
        messages, context or (), V4, rules, thinking, drop_thinking, bos, effort
    )
    return "".join(renderer.flat)


def _unknown_mode(thinking_mode: Any) -> EncodeError:
    found = shown(thinking_mode)
    return EncodeError("thinking_mode", f'found {found}, expected "chat" or "thinking"')


def _listed(messages: Any, name: str) -> Any:
    if not isinstance(messages, (list, tuple)):
        raise EncodeError(name, f"found {shown(messages)}, expected a list of messages")
    return messages


def render_message(
    index: int,
    messages: list[dict[str, Any]],
    thinking_mode: str,
    drop_thinking: bool = True,
    reasoning_effort: str | None = None,
) -> str:
    """One merged message of a conversation, with the transition after it."""
    return _render_by(RELEASED, index, messages, thinking_mode, drop_thinking, reasoning_effort)


def _render_by(
    rules: Conventions,
    index: int,
    messages: list[dict[str, Any]],
    thinking_mode: str,
    drop_thinking: bool,
    effort: str | None,
) -> str:
    if thinking_mode not in _MODES:
        raise _unknown_mode(thinking_mode)
    thinking, prefix = thinking_mode == "thinking", effort_prefix(effort, V4, rules)
    merged = as_dicts(_listed(messages, "messages"), "messages")
    if not 0 <= index < len(merged):
        raise EncodeError("index", f"found {index}, expected one of {len(merged)} messages")
    message = merged[index]
    if message.get("role") == "tool":
        problem = "found a tool message, expected it merged into a user message"
        raise EncodeError(f"messages[{index}].role", problem)
    if message.get("role") == "user" and message.get("content_blocks"):
        message = {**message, "content": message["content_blocks"]}
    # The message by itself, with what it must know of the others.
    renderer = Renderer()
    renderer.dialect, renderer.rules = _MERGED, rules
    renderer.messages, renderer.flat, renderer.images = [message], [], []
    renderer.first_index = index
    renderer.first = 0 if index == 0 else None
    if not thinking:
        renderer.shown_from = NOWHERE
    elif drop_thinking:
        renderer.shown_from = find_last_user_index(messages)
    renderer.task_before = merged[index - 1].get("task") if index else None
    follower = merged[index + 1].get("role") if index + 1 < len(merged) else None
    if index == 0:
        renderer.start(prefix if thinking else "")
    renderer.render(ends_asking=follower in (None, "assistant", "latest_reminder"))
    return "".join(renderer.flat)


# How a merged user message is read: its blocks are the turn's.
_MERGED = replace(V4, lists_are_blocks=True)


def render_tools(tools: list[dict[str, Any]]) -> str:
    """The tools section, from function objects."""
    bare = [{"function": tool} for tool in tools]
    return V4.tools_open + schemas_text(bare, RELEASED.named_tools, "tools") + V4.tools_close


def merge_tool_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """User and tool messages as user turns with `content_blocks`; the others as they are."""
    merged: list[dict[str, Any]] = []
    for index, given in enumerate(_listed(messages, "messages")):
        message = copy.deepcopy(as_dict(given, f"messages[{index}]"))
        before = merged[-1] if merged and merged[-1].get("role") == "user" else None
        if message.get("role") == "tool":
            block = {
                "type": "tool_result",
                "tool_use_id": message.get("tool_call_id", ""),
                "content": message.get("content", ""),
            }
            if before is None:
                before = {"role": "user", "content_blocks": []}
                merged.append(before)
            before["content_blocks"].append(block)
        elif message.get("role") == "user":
            text = text_of(message.get("content"), f"messages[{index}].content")
            if before is None or before.get("task") is not None:
                before = {"role": "user", "content": text, "content_blocks": []}
                before |= {f: message[f] for f in ("task", "wo_eos", "mask") if f in message}
                merged.append(before)
            before["content_blocks"].append({"type": "text", "text": text})
        else:
            merged.append(message)
    return merged


def sort_tool_results_by_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merged messages with the results of each user turn in the order of their calls."""
    order: dict[Any, int] = {}
    ordered = []
    for message in messages:
        blocks = message.get("content_blocks")
        if message.get("role") == "assistant" and message.get("tool_calls"):
            order = call_order(message["tool_calls"])
        elif message.get("role") == "user" and blocks and order:
            message = {
                **message,
                "content_blocks": in_call_order(blocks, order, _is_result, _result_id),
            }
        ordered.append(message)
    return ordered


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result"


def _result_id(block: dict[str, Any]) -> Any:
    return block.get("tool_use_id")


def find_last_user_index(messages: list[dict[str, Any]]) -> int:
    """The index of the last user or developer message, -1 if there is none."""
    found = [
        n for n, message in enumerate(messages) if message.get("role") in ("user", "developer")
    ]
    return found[-1] if found else -1


def _drop_thinking_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What dropping leaves of merged messages, reasoning before the last user turn removed."""
    last = find_last_user_index(messages)
    kept = []
    for index, message in enumerate(messages):
        if index >= last:
            kept.append(message)
        elif lasts(message):
            kept.append({k: v for k, v in message.items() if k not in RELEASED.reasoning_fields})
    return kept


def encode_arguments_to_dsml(tool_call: dict[str, Any]) -> str:
    """The parameters of `{"name", "arguments"}` as markup."""
    return _parameters_by(RELEASED, tool_call)


def _parameters_by(rules: Conventions, tool_call: dict[str, Any]) -> str:
    try:
        return str(parameters_writer(V4.tags, rules.raw_arguments)(tool_call.get("arguments")))
    except EncodeError as error:
        raise EncodeError(f"arguments{error.path}", error.problem) from None


def to_json(value: Any) -> str:
    """JSON as prompts hold it."""
    return json_text.to_json(value)


def tools_from_openai_format(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The function objects of OpenAI tools."""
    return [function_of(t, RELEASED.named_tools, f"tools[{n}]") for n, t in enumerate(tools)]


def tool_calls_from_openai_format(tool_calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """OpenAI tool calls as `{"name", "arguments"}`."""
    return [
        {"name": call["function"]["name"], "arguments": call["function"].get("arguments")}
        for call in tool_calls
    ]


def tool_calls_to_openai_format(tool_calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`{"name", "arguments"}` as OpenAI tool calls."""
    return [
        {"type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
        for c in tool_calls
    ]


def parse_message_from_completion_text(text: str, thinking_mode: str) -> dict[str, Any]:
    """A well-formed completion as a message. Raises a `ValueError` for any other."""
    return _parse_by(RELEASED, text, thinking_mode)


def _parse_by(rules: Conventions, text: str, thinking_mode: str) -> dict[str, Any]:
    if thinking_mode not in _MODES:
        raise _unknown_mode(thinking_mode)
    message = read_strictly(text, thinking_mode == "thinking", V4.tags)
    calls = [{"name": name, "arguments": arguments} for name, arguments in message.calls]
    return {
        "role": "assistant",
        "content": message.content,
        rules.reasoning_fields[0]: message.reasoning,
        "tool_calls": tool_calls_to_openai_format(calls),
    }


def parse_tool_calls(index: int, text: str) -> tuple[int, str | None, list[dict[str, str]]]:
    """The calls of a block, from behind the name in its opening tag on.

    Returns where the block ends, the tag that ended it, and the calls.
    """
    opened = V4.tags.block_open[-2:]
    if not text.startswith(opened, index):
        raise ParseError(index, f"found {shown(text[index : index + 2])}, expected {opened!r}")
    end, calls = read_calls(text, index + len(opened), V4.tags)
    found = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return end, V4.tags.block_close[1:], found


def decode_dsml_to_arguments(
    tool_name: str, tool_args: dict[str, tuple[str, str]]
) -> dict[str, str]:
    """A call from its parameters: name -> (value, "true" for a string and "false" for JSON)."""
    members = {
        key: to_json(value) if string == "true" else value
        for key, (value, string) in tool_args.items()
    }
    return {"name": tool_name, "arguments": arguments_text(members)}


def _read_until_stop(index: int, text: str, stop: Sequence[str]) -> tuple[int, str, str | None]:
    """The text from `index` up to the first of the stop strings, that string, and its end."""
    found = [(at, word) for word in stop if (at := text.find(word, index)) >= 0]
    if not found:
        return len(text), text[index:], None
    at, word = min(found, key=lambda pair: pair[0])
    return at + len(word), text[index:at], word


__all__ = [
    "ASSISTANT_SP_TOKEN",
    "DS_TASK_SP_TOKENS",
    "LATEST_REMINDER_SP_TOKEN",
    "USER_SP_TOKEN",
    "VALID_TASKS",
    "_drop_thinking_messages",
    "_read_until_stop",
    "bos_token",
    "decode_dsml_to_arguments",
    "dsml_token",
    "encode_arguments_to_dsml",
    "encode_messages",
    "eos_token",
    "find_last_user_index",
    "merge_tool_messages",
    "parse_message_from_completion_text",
    "parse_tool_calls",
    "render_message",
    "render_tools",
    "sort_tool_results_by_call_order",
    "thinking_end_token",
    "thinking_start_token",
    "to_json",
    "tool_calls_from_openai_format",
    "tool_calls_to_openai_format",
    "tools_from_openai_format",
]

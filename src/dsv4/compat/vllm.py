"""vLLM's copy of the released functions.

It names an assistant's thinking `reasoning`, and refuses arguments that are not JSON. Everything
else is the released module's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4._encode.turn_rules import VLLM
from dsv4.compat.release import (
    ASSISTANT_SP_TOKEN,
    DS_TASK_SP_TOKENS,
    LATEST_REMINDER_SP_TOKEN,
    REASONING_EFFORT_MAX,
    TOOLS_TEMPLATE,
    USER_SP_TOKEN,
    VALID_TASKS,
    _drop_thinking_messages,
    _encode_by,
    _parameters_by,
    _parse_by,
    _read_until_stop,
    _render_by,
    assistant_msg_template,
    assistant_msg_wo_eos_template,
    bos_token,
    decode_dsml_to_arguments,
    dsml_token,
    eos_token,
    find_last_user_index,
    latest_reminder_msg_template,
    merge_tool_messages,
    parse_tagged_text,
    parse_tool_calls,
    render_tools,
    response_format_template,
    sort_tool_results_by_call_order,
    system_msg_template,
    thinking_end_token,
    thinking_start_token,
    thinking_template,
    to_json,
    tool_call_template,
    tool_calls_block_name,
    tool_calls_from_openai_format,
    tool_calls_template,
    tool_calls_to_openai_format,
    tool_output_template,
    tools_from_openai_format,
    user_msg_template,
)
from dsv4.types import Effort, MessageInput, ThinkingMode

__all__ = [
    "ASSISTANT_SP_TOKEN",
    "DS_TASK_SP_TOKENS",
    "LATEST_REMINDER_SP_TOKEN",
    "REASONING_EFFORT_MAX",
    "TOOLS_TEMPLATE",
    "USER_SP_TOKEN",
    "VALID_TASKS",
    "_drop_thinking_messages",
    "_read_until_stop",
    "assistant_msg_template",
    "assistant_msg_wo_eos_template",
    "bos_token",
    "decode_dsml_to_arguments",
    "dsml_token",
    "encode_arguments_to_dsml",
    "encode_messages",
    "eos_token",
    "find_last_user_index",
    "latest_reminder_msg_template",
    "merge_tool_messages",
    "parse_message_from_completion_text",
    "parse_tagged_text",
    "parse_tool_calls",
    "render_message",
    "render_tools",
    "response_format_template",
    "sort_tool_results_by_call_order",
    "system_msg_template",
    "thinking_end_token",
    "thinking_start_token",
    "thinking_template",
    "to_json",
    "tool_call_template",
    "tool_calls_block_name",
    "tool_calls_from_openai_format",
    "tool_calls_template",
    "tool_calls_to_openai_format",
    "tool_output_template",
    "tools_from_openai_format",
    "user_msg_template",
]


def encode_messages(
    messages: Sequence[MessageInput],
    thinking_mode: ThinkingMode,
    context: Sequence[MessageInput] | None = None,
    drop_thinking: bool = True,
    add_default_bos_token: bool = True,
    reasoning_effort: Effort | None = None,
) -> str:
    """The prompt of a conversation, as text."""
    return _encode_by(
        VLLM,
        messages,
        thinking_mode,
        context,
        drop_thinking,
        add_default_bos_token,
        reasoning_effort,
    )


def render_message(
    index: int,
    messages: list[dict[str, Any]],
    thinking_mode: ThinkingMode,
    drop_thinking: bool = True,
    reasoning_effort: Effort | None = None,
) -> str:
    """One merged message of a conversation, with the transition after it."""
    return _render_by(VLLM, index, messages, thinking_mode, drop_thinking, reasoning_effort)


def encode_arguments_to_dsml(tool_call: dict[str, Any]) -> str:
    """The parameters of `{"name", "arguments"}` as markup. Arguments in a string must be JSON."""
    return _parameters_by(VLLM, tool_call)


def parse_message_from_completion_text(text: str, thinking_mode: ThinkingMode) -> dict[str, Any]:
    """A well-formed completion as a message. Raises a `ValueError` for any other."""
    return _parse_by(VLLM, text, thinking_mode)

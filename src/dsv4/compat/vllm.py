"""vLLM's copy of the released functions.

It names an assistant's thinking `reasoning`, and refuses arguments that are not JSON. All else is
the released module's.
"""

from __future__ import annotations

from functools import partial

from dsv4.compat import release
from dsv4.compat.release import (
    ASSISTANT_SP_TOKEN,
    DS_TASK_SP_TOKENS,
    LATEST_REMINDER_SP_TOKEN,
    USER_SP_TOKEN,
    VALID_TASKS,
    _drop_thinking_messages,
    _read_until_stop,
    bos_token,
    decode_dsml_to_arguments,
    dsml_token,
    eos_token,
    find_last_user_index,
    merge_tool_messages,
    parse_tool_calls,
    render_tools,
    sort_tool_results_by_call_order,
    thinking_end_token,
    thinking_start_token,
    to_json,
    tool_calls_from_openai_format,
    tool_calls_to_openai_format,
    tools_from_openai_format,
)
from dsv4.encode.conventions import VLLM

encode_messages = partial(release.encode_messages, rules=VLLM)
render_message = partial(release.render_message, rules=VLLM)
encode_arguments_to_dsml = partial(release.encode_arguments_to_dsml, rules=VLLM)
parse_message_from_completion_text = partial(
    release.parse_message_from_completion_text, reasoning_field="reasoning"
)

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

"""The functions of the module released with V3.2: same names, parameters and results.

The top-level module `encoding_dsv32` is this one under its released name. Intended differences in
results are in docs/format.md, section 10; docs/encoding.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4._encode import types
from dsv4._encode.encode import render_conversation
from dsv4._encode.inputs import as_messages, check_roles
from dsv4._encode.render_v32 import RendererV32
from dsv4._encode.turns import RELEASED
from dsv4._format.dialects import V3_2
from dsv4.compat import release
from dsv4.compat.release import (
    ASSISTANT_SP_TOKEN,
    USER_SP_TOKEN,
    bos_token,
    decode_dsml_to_arguments,
    dsml_token,
    eos_token,
    find_last_user_index,
    response_format_template,
    system_msg_template,
    thinking_end_token,
    thinking_start_token,
    thinking_template,
    to_json,
    tool_call_template,
    tool_calls_from_openai_format,
    tool_calls_template,
    tool_calls_to_openai_format,
    tools_from_openai_format,
    user_msg_template,
)
from dsv4.errors import OptionError

__all__ = [
    "ASSISTANT_SP_TOKEN",
    "USER_SP_TOKEN",
    "assistant_msg_template",
    "bos_token",
    "decode_dsml_to_arguments",
    "dsml_token",
    "encode_arguments_to_dsml",
    "encode_messages",
    "eos_token",
    "find_last_user_index",
    "parse_message_from_completion_text",
    "parse_tool_calls",
    "render_message",
    "render_tools",
    "response_format_template",
    "system_msg_template",
    "thinking_end_token",
    "thinking_start_token",
    "thinking_template",
    "to_json",
    "tool_call_template",
    "tool_calls_from_openai_format",
    "tool_calls_template",
    "tool_calls_to_openai_format",
    "tools_from_openai_format",
    "user_msg_template",
]


assistant_msg_template: str = "{reasoning}{content}{tool_calls}" + eos_token


def encode_messages(
    messages: Sequence[types.MessageInput],
    thinking_mode: types.ThinkingMode,
    context: Sequence[types.MessageInput] | None = None,
    drop_thinking: bool = True,
    add_default_bos_token: bool = True,
) -> str:
    """The prompt of a conversation, as text."""
    release._listed(messages, "messages")
    release._listed(() if context is None else context, "context")
    if messages and thinking_mode not in release._MODES:
        raise release._unknown_mode(thinking_mode)
    renderer = render_conversation(
        messages,
        context or (),
        V3_2,
        RELEASED,
        thinking_mode == "thinking",
        drop_thinking,
        add_default_bos_token,
        effort="",
    )
    return "".join(renderer.flat)


def render_message(
    index: int, messages: list[dict[str, Any]], thinking_mode: types.ThinkingMode
) -> str:
    """One message of a conversation, with the header that it asks for after it."""
    release._check_kind(index, int, "index", "that of a message")
    if not 0 <= index < len(release._listed(messages, "messages")):
        raise OptionError("index", f"found {index}, expected one of {len(messages)} messages")
    if thinking_mode not in release._MODES:
        raise release._unknown_mode(thinking_mode)
    listed = as_messages(messages, "messages")
    check_roles(listed, "messages", known_only=False)
    # The message is the first of those after the context.
    renderer = RendererV32(
        listed[index:], listed[:index], V3_2, RELEASED, thinking_mode == "thinking", dropping=False
    )
    renderer.render(1)
    return "".join(renderer.flat)


_FUNCTIONS = release.ReleasedFunctions(V3_2)
render_tools = _FUNCTIONS.render_tools
encode_arguments_to_dsml = _FUNCTIONS.encode_arguments_to_dsml
parse_message_from_completion_text = _FUNCTIONS.parse_message_from_completion_text
parse_tool_calls = _FUNCTIONS.parse_tool_calls

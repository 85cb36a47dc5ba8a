"""The functions of the module released with V4.1: same names, parameters and results.

The top-level module `encoding_dsv41` is this one under its released name. Where the results
differ on purpose, docs/format.md, section 10, says how and docs/encoding.md says why.

Like the released module, it first replaces images by their placeholder, as text, and then encodes
text. `encode_messages` so returns images in the order of the messages, and some that no prompt
shows; `dsv4.Prompt.images` has one record for each placeholder, in the order of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, overload

from dsv4._encode import inputs, types
from dsv4._encode.encode import effort_text
from dsv4._encode.prompt import BLANK_LINE
from dsv4._encode.tools import function_of, qualified_call_name, qualified_function, qualified_name
from dsv4._encode.turns import RELEASED
from dsv4._format import tokens
from dsv4._format.dialects import NAMESPACE_END, V4, V4_1
from dsv4._format.frozen_class import replace
from dsv4._format.texts import EFFORT_TEMPLATE, EFFORTS_V4_1
from dsv4.compat import release
from dsv4.compat.release import (
    ASSISTANT_SP_TOKEN,
    DS_TASK_SP_TOKENS,
    LATEST_REMINDER_SP_TOKEN,
    USER_SP_TOKEN,
    VALID_TASKS,
    _read_until_stop,
    assistant_msg_template,
    assistant_msg_wo_eos_template,
    bos_token,
    dsml_token,
    eos_token,
    latest_reminder_msg_template,
    parse_tagged_text,
    response_format_template,
    sort_tool_results_by_call_order,
    system_msg_template,
    thinking_end_token,
    thinking_start_token,
    thinking_template,
    to_json,
    tool_calls_template,
    tool_output_template,
    user_msg_template,
)
from dsv4.errors import OptionError, mismatch

__all__ = [
    "ASSISTANT_SP_TOKEN",
    "DEFAULT_REASONING_EFFORT",
    "DS_TASK_SP_TOKENS",
    "IMAGE_PLACEHOLDER",
    "LATEST_REMINDER_SP_TOKEN",
    "REASONING_EFFORT_MAPPINGS",
    "REASONING_EFFORT_TEMPLATE",
    "SYSTEM_SP_TOKEN",
    "TOOLS_TEMPLATE",
    "USER_SP_TOKEN",
    "VALID_TASKS",
    "_drop_thinking_messages",
    "_encode_messages_text",
    "_extract_image",
    "_is_image_block",
    "_process_image_blocks",
    "_read_until_stop",
    "_split_tool_name",
    "_tool_name_for_encoding",
    "_validate_no_image_sp_tokens",
    "assistant_msg_template",
    "assistant_msg_wo_eos_template",
    "bos_token",
    "decode_dsml_to_arguments",
    "dsml_token",
    "encode_arguments_to_dsml",
    "encode_case",
    "encode_messages",
    "eos_token",
    "find_last_user_index",
    "latest_reminder_msg_template",
    "load_cases",
    "merge_tool_messages",
    "parse_message_from_completion_text",
    "parse_tagged_text",
    "parse_tool_calls",
    "process_image_messages",
    "render_message",
    "render_reasoning_effort",
    "render_tools",
    "response_format_template",
    "sort_tool_results_by_call_order",
    "system_msg_template",
    "thinking_end_token",
    "thinking_start_token",
    "thinking_template",
    "to_json",
    "tool_call_tag_name",
    "tool_call_template",
    "tool_calls_block_name",
    "tool_calls_from_openai_format",
    "tool_calls_template",
    "tool_calls_to_openai_format",
    "tool_output_template",
    "tool_parameter_tag_name",
    "tools_from_openai_format",
    "user_msg_template",
]

SYSTEM_SP_TOKEN = str(tokens.SYSTEM)
IMAGE_PLACEHOLDER = str(tokens.IMAGE)
tool_calls_block_name = V4_1.tags.calls
tool_call_tag_name = V4_1.tags.invoke
tool_parameter_tag_name = V4_1.tags.parameter
tool_call_template = release.tool_call_template.replace(V4.tags.invoke, "{tool_call_tag_name}")
TOOLS_TEMPLATE = (
    release.TOOLS_TEMPLATE.replace(f"}}{V4.tags.calls}", "}{tc_block_name}")
    .replace(f"}}{V4.tags.invoke}", "}{tool_call_tag_name}")
    .replace(f"}}{V4.tags.parameter}", "}{tool_parameter_tag_name}")
)
REASONING_EFFORT_TEMPLATE = EFFORT_TEMPLATE
REASONING_EFFORT_MAPPINGS = dict(EFFORTS_V4_1)
DEFAULT_REASONING_EFFORT = "high"

# Images are placeholders already, so texts may spell one.
_FUNCTIONS = release.ReleasedFunctions(replace(V4_1, image_text_refused=False))
_encode_messages_text = _FUNCTIONS.encode_messages
render_message = _FUNCTIONS.render_message
render_tools = _FUNCTIONS.render_tools
merge_tool_messages = _FUNCTIONS.merge_tool_messages
find_last_user_index = _FUNCTIONS.find_last_user_index
_drop_thinking_messages = _FUNCTIONS._drop_thinking_messages
encode_arguments_to_dsml = _FUNCTIONS.encode_arguments_to_dsml


@overload
def encode_messages(
    messages: Sequence[types.MessageInput],
    thinking_mode: types.ThinkingMode,
    context: Sequence[types.MessageInput] | None = None,
    drop_thinking: bool = True,
    add_default_bos_token: bool = True,
    reasoning_effort: types.Effort | None = None,
    return_multi_modal_data: Literal[False] = False,
) -> str: ...
@overload
def encode_messages(
    messages: Sequence[types.MessageInput],
    thinking_mode: types.ThinkingMode,
    context: Sequence[types.MessageInput] | None = None,
    drop_thinking: bool = True,
    add_default_bos_token: bool = True,
    reasoning_effort: types.Effort | None = None,
    *,
    return_multi_modal_data: Literal[True],
) -> tuple[str, dict[str, list[dict[str, Any]]]]: ...
def encode_messages(
    messages: Sequence[types.MessageInput],
    thinking_mode: types.ThinkingMode,
    context: Sequence[types.MessageInput] | None = None,
    drop_thinking: bool = True,
    add_default_bos_token: bool = True,
    reasoning_effort: types.Effort | None = None,
    return_multi_modal_data: bool = False,
) -> str | tuple[str, dict[str, list[dict[str, Any]]]]:
    """The prompt of a conversation, as text; with `return_multi_modal_data`, its images too."""
    texts, images = _without_images(messages, "messages")
    before = None if context is None else inputs.as_inputs(_without_images(context, "context")[0])
    options = (drop_thinking, add_default_bos_token, reasoning_effort)
    prompt = _encode_messages_text(inputs.as_inputs(texts), thinking_mode, before, *options)
    return (prompt, {"images": images}) if return_multi_modal_data else prompt


def render_reasoning_effort(
    index: int, thinking_mode: types.ThinkingMode, effort: types.Effort | None
) -> str:
    """What the effort writes before the message `index`."""
    text = effort_text(effort, V4_1, RELEASED)
    if thinking_mode not in release._MODES:
        raise release._unknown_mode(thinking_mode)
    return text if index == 0 and thinking_mode == "thinking" else ""


# Images.


def process_image_messages(
    messages: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages with placeholders for images, and the images. A list becomes `content_blocks`."""
    return _without_images(messages, "messages")


def _without_images(
    messages: Sequence[Any], name: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    listed = inputs.as_messages(release._listed(messages, name), name)
    inputs.refuse_image_text(IMAGE_PLACEHOLDER, listed, name, RELEASED.reasoning_fields)
    processed: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for message in map(dict, listed):
        blocks = message.get("content_blocks")
        if blocks is None and inputs.maybe_list(message.get("content")) is not None:
            blocks = message.pop("content")
        if blocks is not None:
            message["content_blocks"], pictures = _process_image_blocks(blocks)
            images += pictures
            if not isinstance(message.get("content"), str):
                _join_texts(message)
        processed.append(message)
    return processed, images


def _join_texts(message: dict[str, Any]) -> None:
    """Gives a message the texts of its blocks as its content."""
    texts = [
        inputs.read_block(block, ("content_blocks", n)).content
        for n, block in enumerate(message["content_blocks"])
        if inputs.type_of(block) == "text"
    ]
    message.pop("content", None)
    if texts:
        message["content"] = BLANK_LINE.join(texts)


def _process_image_blocks(
    blocks: Sequence[Any], image_placeholder: str = IMAGE_PLACEHOLDER
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Blocks with placeholders for images, those in tool results included, and the images."""
    release._check_kind(blocks, (list, tuple), "blocks", "a list of content blocks")
    processed: list[Any] = []
    images: list[dict[str, Any]] = []
    for block in blocks:
        if _is_image_block(block):
            images.append(_extract_image(block))
            block = {"type": "text", "text": image_placeholder}
        elif (
            inputs.type_of(block) == "tool_result"
            and inputs.maybe_list(block.get("content")) is not None
        ):
            inside, pictures = _process_image_blocks(block["content"], image_placeholder)
            images += pictures
            block = {**block, "content": inside}
        processed.append(block)
    return processed, images


def _is_image_block(block: object) -> bool:
    """Whether a block is an image."""
    return inputs.type_of(block) in inputs.IMAGE_TYPES


def _extract_image(block: dict[str, Any]) -> dict[str, Any]:
    """The record of an image."""
    return inputs.image_record(inputs.as_message(block, ("block",)), ("block",))


def _validate_no_image_sp_tokens(msg: dict[str, Any]) -> None:
    """Raises where a text of the message spells the placeholder."""
    inputs.refuse_image_text(IMAGE_PLACEHOLDER, [msg], "messages", RELEASED.reasoning_fields)


# Tools and calls, which may have a namespace (docs/format.md, section 13.3).


def _split_tool_name(name: str, namespace: str | None = None) -> tuple[str | None, str]:
    """The namespace of a name, or None, and the name in it."""
    release._check_kind(name, str, "name", "the name of a tool")
    before, separator, after = qualified_name(name, namespace, ("name",)).partition(NAMESPACE_END)
    return (before, after) if separator else (None, before)


def _tool_name_for_encoding(tool: dict[str, Any]) -> str:
    """The name of `{"name", "namespace"}` as the model sees it."""
    return qualified_call_name({}, tool, ())


def tools_from_openai_format(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The function objects of OpenAI tools, with qualified names."""
    results = [
        function_of(tool, RELEASED.named_tools, ("tools", n)) for n, tool in enumerate(tools)
    ]
    return [
        qualified_function(tool, function, ("tools", n))
        for n, (tool, function) in enumerate(results)
    ]


def tool_calls_from_openai_format(tool_calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """OpenAI tool calls as `{"name", "arguments", "namespace"}`."""
    return [
        _with_namespace(
            qualified_call_name(call, call["function"], ("tool_calls", n)),
            call["function"].get("arguments"),
        )
        for n, call in enumerate(tool_calls)
    ]


def _with_namespace(qualified: str, arguments: Any) -> dict[str, Any]:
    namespace, name = _split_tool_name(qualified)
    call = {"name": name, "arguments": arguments}
    return call if namespace is None else {**call, "namespace": namespace}


def tool_calls_to_openai_format(tool_calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`{"name", "arguments", "namespace"}` as OpenAI tool calls."""
    calls = release.tool_calls_to_openai_format(tool_calls)
    namespaces = ({f: call[f] for f in ("namespace",) if f in call} for call in tool_calls)
    return [call | namespace for call, namespace in zip(calls, namespaces, strict=True)]


def decode_dsml_to_arguments(
    tool_name: str, tool_args: dict[str, tuple[str, str]]
) -> dict[str, str]:
    """A call from its parameters: name -> (value, "true" for a string and "false" for JSON)."""
    arguments = release.decode_dsml_to_arguments(tool_name, tool_args)["arguments"]
    return _with_namespace(tool_name, arguments)


def parse_tool_calls(index: int, text: str) -> tuple[int, str | None, list[dict[str, str]]]:
    """The calls of a block, from after the name in its opening tag on.

    Returns where the block ends, the tag that ended it, and the calls.
    """
    end, closed_by, calls = _FUNCTIONS.parse_tool_calls(index, text)
    return end, closed_by, [_with_namespace(call["name"], call["arguments"]) for call in calls]


def parse_message_from_completion_text(
    text: str, thinking_mode: types.ThinkingMode
) -> dict[str, Any]:
    """A well-formed completion as a message. Raises a `ValueError` for any other."""
    message = _FUNCTIONS.parse_message_from_completion_text(text, thinking_mode)
    functions = (call["function"] for call in message["tool_calls"])
    calls = [_with_namespace(call["name"], call["arguments"]) for call in functions]
    return {**message, "tool_calls": tool_calls_to_openai_format(calls)}


# Cases in files.


def load_cases(input_file: str) -> list[dict[str, Any]]:
    """The cases of a JSON file: `{"messages", "tools"}`, or a list of them.

    The tools of a case are put on its first message, whatever its role.
    """
    with open(input_file, encoding="utf-8") as file:
        read = json.load(file)
    return [_case(case, n) for n, case in enumerate(read if isinstance(read, list) else [read])]


def _case(case: object, index: int) -> dict[str, Any]:
    if not isinstance(case, dict) or not isinstance(case.get("messages"), list):
        raise OptionError(("cases", index), mismatch(case, "one with messages"))
    messages = list(case["messages"])
    if messages and case.get("tools"):
        messages[0] = {**messages[0], "tools": case["tools"]}
    return {**case, "messages": messages}


def encode_case(
    case: dict[str, Any], thinking_mode: types.ThinkingMode
) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """The prompt of one of these cases, and its images."""
    messages = case["messages"]
    return encode_messages(messages, thinking_mode, return_multi_modal_data=True)

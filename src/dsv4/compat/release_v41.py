"""The functions of the module released with V4.1: same names, parameters and results.

The top-level module `encoding_dsv41` is this one under its released name. Intended differences in
results are in docs/format.md, section 10; docs/encoding.md has the reasons.

Like the released module, it first replaces images by their placeholder, as text, and then encodes
text. So `encode_messages` returns images in the order of the messages, including some that no
prompt shows; `dsv4.Prompt.images` has one record for each placeholder, in the order of the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, overload

from dsv4._encode import inputs, types
from dsv4._encode.encode import effort_text
from dsv4._encode.inputs import maybe_list
from dsv4._encode.prompt import BLANK_LINE
from dsv4._encode.tools import function_of, qualified_call_name, qualified_function, qualified_name
from dsv4._encode.turns import RELEASED, block_field
from dsv4._format import tokens
from dsv4._format.dialects import NAMESPACE_END, V4, V4_1, Dialect
from dsv4._format.frozen_class import replace
from dsv4._format.texts import EFFORT_TEMPLATE, EFFORTS_V4_1, UNSUPPORTED
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
    "IMAGE_TAG_PATTERN",
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
tool_calls_block_name: str = V4_1.tags.calls
tool_call_tag_name: str = V4_1.tags.invoke
tool_parameter_tag_name: str = V4_1.tags.parameter
tool_call_template: str = release.tool_call_template.replace(V4.tags.invoke, "{tool_call_tag_name}")
TOOLS_TEMPLATE = (
    release.TOOLS_TEMPLATE.replace(f"}}{V4.tags.calls}", "}{tc_block_name}")
    .replace(f"}}{V4.tags.invoke}", "}{tool_call_tag_name}")
    .replace(f"}}{V4.tags.parameter}", "}{tool_parameter_tag_name}")
)
REASONING_EFFORT_TEMPLATE = EFFORT_TEMPLATE
REASONING_EFFORT_MAPPINGS = dict(EFFORTS_V4_1)
DEFAULT_REASONING_EFFORT = "high"


class ReleasedFunctionsV41(release.ReleasedFunctions):
    """The functions of V4.1's modules that differ from V4's.

    `merges_first` says whether a module merges before it looks for images, as October's does. Then
    a tool's list stays a list, and `content_blocks` replace a content that is not text.
    """

    def __init__(self, dialect: Dialect, merges_first: bool = False) -> None:
        # Images become placeholders before a text is encoded, so texts may spell one there.
        super().__init__(replace(dialect, image_text_refused=False))
        self.merges_first = merges_first

    def _result_content(self, message: dict[str, Any]) -> Any:
        content = message.get("content", "")
        if self.merges_first and not isinstance(message.get("content"), str):
            return message.get("content_blocks") or content
        return content

    def _blocks_of_user(self, message: dict[str, Any], index: int) -> list[Any]:
        blocks, content = message.get("content_blocks"), message.get("content", "")
        if blocks is None and self.merges_first and isinstance(content, list):
            return content  # in October's file the content grows with the blocks of the turn
        return [{"type": "text", "text": content}] if blocks is None else list(blocks)

    def _encode_messages_text(
        self,
        messages: Sequence[types.MessageInput],
        thinking_mode: types.ThinkingMode,
        context: Sequence[types.MessageInput] | None = None,
        drop_thinking: bool = True,
        add_default_bos_token: bool = True,
        reasoning_effort: types.Effort | None = None,
    ) -> str:
        """The prompt of messages whose images were already turned into texts.

        In October's module, they were already merged and sorted too.
        """
        if self.merges_first:
            after, before = _with_roles(messages, "messages"), _with_roles(context or (), "context")
            options = (thinking_mode, drop_thinking, reasoning_effort)
            opening = bos_token if add_default_bos_token and not before else ""
            return opening + self._encode_merged(after, before, *options)
        texts = _without_pictures(messages)
        known = _without_pictures(context) if context else None
        rest = (drop_thinking, add_default_bos_token, reasoning_effort)
        return super().encode_messages(texts, thinking_mode, known, *rest)

    def _encode_merged(
        self,
        messages: list[Any],
        context: list[Any],
        thinking_mode: types.ThinkingMode,
        drops: bool,
        effort: types.Effort | None,
    ) -> str:
        both = [*context, *messages]
        drops = drops and not any(message.get("tools") for message in both)
        if drops and thinking_mode == "thinking":
            both = self._drop_thinking_messages(both)
            context = self._drop_thinking_messages(context)
        indices = range(len(context), len(both))
        return "".join(
            self.render_message(index, both, thinking_mode, drops, effort) for index in indices
        )

    def render_message(
        self,
        index: int,
        messages: list[dict[str, Any]],
        thinking_mode: types.ThinkingMode,
        drop_thinking: bool = True,
        reasoning_effort: types.Effort | None = None,
    ) -> str:
        """One merged message of a conversation, with the transition after it."""
        texts = _without_pictures(messages)
        return super().render_message(index, texts, thinking_mode, drop_thinking, reasoning_effort)

    def parse_message_from_completion_text(
        self, text: str, thinking_mode: types.ThinkingMode
    ) -> dict[str, Any]:
        """A well-formed completion as a message. Raises a `ValueError` for any other."""
        # A completion that ends with the name of its only block has no calls.
        opening = self.dialect.tags.block_open[:-2]
        if isinstance(text, str) and text.endswith(opening) and text.count(opening) == 1:
            text = text.removesuffix(opening) + eos_token
        message = super().parse_message_from_completion_text(text, thinking_mode)
        functions = (call["function"] for call in message["tool_calls"])
        calls = [_with_namespace(call["name"], call["arguments"]) for call in functions]
        return {**message, "tool_calls": tool_calls_to_openai_format(calls)}

    def parse_tool_calls(
        self, index: int, text: str
    ) -> tuple[int, str | None, list[dict[str, Any]]]:
        """The calls of a block, from after the name in its opening tag on.

        Returns the end of the block, the tag that ended it, and the calls.
        """
        end, closed_by, calls = super().parse_tool_calls(index, text)
        return end, closed_by, [_with_namespace(call["name"], call["arguments"]) for call in calls]

    # The treatment of images before text is encoded.

    @overload
    def encode_messages(
        self,
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
        self,
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
        self,
        messages: Sequence[types.MessageInput],
        thinking_mode: types.ThinkingMode,
        context: Sequence[types.MessageInput] | None = None,
        drop_thinking: bool = True,
        add_default_bos_token: bool = True,
        reasoning_effort: types.Effort | None = None,
        return_multi_modal_data: bool = False,
    ) -> str | tuple[str, dict[str, list[dict[str, Any]]]]:
        """The prompt of a conversation, as text; with `return_multi_modal_data`, its images too."""
        texts, before = messages, context
        if self.merges_first:
            images = self._images_in_order(messages, context)
        else:
            texts, images = _as_texts(messages, "messages")
            before = _as_texts(context, "context")[0] if context else None
        options = (drop_thinking, add_default_bos_token, reasoning_effort)
        prompt = super().encode_messages(texts, thinking_mode, before, *options)
        return (prompt, {"images": images}) if return_multi_modal_data else prompt

    def _images_in_order(
        self, messages: Sequence[Any], context: Sequence[Any] | None
    ) -> list[dict[str, Any]]:
        """The images of the messages, in the order in which the prompt shows them."""
        listed = _with_plain_lists(messages, "messages")
        before = _with_plain_lists(context, "context") if context else []
        for name, each in (("messages", listed), ("context", before)):
            inputs.refuse_image_text(IMAGE_PLACEHOLDER, each, name, RELEASED.reasoning_fields)
        known, merged = map(self.merge_tool_messages, (list(before), list(listed)))
        ordered = sort_tool_results_by_call_order([*known, *merged])
        return _without_images(ordered[len(known) :], "messages")[1]

    def encode_case(
        self, case: dict[str, Any], thinking_mode: types.ThinkingMode
    ) -> tuple[str, list[dict[str, Any]]]:
        """The prompt of a case, and its images. The case's own mode takes precedence."""
        prompt, found = self.encode_messages(
            case["messages"],
            case.get("thinking_mode") or thinking_mode,
            case.get("context"),
            reasoning_effort=case.get("reasoning_effort"),
            return_multi_modal_data=True,
        )
        return prompt, found["images"]


_FUNCTIONS = ReleasedFunctionsV41(V4_1)
encode_messages = _FUNCTIONS.encode_messages
encode_case = _FUNCTIONS.encode_case
_encode_messages_text = _FUNCTIONS._encode_messages_text
render_message = _FUNCTIONS.render_message
render_tools = _FUNCTIONS.render_tools
merge_tool_messages = _FUNCTIONS.merge_tool_messages
find_last_user_index = _FUNCTIONS.find_last_user_index
_drop_thinking_messages = _FUNCTIONS._drop_thinking_messages
encode_arguments_to_dsml = _FUNCTIONS.encode_arguments_to_dsml
parse_message_from_completion_text = _FUNCTIONS.parse_message_from_completion_text
parse_tool_calls = _FUNCTIONS.parse_tool_calls


def render_reasoning_effort(
    index: int, thinking_mode: types.ThinkingMode, effort: types.Effort | None
) -> str:
    """The text of the effort before the message `index`."""
    text = effort_text(effort, V4_1, RELEASED)
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
    listed = inputs.as_messages(release._items(messages, name), name)
    inputs.refuse_image_text(IMAGE_PLACEHOLDER, listed, name, RELEASED.reasoning_fields)
    processed: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for message in map(dict, listed):
        if "content_blocks" not in message:
            content = message.get("content")
            if not isinstance(content, str) and maybe_list(content) is not None:
                message["content_blocks"] = message.pop("content")
        if message.get("content_blocks"):
            message["content_blocks"], pictures = _process_image_blocks(message["content_blocks"])
            images += pictures
            if not isinstance(message.get("content"), str):
                message["content"] = _joined_texts(message["content_blocks"])
        processed.append(message)
    return processed, images


def _as_texts(
    messages: Sequence[Any], name: str
) -> tuple[Sequence[types.MessageInput], list[dict[str, Any]]]:
    listed = _with_plain_lists(messages, name)
    if all(map(_is_text, listed)):
        inputs.refuse_image_text(IMAGE_PLACEHOLDER, listed, name, RELEASED.reasoning_fields)
        return inputs.as_inputs(listed), []
    texts, images = _without_images(listed, name)
    return inputs.as_inputs(texts), images


def _is_text(message: dict[str, Any]) -> bool:
    """Whether a message needs no change, like most."""
    return "content_blocks" not in message and type(message.get("content")) in _TEXTS


_TEXTS = (str, type(None))


def _with_plain_lists(messages: object, name: str) -> Sequence[dict[str, Any]]:
    """Messages without empty `content_blocks` beside a list, which is then the content."""
    listed = inputs.as_messages(release._listed(messages, name), name)
    if not any("content_blocks" in message for message in listed):
        return listed
    return [
        {field: value for field, value in message.items() if field != "content_blocks"}
        if "content_blocks" in message
        and block_field(message) == "content"
        and maybe_list(message.get("content")) is not None
        else message
        for message in listed
    ]


def _with_roles(messages: object, name: str) -> list[Any]:
    listed = inputs.as_messages(release._listed(messages, name), name)
    inputs.check_roles(listed, name, RELEASED.known_roles_only)
    return list(listed)


def _without_pictures(messages: Any) -> Any:
    """Messages as they are read if images were not looked for: only users' have `content_blocks`,
    and an image is like any other block that is not text."""
    return list(map(_unprepared, messages)) if isinstance(messages, (list, tuple)) else messages


def _unprepared(message: Any) -> Any:
    fields = inputs.maybe_dict(message)
    if fields is None or "content_blocks" not in fields:
        return message
    if fields.get("role") != "user":
        content = fields.get("content")
        if content is None:
            return {**fields, "content": ""}
        bare = {field: fields[field] for field in fields if field != "content_blocks"}
        return message if isinstance(content, str) else bare
    return {**fields, "content_blocks": _named_images(fields["content_blocks"])}


def _named_images(blocks: Any) -> Any:
    listed = inputs.maybe_list(blocks)
    return blocks if listed is None else list(map(_named_image, listed))


def _named_image(block: Any) -> Any:
    kind = inputs.type_of(block)
    if kind in inputs.IMAGE_TYPES:
        return {"type": "text", "text": kind.join(UNSUPPORTED)}
    if kind == "tool_result":
        return {**block, "content": _named_images(block.get("content"))}
    return block


def _joined_texts(blocks: Sequence[Any]) -> str:
    """The texts of blocks, joined to a content."""
    return BLANK_LINE.join(
        inputs.read_block(block, ("content_blocks", n)).content
        for n, block in enumerate(blocks)
        if inputs.type_of(block) == "text"
    )


def _process_image_blocks(
    blocks: Sequence[Any], image_placeholder: str = IMAGE_PLACEHOLDER
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Blocks with placeholders for images, those in tool results included, and the images."""
    processed: list[Any] = []
    images: list[dict[str, Any]] = []
    for block in release._items(blocks, "blocks"):
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
    """Raises if a text of the message spells the placeholder."""
    inputs.refuse_image_text(IMAGE_PLACEHOLDER, [msg], "messages", RELEASED.reasoning_fields)


# Tools and calls, which may have a namespace (docs/format.md, section 13.3).


def _split_tool_name(name: str, namespace: str | None = None) -> tuple[str | None, str]:
    """The namespace in a name, or None, and the rest of the name."""
    release._check_kind(name, str, "name", "the name of a tool")
    if namespace is not None:
        release._check_kind(namespace, str, "namespace", "the name of a namespace")
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
    """OpenAI tool calls as `{"name", "arguments", "namespace"}`, with the namespace as given."""
    calls = []
    for n, call in enumerate(tool_calls):
        function = inputs.maybe_dict(call.get("function"))
        if function is None:
            expected = mismatch(call.get("function"), "a function object")
            raise OptionError(("tool_calls", n, "function"), expected)
        qualified = qualified_call_name(call, function, ("tool_calls", n))
        read = _with_namespace(qualified, function.get("arguments"))
        given = call.get("namespace") or function.get("namespace")
        calls.append({**read, "namespace": given} if inputs.maybe_dict(given) else read)
    return calls


IMAGE_TAG_PATTERN = re.compile(release.IMAGE_TAG, re.DOTALL)


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


# Cases in files.


def load_cases(input_file: str) -> list[dict[str, Any]]:
    """The cases of a JSON file: a case, a list of cases, or the messages of one.

    The tools of a case are put on its first message, whatever its role.
    """
    with open(input_file, encoding="utf-8") as file:
        read = json.load(file)
    cases = read if isinstance(read, list) else [read]
    if cases and isinstance(cases[0], dict) and "messages" not in cases[0] and "role" in cases[0]:
        cases = [{"messages": cases}]
    return [_case(case, n) for n, case in enumerate(cases)]


def _case(case: object, index: int) -> dict[str, Any]:
    if not isinstance(case, dict) or not isinstance(case.get("messages"), list):
        raise OptionError(("cases", index), mismatch(case, "one with messages"))
    messages = list(case["messages"])
    if "tools" in case:
        if not messages:
            raise OptionError(("cases", index), "found tools and no message to put them on")
        messages[0] = {**messages[0], "tools": case["tools"]}
    options = ("context", "thinking_mode", "reasoning_effort")
    return {"messages": messages, **{option: case.get(option) for option in options}}

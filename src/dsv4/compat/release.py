"""The released module's functions: same names, parameters and results.

Functions that depend on a dialect, or on the project whose copy of the module it is, are methods of
`ReleasedFunctions`: the modules of other releases, and vLLM's, have their own.

The top-level module `encoding_dsv4` is this one under its released name. Intended differences in
results are in docs/format.md, section 10; docs/encoding.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from dsv4._encode import tools, types
from dsv4._encode.encode import effort_text, render_conversation
from dsv4._encode.inputs import as_message, as_messages, check_roles, maybe_list, text_of, type_of
from dsv4._encode.render_v4 import NEVER_SHOWN, RendererV4, maybe_plain_chat
from dsv4._encode.tools import function_of, parameters_writer, schemas_text
from dsv4._encode.turns import (
    RELEASED,
    SPOKEN_TYPES,
    Conventions,
    call_places,
    result_place,
    sort_results,
    survives_dropping,
)
from dsv4._format import tokens
from dsv4._format.dialects import V4, Dialect
from dsv4._format.frozen_class import replace
from dsv4._format.texts import RESPONSE_FORMAT
from dsv4.errors import EncodeError, OptionError, ParseError, mismatch

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


bos_token: str = str(tokens.BOS)
eos_token: str = str(tokens.EOS)
thinking_start_token: str = str(tokens.THINK_START)
thinking_end_token: str = str(tokens.THINK_END)
dsml_token: str = str(tokens.DSML)
USER_SP_TOKEN = str(tokens.USER)
ASSISTANT_SP_TOKEN = str(tokens.ASSISTANT)
LATEST_REMINDER_SP_TOKEN = str(tokens.LATEST_REMINDER)
DS_TASK_SP_TOKENS = {task: str(token) for task, token in tokens.TASK_TOKENS.items()}
VALID_TASKS = set(DS_TASK_SP_TOKENS)
_MODES = ("thinking", "chat")

# The released module's templates, which other programs import. They are not used here.
system_msg_template = user_msg_template = latest_reminder_msg_template = "{content}"
thinking_template = "{reasoning_content}"
assistant_msg_wo_eos_template = "{reasoning}{content}{tool_calls}"
assistant_msg_template: str = assistant_msg_wo_eos_template + eos_token
tool_calls_block_name: str = V4.tags.calls
tool_call_template = '<{dsml_token}invoke name="{name}">\n{arguments}\n</{dsml_token}invoke>'
tool_calls_template = "<{dsml_token}{tc_block_name}>\n{tool_calls}\n</{dsml_token}{tc_block_name}>"
tool_output_template = f"{tokens.RESULT_START}{{content}}{tokens.RESULT_END}"
response_format_template = RESPONSE_FORMAT + "{schema}"
REASONING_EFFORT_MAX = V4.efforts["max"]
TOOLS_TEMPLATE = (
    V4.tools_section.replace("{schemas}", "{tool_schemas}")
    .replace(dsml_token, "{dsml_token}")
    .replace(thinking_start_token, "{thinking_start_token}")
    .replace(thinking_end_token, "{thinking_end_token}")
)


class ReleasedFunctions:
    """The functions of a released module that depend on its dialect, or on the project it is in."""

    def __init__(self, dialect: Dialect, rules: Conventions = RELEASED) -> None:
        self.dialect = dialect
        self.rules = rules

    def encode_messages(
        self,
        messages: Sequence[types.MessageInput],
        thinking_mode: types.ThinkingMode,
        context: Sequence[types.MessageInput] | None = None,
        drop_thinking: bool = True,
        add_default_bos_token: bool = True,
        reasoning_effort: types.Effort | None = None,
    ) -> str:
        """The prompt of a conversation, as text."""
        dialect, bos = self.dialect, add_default_bos_token
        if messages.__class__ is not list:
            messages = _listed(messages, "messages")
        if context:
            _listed(context, "context")
        if thinking_mode not in _MODES:
            raise _unknown_mode(thinking_mode)
        thinking = thinking_mode == "thinking"
        effort = effort_text(reasoning_effort, dialect, self.rules)
        if messages and drop_thinking and not context:
            chat = maybe_plain_chat(messages, dialect, thinking, bos, effort)
            if chat is not None:
                return "".join(chat)
        renderer = render_conversation(
            messages, context or (), dialect, self.rules, thinking, drop_thinking, bos, effort
        )
        return "".join(renderer.flat)

    def render_message(
        self,
        index: int,
        messages: list[dict[str, Any]],
        thinking_mode: types.ThinkingMode,
        drop_thinking: bool = True,
        reasoning_effort: types.Effort | None = None,
    ) -> str:
        """One merged message of a conversation, with the transition after it."""
        dialect, rules = self.dialect, self.rules
        if thinking_mode not in _MODES:
            raise _unknown_mode(thinking_mode)
        thinking, effort = (
            thinking_mode == "thinking",
            effort_text(reasoning_effort, dialect, rules),
        )
        merged = as_messages(_listed(messages, "messages"), "messages")
        check_roles(merged, "messages", rules.known_roles_only)
        _check_kind(index, int, "index", "that of a message")
        if not 0 <= index < len(merged):
            raise OptionError("index", f"found {index}, expected one of {len(merged)} messages")
        message = merged[index]
        if message["role"] == "tool":
            problem = "found a tool message, expected it merged into a user message"
            raise EncodeError(("messages", index, "role"), problem)
        last = self.find_last_user_index(merged) if drop_thinking else -1
        has_blocks = message["role"] == "user" and message.get("content_blocks")
        # Up to this message and no further, so that the next one cannot be merged with it.
        renderer = RendererV4(
            merged[: index + 1],
            _MERGED if dialect is V4 and has_blocks else dialect,
            rules,
            shown_from=last if thinking else NEVER_SHOWN,
            first=0 if index == 0 else None,
            task_before=merged[index - 1].get("task") if index else None,
        )
        follower = merged[index + 1]["role"] if index + 1 < len(merged) else None
        if index == 0:
            renderer.start(bos=False, effort=effort if thinking else "")
        renderer.render(index, ends_asking=follower in (None, "assistant", "latest_reminder"))
        return "".join(renderer.flat)

    def render_tools(self, tools: list[dict[str, Any]]) -> str:
        """The tools section, from function objects."""
        bare = [{"function": tool} for tool in _items(tools, "tools")]
        schemas = schemas_text(bare, RELEASED.named_tools, self.dialect.namespace_end, ("tools",))
        return self.dialect.tools_open + schemas + self.dialect.tools_close

    def merge_tool_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """User and tool messages as user turns with `content_blocks`; the others as they are."""
        keeps_all = self.dialect.users_keep_tools
        merged: list[dict[str, Any]] = []
        turn: dict[str, Any] | None = None  # the user turn that is open
        for index, listed in enumerate(_items(messages, "messages")):
            message = _copied(as_message(listed, ("messages", index)), index)
            role = message.get("role") if isinstance(message.get("role"), str) else None
            if role == "tool":
                block = {
                    "type": "tool_result",
                    "tool_use_id": message.get("tool_call_id", ""),
                    "content": self._result_content(message),
                }
                if turn is None:
                    turn = {"role": "user", "content_blocks": []}
                    merged.append(turn)
                turn["content_blocks"].append(block)
            elif role == "user":
                blocks = self._blocks_of_user(message, index)
                if turn is None or turn.get("task") is not None:
                    turn = {f: message[f] for f in message if keeps_all or f in _FIELDS}
                    turn["content_blocks"] = blocks
                    merged.append(turn)
                else:
                    turn["content_blocks"] += blocks
            else:
                turn = None
                merged.append(message)
        return merged

    def _result_content(self, message: dict[str, Any]) -> Any:
        """The content of the result in a tool message."""
        return message.get("content", "")

    def _blocks_of_user(self, message: dict[str, Any], index: int) -> list[Any]:
        """The blocks of a user message: in V4 its text, which also becomes its content."""
        text = text_of(message.get("content"), ("messages", index, "content"))
        message["content"] = text
        return [{"type": "text", "text": text}]

    def find_last_user_index(self, messages: Sequence[dict[str, Any]]) -> int:
        """The index of the last message that asks, of a user or developer, in V4.1 also of a later
        system message; -1 if there is none."""
        asking = [role for role in ("user", "developer") if role in self.dialect.roles]
        later = [*asking, "system"] if self.dialect.systems_ask == "later" else asking
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if message.get("role") in (later if index else asking) and (
                self.dialect.results_ask or not _is_wordless(message)
            ):
                return index
        return -1

    def _drop_thinking_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The merged messages that dropping keeps, without reasoning before the last user turn."""
        messages = list(messages)
        last = self.find_last_user_index(messages)
        others = (m for m in messages[: max(last, 0)] if survives_dropping(m))
        hidden = RELEASED.reasoning_fields
        stripped = [{k: v for k, v in m.items() if k not in hidden} for m in others]
        return [*stripped, *messages[max(last, 0) :]]

    def encode_arguments_to_dsml(self, tool_call: dict[str, Any]) -> str:
        """The parameters of `{"name", "arguments"}` as markup."""
        _check_kind(tool_call, dict, "tool_call", "a call with its arguments")
        rule = self.rules.arguments or self.dialect.arguments
        try:
            writer = parameters_writer(self.dialect.tags, rule)
            return str(writer.write(tool_call.get("arguments")))
        except (EncodeError, OptionError) as error:
            raise OptionError(("arguments", *error.location), error.problem) from None

    def parse_message_from_completion_text(
        self, text: str, thinking_mode: types.ThinkingMode
    ) -> dict[str, Any]:
        """A well-formed completion as a message. Raises a `ValueError` for any other."""
        _check_kind(text, str, "text", "text")
        from dsv4._completion.strict import read_strictly  # many only encode

        message = read_strictly(text, thinking_mode == "thinking", self.dialect.tags)
        calls = [{"name": name, "arguments": arguments} for name, arguments in message.calls]
        return {
            "role": "assistant",
            "content": message.content,
            self.rules.reasoning_fields[0]: message.reasoning,
            "tool_calls": tool_calls_to_openai_format(calls),
        }

    def parse_tool_calls(
        self, index: int, text: str
    ) -> tuple[int, str | None, list[dict[str, str]]]:
        """The calls of a block, from after the name in its opening tag on.

        Returns the end of the block, the tag that ended it, and the calls.
        """
        _check_kind(text, str, "text", "text")
        _check_kind(index, int, "index", "a place in the text")
        tags = self.dialect.tags
        opened = tags.block_open[-2:]
        if index >= len(text):  # the completion ends with the name
            return index, None, []
        if not text.startswith(opened, index):
            raise ParseError(index, mismatch(text[index : index + 2], repr(opened)))
        from dsv4._completion.strict import read_calls  # many only encode

        end, calls = read_calls(text, index + len(opened), tags)
        results = [{"name": name, "arguments": arguments} for name, arguments in calls]
        is_closed = text.endswith(tags.block_close, 0, end)
        return end, tags.block_close[1:] if is_closed else tags.invoke_close[1:-1], results


_FUNCTIONS = ReleasedFunctions(V4)
encode_messages = _FUNCTIONS.encode_messages
render_message = _FUNCTIONS.render_message
render_tools = _FUNCTIONS.render_tools
merge_tool_messages = _FUNCTIONS.merge_tool_messages
find_last_user_index = _FUNCTIONS.find_last_user_index
_drop_thinking_messages = _FUNCTIONS._drop_thinking_messages
encode_arguments_to_dsml = _FUNCTIONS.encode_arguments_to_dsml
parse_message_from_completion_text = _FUNCTIONS.parse_message_from_completion_text
parse_tool_calls = _FUNCTIONS.parse_tool_calls


def _unknown_mode(thinking_mode: object) -> OptionError:
    return OptionError("thinking_mode", mismatch(thinking_mode, '"chat" or "thinking"'))


def _check_kind(value: object, kind: type | tuple[type, ...], name: str, expected: str) -> None:
    if not isinstance(value, kind):
        raise OptionError(name, mismatch(value, expected))


def _listed(messages: object, name: str) -> Sequence[Any]:
    if not isinstance(messages, (list, tuple)):
        raise EncodeError((name,), mismatch(messages, "a list of messages"))
    return messages


def _items(values: object, name: str) -> Sequence[Any]:
    """The items of an argument that the released function only iterates over."""
    if isinstance(values, (list, tuple)):
        return values
    _check_kind(values, Iterable, name, "a list")
    return list(cast(Iterable[Any], values))


# The dialect for reading a merged user message: its blocks are those of the turn.
_MERGED = replace(V4, lists_are_blocks=True)


# The fields that a user turn keeps of its first message in V4.
_FIELDS = ("role", "content", "task", "wo_eos", "mask")


def _copied(message: dict[str, Any], index: int) -> dict[str, Any]:
    try:
        from copy import deepcopy  # takes a while to import

        return deepcopy(message)
    except Exception as error:  # an object's own fault
        problem = mismatch(message, f"what can be copied: {error}")
        raise EncodeError(("messages", index), problem) from None


def sort_tool_results_by_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merged messages with the results of each user turn in the order of their calls."""
    places: dict[Any, int] = {}
    ordered = []
    for message in messages:
        blocks = message.get("content_blocks")
        if message.get("role") == "assistant" and message.get("tool_calls"):
            places = call_places(maybe_list(message["tool_calls"]) or ())
        elif message.get("role") == "user" and blocks and places:
            message = {**message, "content_blocks": _in_call_order(blocks, places)}
        ordered.append(message)
    return ordered or messages


def _is_wordless(message: dict[str, Any]) -> bool:
    """Whether a merged message has blocks, but no text among them."""
    blocks = maybe_list(message.get("content_blocks")) or ()
    return bool(blocks) and all(type_of(block) not in SPOKEN_TYPES for block in blocks)


def _in_call_order(blocks: list[dict[str, Any]], places: dict[Any, int]) -> list[dict[str, Any]]:
    def place(block: dict[str, Any]) -> int | None:
        if block.get("type") != "tool_result":
            return None
        return result_place(block.get("tool_use_id"), places)

    placed = [(place(block), block) for block in blocks]
    sort_results(placed)
    return [block for _, block in placed]


def to_json(value: object) -> str:
    """A value as JSON, as it is written in prompts."""
    return tools.to_json(value)


def tools_from_openai_format(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The function objects of OpenAI tools."""
    return [
        function_of(tool, RELEASED.named_tools, ("tools", n))[1] for n, tool in enumerate(tools)
    ]


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


def decode_dsml_to_arguments(
    tool_name: str, tool_args: dict[str, tuple[str, str]]
) -> dict[str, str]:
    """A call from its parameters: name -> (value, "true" for a string and "false" for JSON)."""
    members = {
        key: to_json(value) if string == "true" else value
        for key, (value, string) in tool_args.items()
    }
    from dsv4._completion.json_text import object_text  # many only encode

    return {"name": tool_name, "arguments": object_text(members)}


IMAGE_TAG = "<image>(.*?)</image>"
_TAGGED = f"(?s){IMAGE_TAG}"


def parse_tagged_text(text: str) -> str | list[dict[str, Any]]:
    """A text in which `<image>PATH</image>` stands for images, as blocks of content.

    Without such a tag it is the text itself. From the vision preview's module.
    """
    _check_kind(text, str, "text", "text")
    import re  # as above

    texts, paths = re.split(_TAGGED, text)[::2], re.findall(_TAGGED, text)
    rest = "".join(texts)
    if not all(paths) or "<image>" in rest or "</image>" in rest:
        raise OptionError("text", mismatch(text, "every <image> with a path and an </image>"))
    if not paths:
        return text
    blocks: list[dict[str, Any]] = []
    for words, path in zip(texts, [*paths, None], strict=True):
        if words:
            blocks.append({"type": "text", "text": words})
        if path is not None:
            blocks.append({"type": "image_url", "image_url": {"url": path}})
    return blocks


def _read_until_stop(index: int, text: str, stop: Sequence[str]) -> tuple[int, str, str | None]:
    """The text from `index` up to the first of the stop strings, that string, and its end."""
    results = [(at, word) for word in stop if (at := text.find(word, index)) >= 0]
    if not results:
        return len(text), text[index:], None
    at, word = min(results, key=lambda pair: pair[0])
    return at + len(word), text[index:at], word
